# SPDX-License-Identifier: GPL-2.0-only
"""`bigos ingest` over good and bad input: everything is accounted for, nothing is lost, the exit code tells."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import Home, Ran
from processes import PATIENCE

PARAGRAPH = (
    "The clock divider of the serial bus is computed from the peripheral clock and the requested rate. "
    "A divider that is too small would overclock the slave, so the result is rounded up to the next even value. "
)
NOTES = "# Serial bus\n\n## Clock divider\n\n" + PARAGRAPH * 3


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One good file of each kind, and one of each kind of trouble that a folder can hold."""
    folder = tmp_path_factory.mktemp("odd")
    (folder / "notes.md").write_text(NOTES)
    (folder / "bad name é \n.txt").write_text("A file whose name has a line break is a file like any other.\n")
    Path(os.fsdecode(os.fsencode(folder) + b"/latin-\xe9.txt")).write_text("A name that is not UTF-8 is indexed too.\n")
    (folder / "program.md").write_bytes(b"\x7fELF" + bytes(range(256)) * 20)
    (folder / "nul.txt").write_bytes(b"text and \0 then more\n" * 50)
    (folder / "empty.txt").write_text("")
    (folder / "scene.blend").write_bytes(b"BLENDER-v300" + bytes(100))
    (folder / "broken.md").symlink_to(folder / "nowhere.md")
    os.mkfifo(folder / "pipe.txt")
    with (folder / "huge.log").open("w") as log:
        log.write("a line of a log\n" * 20_000)
        log.truncate(200_000_000)
    (folder / "node_modules").mkdir()
    (folder / "node_modules" / "never.md").write_text(NOTES)
    return folder


@pytest.fixture(scope="module")
def first(make_home: Callable[[], Home], odd: Path) -> tuple[Home, Ran]:
    """The home in which the odd folder was ingested, and how that went."""
    home = make_home()
    home.env["BIGOS_MAX_FILE_BYTES"] = "1000000"
    return home, home.ingest(odd, "--recursive", "--json")


def test_bad_files_are_counted_under_a_reason_and_the_others_are_indexed(first: tuple[Home, Ran], odd: Path) -> None:
    _, ran = first
    report = ran.json
    assert ran.code == 0, ran.stderr
    assert report["schema"] == "bigos.ingest.v1"
    assert report["files"] == {"added": 3, "updated": 0, "unchanged": 0, "skipped": 8, "failed": 0}
    reasons = {Path(item["path"]).name: item["reason"] for item in report["outcomes"] if item["outcome"] == "skipped"}
    assert reasons == {
        "program.md": "binary",
        "nul.txt": "binary",
        "empty.txt": "empty",
        "scene.blend": "unknown format",
        "broken.md": "broken link",
        "pipe.txt": "special file",
        "huge.log": "too large",
        "node_modules": "pruned directory",
    }
    assert report["reasons"]["binary"] == 2
    assert any(item["path"].endswith("/latin-\\xe9.txt") for item in report["outcomes"])
    assert report["chunks"]["written"] == report["embedded"] >= 3
    assert "8 files to read" in ran.stderr


def test_the_same_ingest_again_reads_and_writes_nothing(first: tuple[Home, Ran], odd: Path) -> None:
    home, ran = first
    again = home.ingest(odd, "--recursive", "--json").json
    assert again["files"] == {"added": 0, "updated": 0, "unchanged": 3, "skipped": 8, "failed": 0}
    assert (again["embedded"], again["files_read"]) == (0, 0)
    written = ran.json["chunks"]["written"]
    assert again["chunks"] == {"written": 0, "unchanged": written, "removed": 0}
    told = home.ingest(odd / "notes.md", "-q")
    assert (told.code, told.stderr) == (0, "")
    assert told.stdout.startswith("nothing to do. Files: 1 unchanged\n")


def test_the_report_for_a_reader_names_files_by_reason_on_one_line_each(first: tuple[Home, Ran], odd: Path) -> None:
    home, _ = first
    ran = home.bigos("ingest", odd, "--recursive", "-v")
    assert "  skipped, binary: 2\n" in ran.stdout
    assert f"    {odd}/nul.txt" in ran.stdout
    assert "DEBUG bigos" in ran.stderr or "unchanged" in ran.stderr


