# SPDX-License-Identifier: GPL-2.0-only
"""From a file to chunks, here and in real worker processes: what goes wrong with a file costs that file."""

from __future__ import annotations

import io
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from bigos import loaders
from bigos.errors import EmbedderError, WorkersUnavailable
from bigos.loaders import LoadOptions
from bigos.ocr import Tesseract
from bigos.preparation import (
    IN_FLIGHT_BYTES,
    IN_FLIGHT_FILES,
    Preparation,
    PreparationPool,
    Prepared,
    Rejected,
    Same,
    Task,
    prepare,
)
from data.loaders import make_documents
from loaded_documents import program
from processes import PATIENCE, is_running, until
from small_index import SETTINGS, source
from store_documents import memory_directory

ENGLISH = "The clock divider of the serial bus is computed from the parent clock and rounded up to an even value. "
POLISH = "Dzielnik zegara magistrali jest liczony z zegara nadrzędnego i zaokrąglany w górę do liczby parzystej. "


def task(path: Path, content: str | bytes, known_hash: str | None = None) -> Task:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return Task(source(path), known_hash)


def workers() -> set[int]:
    """The pool's processes; multiprocessing's own tracker is not one of them."""
    found = set()
    for children in Path("/proc/self/task").glob("*/children"):
        for child in children.read_text().split():
            try:
                if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                    found.add(int(child))
            except OSError:
                continue
    return found


@contextmanager
def killing(*, most: int, when: Callable[[int], bool] = lambda _: True) -> Iterator[set[int]]:
    """Meanwhile, send SIGKILL to the first `most` workers that `when` is true of."""
    killed: set[int] = set()
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.005):
            for worker in workers() - killed:
                if len(killed) < most and when(worker):
                    os.kill(worker, signal.SIGKILL)
                    killed.add(worker)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def by_name(preparations: Iterator[Preparation]) -> dict[str, Preparation]:
    return {item.source.path.name: item for item in preparations}


def outcome(item: Preparation) -> str:
    return item.reason if isinstance(item, Rejected) else type(item).__name__


# --- one file --------------------------------------------------------------------------------------------------------


def test_a_document_comes_in_chunks_each_with_its_passage_and_language(tmp_path: Path) -> None:
    made = prepare(task(tmp_path / "a.md", f"# Clocks\n\n{ENGLISH * 8}\n\n## Zegary\n\n{POLISH * 8}"), SETTINGS)
    assert isinstance(made, Prepared)
    assert (made.title, made.format, made.kind, made.code_language) == ("Clocks", "markdown", "document", None)
    assert len(made.chunks) == len(made.passages) > 4
    assert all(passage.endswith(chunk.text) for chunk, passage in zip(made.chunks, made.passages, strict=True))
    assert made.chunks[0].chunk_language == "en"
    assert made.chunks[-1].chunk_language == "pl"
    assert {chunk.language for chunk in made.chunks} == {made.language}
    assert all(chunk.token_count <= SETTINGS.window.tokens for chunk in made.chunks)
    assert pickle.loads(pickle.dumps(made)) == made


def test_code_has_a_code_language_and_no_other(tmp_path: Path) -> None:
    made = prepare(task(tmp_path / "a.py", "def divider(rate):\n    return 48 // rate\n"), SETTINGS)
    assert isinstance(made, Prepared)
    assert (made.kind, made.code_language, made.language) == ("code", "python", None)
    assert [chunk.chunk_language for chunk in made.chunks] == [None]


def test_known_content_is_not_cut_again(tmp_path: Path) -> None:
    digest = loaders.content_hash(ENGLISH.encode())
    assert prepare(task(tmp_path / "a.txt", ENGLISH, digest), SETTINGS) == Same(source(tmp_path / "a.txt"), digest)
    assert isinstance(prepare(task(tmp_path / "a.txt", ENGLISH, "another"), SETTINGS), Prepared)


