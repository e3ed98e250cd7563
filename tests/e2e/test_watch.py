# SPDX-License-Identifier: GPL-2.0-only
"""`bigos watch` for real: a process, a folder, files that come slowly, change, move and go.

The model is the double of an embedding service, which costs no time and counts what it embeds.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from command_line import Home
from doubles.embedding_server import EmbeddingServer
from processes import PATIENCE, until
from store_documents import memory_directory

UP_TO_DATE = "is up to date; waiting for changes"


@pytest.fixture(scope="module")
def model() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as server:
        yield server


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory, model: EmbeddingServer) -> Iterator[Home]:
    """A home whose model has its language means already."""
    with memory_directory(tmp_path_factory.mktemp("home")) as base:
        home = Home(base, env={"BIGOS_EMBEDDER": "ollama", "BIGOS_OLLAMA_URL": model.url})
        assert home.bigos("calibrate").code == 0
        yield home


@pytest.fixture
def home(calibrated: Home) -> Home:
    """The same with an index of its own, and a folder `pot`."""
    number = len(list(calibrated.path.glob("pot*")))
    home = Home(calibrated.path, env=calibrated.env | {"BIGOS_COLLECTION": f"test{number}"})
    (home.path / f"pot{number}").mkdir()
    home.env["POT"] = str(home.path / f"pot{number}")
    return home


@pytest.fixture
def pot(home: Home) -> Path:
    return Path(home.env["POT"])


@dataclass
class Watch:
    """A running `bigos watch`; its lines as they come."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.times.append(time.monotonic())
            self.lines.append(line.rstrip("\n"))

    def told(self, words: str, times: int = 1) -> None:
        """Wait until lines with these words have come so often."""
        until(lambda: sum(words in line for line in self.lines) >= times, shown=lambda: "\n".join(self.lines))

    def when(self, words: str) -> float:
        return next(at for at, line in zip(self.times, self.lines, strict=False) if words in line)

    def ended(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        code = self.process.wait(timeout=PATIENCE)
        self.close()
        assert "Traceback" not in "\n".join(self.lines)
        return code

    def close(self) -> None:
        self.process.wait()
        self._reader.join(timeout=PATIENCE)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


def stood_still(written: list[float]) -> bool:
    """Whether the machine was so busy that a writer paused for the settle time: what it wrote may have been taken."""
    return max(later - sooner for sooner, later in pairwise(written)) > 0.8


@pytest.fixture
def watch(home: Home, pot: Path) -> Iterator[Callable[..., Watch]]:
    """Starts `bigos watch` of the pot with these options, and waits until it is up to date."""
    started: list[Watch] = []

    def start(*options: str, ready: bool = True) -> Watch:
        found = Watch(home.start("watch", pot, "--settle", "0.5", *options))
        started.append(found)
        if ready:
            found.told(UP_TO_DATE)
        return found

    yield start
    for one in started:
        one.process.kill()
        one.close()


def indexed(home: Home, pot: Path) -> list[str]:
    """Names of what searches can find, below the pot."""
    hits = home.bigos("search", "words", "--top-k", "1000", "--json").json["hits"]
    return sorted({str(Path(hit["source_path"]).relative_to(pot)) for hit in hits})


def test_a_slow_copy_is_found_after_its_last_byte_and_then_each_change(
    home: Home, pot: Path, watch: Callable[..., Watch], model: EmbeddingServer
) -> None:
    running = watch("--settle", "1")
    slow = pot / "slow copy.txt"
    written: list[float] = []

    def copy() -> None:
        with slow.open("w") as file:
            for piece in range(25):
                file.write(f"Piece {piece} of words that arrive slowly.\n")
                file.flush()
                written.append(time.monotonic())
                time.sleep(0.2)

    copying = threading.Thread(target=copy)
    copying.start()
    found = indexed(home, pot)
    still_copying = copying.is_alive()
    copying.join()
    running.told("came in: slow copy.txt")
    came = running.when("came in: slow copy.txt")
    assert stood_still(written) or (came > written[-1] and (found == [] or not still_copying))
    assert indexed(home, pot) == ["slow copy.txt"]
    assert time.monotonic() - written[-1] < 60
    until(lambda: "Piece 24" in home.bigos("show", slow, "--all").stdout)  # at once, unless it had stood still

    asked = len(model.requests)
    slow.rename(pot / "renamed.txt")
    running.told("went out: slow copy.txt")
    assert [text for request in model.requests[asked:] for text in request.texts if "Piece" in text] == []
    assert indexed(home, pot) == ["renamed.txt"]

    new = pot / ".renamed.txt.new"  # as editors save: beside it, then over it
    new.write_text("Other words altogether.\n")
    new.replace(pot / "renamed.txt")
    running.told("changed: renamed.txt")
    assert "Other words" in home.bigos("show", pot / "renamed.txt").stdout

    (pot / "renamed.txt").unlink()  # the last one of the folder, and seen to be deleted
    running.told("1 went out", 2)
    assert running.lines[-2] == "went out: renamed.txt"  # the sum comes last
    assert indexed(home, pot) == []
    assert running.ended(signal.SIGTERM) == 0


def test_what_is_still_being_downloaded_or_edited_waits_for_its_name(
    home: Home, pot: Path, watch: Callable[..., Watch]
) -> None:
    running = watch("--settle", "1")
    for name in ("film.txt.part", "page.html.crdownload", ".note.txt.swp", "note.txt~", "#note.txt#"):
        (pot / name).write_text("Half of the words.\n")
    growing = pot / "growing.txt"
    stop = threading.Event()
    written = [time.monotonic()]

    def grow() -> None:
        while not stop.wait(0.2):
            with growing.open("a") as file:
                file.write("more and more words\n")
            written.append(time.monotonic())

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        (pot / "film.txt.part").rename(pot / "film.txt")
        (pot / "deep" / "er").mkdir(parents=True)
        (pot / "deep" / "er" / "whole.txt").write_text("Whole words.\n")
        running.told("came in: deep/er/whole.txt")  # though another file goes on growing
        taken = set(indexed(home, pot))
    finally:
        stop.set()
        writer.join()
    assert taken - {"growing.txt"} == {"deep/er/whole.txt", "film.txt"}
    assert "growing.txt" not in taken or stood_still(written)
    running.told("came in: growing.txt")
    assert running.ended(signal.SIGINT) == 130
    assert not any("went out" in line or "page.html" in line for line in running.lines)


def test_what_happened_while_it_was_killed_is_made_up_for(home: Home, pot: Path, watch: Callable[..., Watch]) -> None:
    for number in range(40):
        (pot / f"{number}.txt").write_text(f"Words number {number}.\n" * 20)
    running = watch(ready=False)
    running.told("watching ")
    until(lambda: any("came in" in line or UP_TO_DATE in line for line in running.lines))
    os.kill(running.process.pid, signal.SIGKILL)
    running.process.wait()
    (pot / "7.txt").write_text("Edited while nobody looked; new words.\n")
    (pot / "8.txt").rename(pot / "eight.txt")
    (pot / "9.txt").unlink()
    running = watch()
    there = {f"{number}.txt" for number in range(40) if number not in (8, 9)} | {"eight.txt"}
    assert set(indexed(home, pot)) == there
    assert "new words" in home.bigos("show", pot / "7.txt").stdout
    os.kill(running.process.pid, signal.SIGKILL)
    running.process.wait()
    for number in range(10, 40):
        (pot / f"{number}.txt").unlink()
    assert watch().lines[1:3] == [
        "gone from the folder, kept in the index: 30 (more than half is gone)",
        f"hint: bigos ingest {pot} --recursive --prune --yes",
    ]
    assert set(indexed(home, pot)) == there


def test_a_flood_is_one_pass_and_each_file_is_embedded_once(
    home: Home, pot: Path, watch: Callable[..., Watch], model: EmbeddingServer
) -> None:
    running = watch("-v")
    asked = len(model.requests)
    for number in range(2000):
        (pot / f"{number:04}.txt").write_text(f"Words of the file number {number}.\n")
    running.told("came in", 2000)
    running.told("done in")
    texts = [text for request in model.requests[asked:] for text in request.texts if "Words of the file" in text]
    assert len(texts) == len(set(texts)) == 2000
    status = home.bigos("status", "--json").json
    assert (status["documents"], status["errors"], status["drift"]["changed"]) == (2000, [], [])
    assert sum("done in" in line for line in running.lines) <= 3
    assert running.ended(signal.SIGTERM) == 0


def test_a_folder_that_goes_away_takes_nothing_with_it(home: Home, pot: Path, watch: Callable[..., Watch]) -> None:
    (pot / "sub").mkdir()
    for name in ("a.txt", "sub/b.txt"):
        (pot / name).write_text(f"Words of {name}.\n")
    running = watch()
    away = pot.with_name("away")
    pot.rename(away)
    running.told("is not there: nothing is forgotten")
    assert indexed(home, pot) == ["a.txt", "sub/b.txt"]
    pot.mkdir()  # as an unmounted disk leaves it
    running.told("is there again")
    running.told(UP_TO_DATE, 2)
    assert indexed(home, pot) == ["a.txt", "sub/b.txt"]
    pot.rmdir()
    running.told("is not there: nothing is forgotten", 2)
    (away / "c.txt").write_text("Words of c.\n")
    away.rename(pot)
    running.told("came in: c.txt")
    (pot / "a.txt").unlink()
    running.told("went out: a.txt")
    assert indexed(home, pot) == ["c.txt", "sub/b.txt"]


def test_a_folder_that_becomes_a_link_is_watched_where_it_leads(
    home: Home, pot: Path, watch: Callable[..., Watch]
) -> None:
    (pot / "a.txt").write_text("Words of a.\n")
    running = watch()
    moved = pot.with_name(f"{pot.name} moved")
    moved.mkdir()
    (moved / "b.txt").write_text("Words of b.\n")
    pot.rename(pot.with_name(f"{pot.name} before"))
    pot.symlink_to(moved)
    running.told("came in: b.txt")
    (moved / "c.txt").write_text("Words of c.\n")
    running.told("came in: c.txt")
    (moved / "b.txt").unlink()
    running.told("went out: b.txt")
    assert indexed(home, home.path) == [f"{pot.name} moved/c.txt", f"{pot.name}/a.txt"]


def test_looking_without_notices_finds_the_same(home: Home, pot: Path, watch: Callable[..., Watch]) -> None:
    running = watch("--poll")
    odd = os.fsdecode(b"a \xff'\n.txt")
    (pot / odd).write_text("Words under an odd name.\n")
    (pot / "-r").write_text("Words under a name like an option.\n")
    running.told("came in: a \\xff'\\x0a.txt")
    running.told("came in: -r")
    (pot / odd).unlink()
    running.told("went out: a \\xff'\\x0a.txt")
    (pot / "-r").unlink()  # what an empty network drive looks like: nothing tells that it was deleted
    running.told("1 files of")
    assert indexed(home, pot) == ["-r"]


def test_odd_names_are_taken_and_forgotten_as_others_are(home: Home, pot: Path, watch: Callable[..., Watch]) -> None:
    running = watch()
    for name in (b"a \xff'\n.txt", b"-r"):
        (pot / os.fsdecode(name)).write_text("Words under an odd name.\n")
    running.told("came in: a \\xff'\\x0a.txt")
    running.told("came in: -r")
    for name in (b"a \xff'\n.txt", b"-r"):
        (pot / os.fsdecode(name)).unlink()
    running.told("went out: a \\xff'\\x0a.txt")
    running.told("went out: -r")
    assert indexed(home, pot) == []


def test_an_error_is_told_and_tried_again(
    home: Home, pot: Path, watch: Callable[..., Watch], model: EmbeddingServer
) -> None:
    running = watch()
    listed = home.path / ".local" / "state" / "bigos" / "inbox-failed.txt"
    listed.mkdir(parents=True)  # the list of failures cannot be written
    (pot / "bad.docx").write_bytes(b"PK\x03\x04 and nothing else")
    running.told("is tried again in 5 s")
    assert any(line.startswith("error: the list of failures") for line in running.lines)
    listed.rmdir()
    until(listed.is_file, shown=lambda: "\n".join(running.lines))
    assert "bad.docx" in listed.read_text()
    assert running.process.poll() is None


@pytest.mark.parametrize(
    ("folder", "words"), [("nowhere", "does not exist"), ("file.txt", "is no folder"), ("", "a path is empty")]
)
def test_what_cannot_be_watched_is_refused(home: Home, folder: str, words: str) -> None:
    (home.path / "file.txt").write_text("words")
    ran = home.bigos("watch", folder)
    assert (ran.code, ran.stdout) == (2, "")
    assert words in ran.stderr
    assert "\nhint: " in ran.stderr


def test_a_rebuild_for_other_settings_is_followed(
    home: Home, pot: Path, watch: Callable[..., Watch], tmp_path: Path
) -> None:
    settings = tmp_path / "config.toml"
    settings.write_text("chunk_tokens = 64\n")
    home.env["BIGOS_CONFIG"] = str(settings)
    (pot / "first.txt").write_text("The first note is short.")
    running = watch()
    settings.write_text("chunk_tokens = 32\n")
    (pot / "second.txt").write_text("The second note comes before the index is made anew.")
    running.told("came in: second.txt")  # by the settings that it was started with, which the index has still
    assert home.bigos("ingest", "--rebuild").code == 0
    (pot / "third.txt").write_text("The third note comes afterwards.")
    running.told("came in: third.txt")
    running.told("going on with them")
    assert indexed(home, pot) == ["first.txt", "second.txt", "third.txt"]
    assert running.ended(signal.SIGTERM) == 0