def test_a_store_made_with_other_windows_is_refused_and_left_alone(first: tuple[Home, Ran], odd: Path) -> None:
    home, _ = first
    for command in (("search", "clock"), ("ingest", odd / "notes.md", "--quiet")):
        ran = home.bigos(*command, BIGOS_CHUNK_TOKENS="128")
        assert ran.code == 5, ran.stderr
        assert ran.stdout == ""
        assert "error: the store in " in ran.stderr
        assert "\nhint: bigos ingest --rebuild, or " in ran.stderr
    status = home.bigos("status", "--json", BIGOS_CHUNK_TOKENS="128").json
    assert status["fits_configuration"] is False
    assert home.bigos("search", "clock divider").code == 0


def test_a_dry_run_counts_and_creates_nothing(home: Home, odd: Path) -> None:
    ran = home.ingest(odd, "--recursive", "--dry-run", "--json", BIGOS_MAX_FILE_BYTES="1000000")
    report = ran.json
    assert (ran.code, report["dry_run"], report["files"]["added"]) == (0, True, 3)
    assert report["chunks"]["written"] >= 3
    assert report["estimated_seconds"] > 0
    assert home.everything() == []


def test_a_file_that_cannot_be_read_fails_alone(home: Home, tmp_path: Path) -> None:
    good = tmp_path / "good.md"
    good.write_text(NOTES)
    # Readable by mode, but the kernel answers EIO: works for root, too.
    ran = home.ingest(good, "/proc/self/mem", "--json")
    assert ran.code == 3
    assert ran.json["files"] == {"added": 1, "updated": 0, "unchanged": 0, "skipped": 0, "failed": 1}
    assert ran.json["reasons"] == {"unreadable": 1}
    assert home.bigos("search", "clock divider", "--files-only").stdout == f"{good}\n"


@pytest.mark.parametrize(
    ("args", "code", "message", "hint"),
    [
        (["missing.md"], 2, "missing.md does not exist.", "ls -la"),
        (["void"], 1, "there are no files in void.", "ls -A void"),
        (["tree"], 1, "no files in tree itself, only folders.", "--recursive"),
        (["tree", "--recursive", "--include", "*.rs"], 1, "no file in tree matches --include.", "--include"),
        (["tree", "--recursive", "--max-files", "1"], 2, "2 files are more than --max-files 1.", "--max-files 2"),
        (["tree", "--recusive"], 2, "no option --recusive.", "did you mean --recursive?"),
        (["tree", "--max-files", "0"], 2, "must be 1 or more", "--help"),
        ([], 2, "PATH", "--help"),
    ],
)
def test_a_command_that_cannot_work_says_why_and_what_does(
    home: Home, args: list[str], code: int, message: str, hint: str
) -> None:
    (home.path / "void").mkdir()
    (home.path / "tree" / "deep").mkdir(parents=True)
    for name in ("a.md", "b.md"):
        (home.path / "tree" / "deep" / name).write_text(NOTES)
    before = home.everything()
    ran = home.ingest(*args)
    assert ran.code == code, ran.stderr
    assert message in ran.stderr
    assert "\nhint: " in ran.stderr
    assert hint in ran.stderr.partition("\nhint: ")[2]
    assert home.everything() == before


def test_include_and_exclude_choose_files_and_reindex_reads_them_again(home: Home) -> None:
    tree = home.path / "tree"
    (tree / "drafts").mkdir(parents=True)
    for name in ("a.md", "b.txt", "drafts/c.md"):
        (tree / name).write_text(f"{name}: {PARAGRAPH}")
    options = ("tree", "-r", "--include", "*.md", "--exclude", "drafts", "--json")
    report = home.ingest(*options).json
    assert [Path(item["path"]).name for item in report["outcomes"] if item["outcome"] == "added"] == ["a.md"]
    assert report["reasons"] == {"not included": 1, "excluded": 1}
    again = home.ingest("~/tree/a.md", "--reindex", "--json").json
    assert (again["files"]["updated"], again["embedded"]) == (1, 1)
    assert not (home.path / ".cache").exists(), "a library left something in the user's cache"