@pytest.mark.parametrize(
    ("name", "content", "reason", "hashed"),
    [
        ("a.txt", "", "empty", True),
        ("a.txt", bytes(100), "binary", False),
        ("a.xyz", "text", "unknown format", False),
        ("a.txt", b"a line\n" * 150_000, "too large", False),
    ],
)
def test_a_file_without_text_for_us_is_rejected_and_hashed_only_when_it_was_read(
    tmp_path: Path, name: str, content: str | bytes, reason: str, hashed: bool
) -> None:
    made = prepare(task(tmp_path / name, content), SETTINGS)
    assert isinstance(made, Rejected)
    assert (made.reason, made.skipped, made.content_hash is not None) == (reason, True, hashed)
    assert made.message


def test_a_rejected_file_is_told_with_the_command_that_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    picture = io.BytesIO()
    Image.new("L", (300, 300), "white").save(picture, "PNG")
    scan = task(tmp_path / "a scan.png", picture.getvalue())
    never = prepare(scan, replace(SETTINGS, options=LoadOptions(ocr="never")))
    assert isinstance(never, Rejected)
    assert never.message.endswith(
        f", and OCR is switched off: bigos ingest --ocr auto --reindex '{tmp_path}/a scan.png'"
    )
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    missing = prepare(scan, replace(SETTINGS, options=LoadOptions(recogniser=Tesseract("eng", None, tmp_path))))
    assert isinstance(missing, Rejected)
    assert missing.message.endswith(
        "tesseract, which reads them, is not installed: sudo apt install tesseract-ocr tesseract-ocr-eng && "
        f"bigos ingest --reindex '{tmp_path}/a scan.png'"
    )
    large = prepare(task(tmp_path / "a.txt", ENGLISH), replace(SETTINGS, max_file_bytes=50))
    assert isinstance(large, Rejected)
    assert large.message.endswith(f": BIGOS_MAX_FILE_BYTES={2 * len(ENGLISH)} bigos ingest --reindex {tmp_path}/a.txt")


def test_a_file_that_has_gone_since_the_walk_failed_and_was_not_skipped(tmp_path: Path) -> None:
    gone = task(tmp_path / "a.txt", ENGLISH)
    gone.source.path.unlink()
    made = prepare(gone, SETTINGS)
    assert isinstance(made, Rejected)
    assert (made.reason, made.skipped, made.content_hash) == ("vanished", False, None)


@pytest.mark.parametrize("count", [0, 1])
def test_a_missing_vocabulary_ends_the_run_rather_than_failing_every_file(tmp_path: Path, count: int) -> None:
    settings = replace(SETTINGS, tokenizer_file=tmp_path / "nowhere.json")
    tasks = [task(tmp_path / "a.txt", ENGLISH)]
    with PreparationPool(settings, count) as pool, pytest.raises(EmbedderError) as failure:
        list(pool.run(tasks))
    assert failure.value.fix == "./setup.sh"


# --- many files ------------------------------------------------------------------------------------------------------


def test_workers_give_what_this_process_gives_whatever_the_order_and_leave_nothing_behind(tmp_path: Path) -> None:
    tasks = [
        task(tmp_path / "a.md", f"# Clocks\n\n{ENGLISH * 10}"),
        task(tmp_path / "b.txt", POLISH * 20),
        task(tmp_path / "c.c", "int f(void)\n{\n\treturn 1;\n}\n"),
        task(tmp_path / "d.html", f"<title>Page</title><p>{ENGLISH}</p>"),
        task(tmp_path / "e.txt", ""),
        task(tmp_path / "f.bin", "?"),
        task(tmp_path / "g.txt", ENGLISH, loaders.content_hash(ENGLISH.encode())),
    ]
    with PreparationPool(SETTINGS, 0) as pool:
        here = by_name(pool.run(tasks))
    assert workers() == set()
    assert list(here) == ["a.md", "b.txt", "c.c", "d.html", "e.txt", "f.bin", "g.txt"]
    with PreparationPool(SETTINGS, 2) as pool:
        there: dict[str, Preparation] = {}
        for item in pool.run(tasks):
            there[item.source.path.name] = item
            for worker in workers():
                os.kill(worker, signal.SIGINT)  # as a terminal does to the whole group on Ctrl-C
    assert there == here
    assert workers() == set()


