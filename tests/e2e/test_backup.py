# SPDX-License-Identifier: GPL-2.0-only
"""`bigos backup` and `bigos restore` as a person runs them, on the embedded store; no model is needed."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bigos.errors import FingerprintMismatch
from bigos.stores import Replacement, StoreQuery, generations
from bigos.stores.embedded import EmbeddedStore
from command_line import Home
from store_documents import DIMENSION, FINGERPRINT, assert_holds, document, memory_directory, unit, with_record

ITEMS = [
    document("/a/x.txt", 12, seed=1),
    document("/a/y.c", 3, kind="code", seed=2),
    with_record(document("/a/failed.pdf", 0), status="failed", reason="encrypted", kind=None),
]
LATER = [document("/b/later.txt", 5, seed=3)]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with memory_directory(tmp_path) as base:
        yield Home(base, base / "no models")


def directory(home: Home) -> Path:
    return home.path / ".local/share/bigos/collections/bigos"


def opened(home: Home, fingerprint: str | None = FINGERPRINT) -> EmbeddedStore:
    return EmbeddedStore(directory(home), fingerprint, DIMENSION if fingerprint else None, lock_timeout=60)


def fill(home: Home, items: list[Replacement]) -> None:
    with closing(opened(home)) as store:
        store.replace(items)


def forget(home: Home) -> None:
    with closing(opened(home, None)) as store:
        assert store.forget(Path("/a")).documents == 3


def file_of(home: Home) -> Path:
    return home.path / "index.backup"


@pytest.fixture
def backup(home: Home) -> Path:
    fill(home, ITEMS)
    assert home.bigos("backup", file_of(home)).code == 0
    return file_of(home)


def test_a_backup_brings_back_exactly_what_was_there(home: Home) -> None:
    fill(home, ITEMS)
    ran = home.bigos("backup", file_of(home), "--json")
    assert ran.code == 0, ran.stderr
    told = ran.json
    assert (told["schema"], told["documents"], told["chunks"]) == ("bigos.backup.v1", 2, 15)
    assert (told["fingerprint"], told["store"]) == (FINGERPRINT, "embedded")
    assert told["bytes"] == file_of(home).stat().st_size < 20e6  # the engine's files are 170 MB with their holes
    assert stat.S_IMODE(file_of(home).stat().st_mode) == 0o600
    assert [path for path in home.path.iterdir() if path.suffix == ".part"] == []
    fill(home, LATER)
    assert_holds(opened(home), [*ITEMS, *LATER])

    ran = home.bigos("restore", file_of(home), "--yes", "--json")
    assert ran.code == 0, ran.stderr
    told = ran.json
    assert (told["schema"], told["documents"], told["chunks"]) == ("bigos.restore.v1", 2, 15)
    assert told["replaced"] == {"documents": 3, "chunks": 20}
    assert (told["came_back"], told["went"]) == ([], ["/b/later.txt"])
    assert told["fits_configuration"] is None  # there is no model here
    assert_holds(opened(home), ITEMS)
    fill(home, LATER)  # and it can be written to
    assert_holds(opened(home), [*ITEMS, *LATER])
    assert sorted(path.name for path in directory(home).iterdir() if path.is_dir()) == ["restored-2"]


def test_what_was_forgotten_since_does_not_come_back_without_a_word(home: Home, backup: Path) -> None:
    forget(home)
    fill(home, LATER)
    ran = home.bigos("restore", backup, "--yes")
    assert ran.code == 0, ran.stderr
    assert "3 documents are back that the index no longer had (forgotten or pruned since)" in ran.stdout
    assert "bigos ingest --forget PATH undoes that:\n    /a/failed.pdf\n    /a/x.txt\n    /a/y.c\n" in ran.stdout
    assert "1 documents are gone that came after the backup was made" in ran.stdout
    forget(home)
    assert home.bigos("restore", backup, "--yes", "--json").json["came_back"] == ["/a/failed.pdf", "/a/x.txt", "/a/y.c"]


def test_a_small_index_needs_little_room_for_its_backup(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil

    fill(home, ITEMS)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9, 120 * 10**6))
    ran = home.bigos("backup", file_of(home))
    monkeypatch.undo()
    assert ran.code == 0, ran.stderr


def test_what_was_forgotten_is_in_no_backup_that_is_made_afterwards(home: Home) -> None:
    fill(home, [*ITEMS, document("/b/secret.txt", 2, text="Tajny szyfrogram")])
    with closing(opened(home, None)) as store:
        assert store.forget(Path("/b")).documents == 1  # and killed before the engine's files were rewritten
    assert home.bigos("backup", file_of(home)).code == 0
    assert b"szyfrogram" not in file_of(home).read_bytes()


def test_it_is_restored_on_a_machine_that_had_nothing(home: Home, backup: Path) -> None:
    other = Home(home.path / "other", home.models)
    other.path.mkdir()
    ran = other.bigos("restore", backup, "--json")
    assert ran.code == 0, ran.stderr
    assert (ran.json["replaced"], ran.json["came_back"]) == (None, None)
    assert_holds(opened(other), ITEMS)
    private = list((other.path / ".local/share/bigos/collections").rglob("*"))
    folders = [path for path in private if path.name in ("restored-2", "shard", "segments")]
    assert len(folders) == 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}
    data = [path for path in private if path.is_file()]
    assert sum(path.stat().st_blocks * 512 for path in data) < sum(path.stat().st_size for path in data) / 2


def test_any_tar_reads_it(home: Home, backup: Path) -> None:
    with tarfile.open(backup) as tar:
        names = tar.getnames()
        manifest = tar.extractfile("bigos-backup.json")
        assert manifest is not None
        assert json.load(manifest)["documents"] == 2
    assert names[0] == "bigos-backup.json"
    assert "data/edge_config.json" in names
    listed = subprocess.run(["tar", "-tf", backup], capture_output=True, text=True)
    assert listed.stdout.split() == names


def test_neither_a_file_nor_an_index_is_replaced_unasked(home: Home, backup: Path) -> None:
    before = backup.read_bytes()
    ran = home.bigos("backup", backup)
    assert (ran.code, ran.stdout) == (2, "")
    assert "exists already.\nhint: " in ran.stderr
    assert backup.read_bytes() == before
    assert home.bigos("backup", backup, "--yes").code == 0
    ran = home.bigos("restore", backup)
    assert (ran.code, ran.stdout) == (2, "")
    assert "there is an index of 2 documents in " in ran.stderr
    assert "--yes" in ran.stderr


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda data: data[: len(data) // 2], "is cut short"),
        (lambda data: data[:-1], "is cut short"),
        (lambda data: data[:700] + bytes([data[700] ^ 1]) + data[701:], "is damaged"),
        (lambda data: data[: len(data) // 2] + b"x" + data[len(data) // 2 + 1 :], "is damaged"),
        (lambda data: b"", "is no backup"),
        (lambda data: b"%PDF-1.7" + data, "is no backup"),
        (lambda data: b"bigos-backup.json" + b"\0" * 2000, "is cut short"),
    ],
)
def test_a_file_that_is_not_whole_is_one_sentence_and_changes_nothing(
    home: Home, backup: Path, spoil: object, says: str
) -> None:
    backup.write_bytes(spoil(backup.read_bytes()))  # type: ignore[operator]
    fill(home, LATER)
    before = home.everything()
    ran = home.bigos("restore", backup, "--yes")
    assert (ran.code, ran.stdout) == (2, "")
    assert says in ran.stderr
    assert "hint: " in ran.stderr
    assert home.everything() == before
    assert_holds(opened(home), [*ITEMS, *LATER])


def sealed(home: Home, **changes: object) -> Path:
    """A backup whose manifest says something else, with the checksum that fits."""
    from dataclasses import replace

    from bigos import backup_file
    from bigos.stores import embedded_backup

    with backup_file.opened(file_of(home)) as whole:
        manifest = replace(whole.manifest, **changes)  # type: ignore[arg-type]
    with closing(opened(home, None)) as store, embedded_backup.files_at_rest(store, directory(home)) as data:
        backup_file.write(home.path / "other.backup", manifest, lambda to: to.add_tree(data), over=True)
    return home.path / "other.backup"


@pytest.mark.parametrize(
    ("changes", "code", "says"),
    [
        ({"schema": 99}, 2, "of schema 99"),
        ({"bytes": "many"}, 2, "bytes is 'many'"),
        ({"format": 2}, 2, "a backup of format 2"),
        ({"chunks": 16}, 4, "15 chunks are in it"),
        ({"store": "server"}, 2, "bigos migrate --to embedded"),
    ],
)
def test_what_does_not_fit_is_found_out_before_anything_changes(
    home: Home, backup: Path, changes: dict[str, object], code: int, says: str
) -> None:
    ran = home.bigos("restore", sealed(home, **changes), "--yes")
    assert (ran.code, ran.stdout) == (code, "")
    assert says in ran.stderr
    assert "hint: " in ran.stderr
    assert_holds(opened(home), ITEMS)
    assert sorted(path.name for path in directory(home).iterdir() if path.is_dir()) == ["shard"]


def test_a_name_that_leads_out_of_the_index_is_refused(home: Home, backup: Path) -> None:
    from bigos import backup_file

    with backup_file.opened(backup) as whole:
        manifest = whole.manifest

    def fill_badly(to: backup_file.Writer) -> None:
        with (home.path / "evil").open("w+b") as stream:
            stream.write(b"evil")
            stream.flush()
            stream.seek(0)
            to.add("../../../evil-here", stream)

    backup_file.write(home.path / "bad.backup", manifest, fill_badly, over=False)
    ran = home.bigos("restore", home.path / "bad.backup", "--yes")
    assert ran.code == 2
    assert "has no place in it" in ran.stderr
    assert not list(home.path.rglob("evil-here"))
    assert_holds(opened(home), ITEMS)


def test_a_damaged_index_can_be_replaced(home: Home, backup: Path) -> None:
    (directory(home) / "collection.json").write_text("{")
    assert home.bigos("search", "x").code != 0
    ran = home.bigos("restore", backup)
    assert ran.code == 2
    assert "an index that cannot be read" in ran.stderr
    assert home.bigos("restore", backup, "--yes").code == 0
    assert_holds(opened(home), ITEMS)


def test_processes_that_have_the_index_open_go_on_with_the_restored_one(home: Home, backup: Path) -> None:
    with closing(opened(home)) as writer, closing(opened(home, None)) as reader:
        writer.replace(LATER)
        assert len(reader.known()) == 4
        assert home.bigos("restore", backup, "--yes").code == 0
        assert len(reader.known()) == 3
        assert len(writer.search(StoreQuery(unit(1), 100))) == 15
        writer.replace(LATER)
        assert len(reader.known()) == 4


def test_a_restored_index_of_another_model_is_exit_5s_sentence_to_who_had_it_open(home: Home, backup: Path) -> None:
    other = Home(home.path / "other", home.models)
    other.path.mkdir()
    with closing(EmbeddedStore(directory(other), "other-model/2", DIMENSION)) as store:
        store.replace(LATER)
        assert other.bigos("restore", backup, "--yes").code == 0
        with pytest.raises(FingerprintMismatch, match=FINGERPRINT):
            store.known()


def test_a_rebuild_that_was_begun_goes_with_its_index_and_that_is_said(home: Home, backup: Path) -> None:
    begun = directory(home) / generations.following(directory(home), "rebuilt")
    with closing(EmbeddedStore(begun, "other-model/2", DIMENSION)) as store:
        store.replace(LATER)
    ran = home.bigos("restore", backup, "--yes")
    assert ran.code == 0, ran.stderr
    assert f"the rebuild that was begun in {begun} is gone" in ran.stderr
    assert not begun.exists()
    assert_holds(opened(home), ITEMS)


def test_a_rebuild_that_is_at_work_is_not_disturbed(home: Home, backup: Path) -> None:
    with generations.replacing(directory(home)):
        ran = home.bigos("restore", backup, "--yes")
    assert (ran.code, ran.stdout) == (4, "")
    assert f"is being rebuilt or restored by process {os.getpid()}" in ran.stderr


def test_what_cannot_be_backed_up_or_found_is_said(home: Home) -> None:
    ran = home.bigos("backup", file_of(home))
    assert (ran.code, ran.stdout) == (1, "")
    assert "there is no index to back up" in ran.stderr
    assert home.bigos("restore", file_of(home)).code == 2
    assert home.bigos("backup", home.path / "no" / "folder").code == 2
    assert home.bigos("backup", home.path).code == 2
    assert home.everything() == []


@pytest.mark.parametrize("command", ["backup", "restore"])
def test_a_disk_without_room_is_said_and_nothing_is_left(
    home: Home, backup: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    before = home.everything()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**12, 10**12, 10**6))
    ran = home.bigos(command, home.path / "new.backup" if command == "backup" else backup, "--yes")
    monkeypatch.undo()
    assert (ran.code, ran.stdout) == (4, "")
    assert "1 MB are free" in ran.stderr
    assert {Path(name).name for name in home.everything() if name not in before} <= {"replacing"}
    assert_holds(opened(home), ITEMS)


@pytest.mark.parametrize(("number", "code"), [(errno.EINVAL, 0), (errno.EIO, 4)])
def test_only_a_hole_is_taken_for_a_hole(home: Home, number: int, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(home, ITEMS)
    seek = os.lseek

    def refuse(fd: int, at: int, how: int) -> int:
        if how == os.SEEK_DATA:
            raise OSError(number, os.strerror(number))
        return seek(fd, at, how)

    monkeypatch.setattr(os, "lseek", refuse)
    ran = home.bigos("backup", file_of(home))
    monkeypatch.undo()
    assert ran.code == code, ran.stderr
    assert file_of(home).exists() == (code == 0)
    if code == 0:
        assert home.bigos("restore", file_of(home), "--yes").code == 0
        assert_holds(opened(home), ITEMS)


def test_two_backups_to_one_file_do_not_mix(home: Home) -> None:
    import fcntl

    fill(home, ITEMS)
    part = file_of(home).with_name("index.backup.part")
    part.write_bytes(b"of one that was killed, or is at work")
    with part.open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        ran = home.bigos("backup", file_of(home))
        assert (ran.code, ran.stdout) == (4, "")
        assert "another backup to" in ran.stderr and "hint: " in ran.stderr
        assert part.read_bytes().startswith(b"of one")
    assert home.bigos("backup", file_of(home)).code == 0
    assert not part.exists()
    assert home.bigos("restore", file_of(home), "--yes").code == 0


def test_what_is_no_plain_file_is_neither_written_nor_waited_for(home: Home) -> None:
    fill(home, ITEMS)
    os.mkfifo(file_of(home))
    for command in ("backup", "restore"):
        ran = home.bigos(command, file_of(home), "--yes")
        assert (ran.code, ran.stdout) == (2, "")
        assert "hint: " in ran.stderr
    assert stat.S_ISFIFO(file_of(home).lstat().st_mode)


def test_a_file_that_may_not_grow_leaves_no_part(home: Home, backup: Path) -> None:
    import resource
    import signal

    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        ran = home.bigos("backup", home.path / "new.backup")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert (ran.code, ran.stdout) == (4, "")
    assert "cannot be written to" in ran.stderr
    assert [path.name for path in home.path.iterdir() if path.name.startswith("new")] == []