@pytest.mark.parametrize("file", ["multilingual-e5-small/model.onnx", "tokenizer/bge-m3-tokenizer.json"])
def test_a_model_file_cut_short_is_told_with_the_command_that_brings_it_back(
    home: Home, tmp_path: Path, file: str
) -> None:
    models = tmp_path / "models"
    for original in home.models.rglob("*"):
        copy = models / original.relative_to(home.models)
        if original.is_dir():
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        if str(original).endswith(file):
            copy.write_bytes(original.read_bytes()[:5000])
        else:
            copy.symlink_to(original)
    home.models = models
    notes = home.path / "notes.md"
    notes.write_text(NOTES)
    ran = home.ingest(notes)
    assert "\nerror: " in f"\n{ran.stderr}"
    assert "hint: ./setup.sh" in ran.stderr
    doctor = home.bigos("doctor", "--json")
    assert doctor.code == 4
    assert not doctor.json["ok"]
    assert "./setup.sh" in {check["fix"] for check in doctor.json["checks"] if check["state"] == "failed"}


def many_files(folder: Path, count: int) -> Path:
    folder.mkdir()
    for number in range(count):
        text = f"# Note {number}\n\n" + "\n\n".join(f"{number}.{part} {PARAGRAPH * 6}" for part in range(3))
        (folder / f"note-{number:03}.md").write_text(text)
    return folder


def wait_for(process: subprocess.Popen[str], words: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if words in line:
            return
    raise AssertionError(f"{words!r} was not said, and the command ended")


def test_ctrl_c_keeps_what_is_done_and_the_next_run_does_the_rest(home: Home) -> None:
    folder = many_files(home.path / "many", 24)
    process = home.start(folder, "--json", module="bigos.ingest")
    wait_for(process, "24 files to read")
    time.sleep(1.5)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    stdout, stderr = process.communicate(timeout=PATIENCE)
    report = Ran(process.returncode, stdout, stderr)
    assert report.code == 130, stderr
    assert "finishing what is in hand; press again to stop at once" in stderr
    assert "Traceback" not in stderr
    assert report.json["interrupted"]
    done = report.json["files"]["added"]
    assert done < 24
    assert report.json["files"]["failed"] == 0
    rest = home.ingest(folder, "--json").json
    assert (rest["files"]["unchanged"], rest["files"]["added"]) == (done, 24 - done)
    status = home.bigos("status", "--json").json
    assert status["documents"] == 24
    assert status["chunks"] == report.json["chunks"]["written"] + rest["chunks"]["written"]


def test_a_second_signal_stops_at_once(home: Home) -> None:
    folder = many_files(home.path / "many", 24)
    process = home.start(folder, module="bigos.ingest")
    wait_for(process, "24 files to read")
    process.send_signal(signal.SIGTERM)
    wait_for(process, "finishing what is in hand")
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=PATIENCE)
    # Killed by the signal when it came in the interpreter's last moments; a shell calls both 130.
    assert process.returncode in (130, -signal.SIGINT), stderr
    assert "Traceback" not in stderr


@pytest.mark.parametrize("delay", [0.1, 0.3, 0.6])
def test_ctrl_c_while_the_workers_start_fails_no_file(home: Home, delay: float) -> None:
    folder = many_files(home.path / "many", 12)
    as_text = delay == 0.1
    process = home.start(folder, *(() if as_text else ("--json",)), module="bigos.ingest")
    wait_for(process, "12 files to read")
    time.sleep(delay)
    os.killpg(process.pid, signal.SIGINT)
    stdout, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    if as_text:  # also where no file was finished yet
        assert stdout.startswith("interrupted; what was finished is kept, the same command does the rest. Files: ")
        assert "failed" not in stdout
    else:
        assert Ran(130, stdout, stderr).json["files"]["failed"] == 0
    assert stderr.strip() == "finishing what is in hand; press again to stop at once"