def test_a_caller_that_stops_early_leaves_no_process_behind(tmp_path: Path) -> None:
    tasks = [task(tmp_path / f"{number}.txt", ENGLISH * 2000) for number in range(8)]
    tasks[0] = task(tmp_path / "0.txt", "")
    started = time.monotonic()
    with PreparationPool(SETTINGS, 2) as pool:
        assert outcome(next(pool.run(tasks))) == "empty"
        assert workers()
    assert workers() == set()
    assert time.monotonic() - started < PATIENCE
    with pytest.raises(ZeroDivisionError), PreparationPool(SETTINGS, 1) as pool:
        next(pool.run(tasks))
        raise ZeroDivisionError
    assert workers() == set()


@pytest.mark.parametrize("end", ["the caller stops", "the worker is killed"])
def test_programs_that_a_worker_started_end_with_it(end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, note = tmp_path / "bin" / "tesseract", tmp_path / "started"
    program.parent.mkdir()
    listing = 'case "$1" in --version) echo tesseract 5.3.0; exit;; --list-langs) echo List:; echo eng; exit;; esac'
    program.write_text(f"#!/bin/sh\n{listing}\necho $$ > {note}.new && mv {note}.new {note}\nexec sleep 300\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    picture = io.BytesIO()
    Image.new("L", (300, 300), "white").save(picture, "PNG")
    engine = Tesseract("eng", None, tmp_path / "scratch")
    settings = replace(SETTINGS, options=LoadOptions(recogniser=engine, scratch=tmp_path / "scratch"))
    with PreparationPool(settings, 1) as pool:
        made = pool.run([task(tmp_path / "empty.txt", ""), task(tmp_path / "a.png", picture.getvalue())])
        assert outcome(next(made)) == "empty"
        until(note.exists)
        if end == "the worker is killed":
            os.kill(workers().pop(), signal.SIGKILL)
            assert outcome(next(made)) == "crashed"
            until(lambda: not is_running(int(note.read_text())))
    until(lambda: not is_running(int(note.read_text())))
    assert not list((tmp_path / "scratch").iterdir())


def test_tasks_are_taken_only_as_fast_as_results_are(tmp_path: Path) -> None:
    taken = 0

    def counted(tasks: list[Task]) -> Iterator[Task]:
        nonlocal taken
        for each in tasks:
            taken += 1
            yield each

    small = task(tmp_path / "a.txt", "")
    with PreparationPool(SETTINGS, 0) as pool:
        for number, _ in enumerate(pool.run(counted([small] * 20)), start=1):
            assert taken == number
    large = Task(replace(small.source, size=IN_FLIGHT_BYTES // 2))
    huge = Task(replace(small.source, size=10 * IN_FLIGHT_BYTES))
    with PreparationPool(SETTINGS, 1) as pool:
        for tasks, most in (([small] * 3 * IN_FLIGHT_FILES, IN_FLIGHT_FILES), ([large] * 9, 2), ([huge] * 4, 1)):
            taken = given = 0
            for _ in pool.run(counted(tasks)):
                assert taken - given <= most
                given += 1
            assert given == taken == len(tasks)


# --- files that break their worker -----------------------------------------------------------------------------------


def test_a_file_that_takes_too_long_is_timed_out_and_the_others_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin", "soffice", "exec sleep 600\n", monkeypatch)
    tasks = [
        task(tmp_path / "slow.doc", make_documents.old_word()),
        task(tmp_path / "empty.txt", ""),
        task(tmp_path / "known.txt", ENGLISH, loaders.content_hash(ENGLISH.encode())),
    ]
    settings = replace(SETTINGS, timeout=2.0, options=LoadOptions(scratch=tmp_path / "scratch"))
    with PreparationPool(settings, 1) as pool:
        made = by_name(pool.run(tasks))
    assert {name: outcome(item) for name, item in made.items()} == {
        "slow.doc": "timed out",
        "empty.txt": "empty",
        "known.txt": "Same",
    }
    slow = made["slow.doc"]
    assert isinstance(slow, Rejected)
    assert (slow.message, slow.skipped, slow.content_hash) == ("took more than 2 s", False, None)
    assert workers() == set()


def test_a_worker_that_is_killed_over_a_file_costs_that_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = tmp_path / "begun"
    program(tmp_path / "bin", "soffice", f"touch {note}; exec sleep 600\n", monkeypatch)
    tasks = [task(tmp_path / f"{number}.txt", f"Note {number}. {ENGLISH}") for number in range(5)]
    tasks[1] = task(tmp_path / "slow.doc", make_documents.old_word())
    settings = replace(SETTINGS, options=LoadOptions(scratch=tmp_path / "scratch"))
    with killing(most=1, when=lambda _: note.exists()) as killed, PreparationPool(settings, 1) as pool:
        made = [outcome(item) for item in pool.run(tasks)]
    assert len(killed) == 1
    assert sorted(made) == ["Prepared"] * 4 + ["crashed"]


def test_a_worker_that_is_killed_before_it_has_a_file_costs_none(tmp_path: Path) -> None:
    tasks = [task(tmp_path / f"{number}.txt", f"Note {number}. {ENGLISH}") for number in range(5)]
    with killing(most=1) as killed, PreparationPool(SETTINGS, 1) as pool:
        made = by_name(pool.run(tasks))
    assert len(killed) == 1
    assert {name: outcome(item) for name, item in made.items()} == {f"{n}.txt": "Prepared" for n in range(5)}


def test_workers_that_are_always_killed_end_the_run_with_one_sentence(tmp_path: Path) -> None:
    tasks = [task(tmp_path / f"{number}.txt", ENGLISH) for number in range(5)]
    with killing(most=1000), PreparationPool(SETTINGS, 1) as pool, pytest.raises(WorkersUnavailable) as failure:
        list(pool.run(tasks))
    assert failure.value.fix
    assert workers() == set()


def test_a_file_that_needs_more_memory_than_a_worker_may_have_costs_that_file(tmp_path: Path) -> None:
    with memory_directory(tmp_path) as folder:
        tasks = [
            task(folder / "a.txt", ENGLISH),
            task(folder / "vast.txt", ENGLISH * 2_500_000),
            task(folder / "b.txt", POLISH),
        ]
        with PreparationPool(replace(SETTINGS, memory_mb=1024, max_file_bytes=1_000_000_000), 1) as pool:
            made = by_name(pool.run(tasks))
    assert outcome(made["vast.txt"]) in ("out of memory", "crashed")
    assert (outcome(made["a.txt"]), outcome(made["b.txt"])) == ("Prepared", "Prepared")


def test_a_single_file_of_a_binary_format_is_read_in_a_process_that_may_die(tmp_path: Path) -> None:
    # Text is not: a worker takes a second to start.
    text, page = tmp_path / "a.txt", tmp_path / "b.html"
    text.write_text(ENGLISH)
    page.write_text(f"<html><body><p>{ENGLISH}</p></body></html>")
    pdf = Path(__file__).parents[1] / "data" / "loaders" / "chleb.pdf"
    with PreparationPool(SETTINGS, 0) as pool:
        assert [type(item) for item in pool.run([Task(source(text)), Task(source(page))])] == [Prepared, Prepared]
        assert pool._pool is None
        (found,) = pool.run([Task(source(pdf))])
        assert isinstance(found, Prepared)
        assert pool._pool is not None
