# SPDX-License-Identifier: GPL-2.0-only
"""The file that a backup is: a tar archive, which any tar reads, and a line behind it with the checksum of all before.

    bigos-backup.json     what is in it (`Manifest`)
    data/...              the store's own files, as they are; holes stay holes (GNU sparse format 1.0)
    sha256:<64 digits>    after the archive's end

It is written beside its place and moved there when it is whole, so that a name never stands for half a backup.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import io
import json
import os
import re
import stat
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal

from bigos.errors import StoreError, StoreLocked, UsageError

FORMAT = 1
MANIFEST = "bigos-backup.json"
DATA = "data"
PART = ".part"
_PIECE = 1 << 20
_UNIT = 1 << 16
_ZEROS = bytes(_UNIT)
_BLOCK = 512
_MARK = b"sha256:"
_TRAILER = len(_MARK) + 64 + 1
_LARGEST_MANIFEST = 1 << 20


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup holds and what it was made with. `documents` are the indexed ones."""

    store: Literal["embedded", "server"]
    collection: str
    fingerprint: str
    dimension: int
    schema: int
    documents: int
    chunks: int
    bytes: int
    """What the data take on the disk."""
    created_at: str
    bigos: str
    engine: str
    format: int = FORMAT


class Writer:
    """Puts data into a backup that is being written."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self._number = 0

    def add_tree(self, folder: Path) -> None:
        """Every file below `folder`, under its name from there. Raises OSError."""
        for path, folders, names in os.walk(folder):
            folders.sort()
            for name in sorted(names):
                file = Path(path) / name
                with file.open("rb") as stream:
                    self.add(str(file.relative_to(folder)), stream)

    def add(self, name: str, stream: IO[bytes]) -> None:
        """One file. Raises OSError."""
        size = os.fstat(stream.fileno()).st_size
        extents = _extents(stream, size)
        info = tarfile.TarInfo(f"{DATA}/{name}")
        if sum(length for _, length in extents) == size:
            info.size = size
            self._tar.addfile(info, stream)
            return
        numbers = [len(extents), *(number for extent in extents for number in extent)]
        sparse_map = "".join(f"{number}\n" for number in numbers).encode()
        sparse_map += bytes(-len(sparse_map) % _BLOCK)
        info.pax_headers = {
            "GNU.sparse.major": "1",
            "GNU.sparse.minor": "0",
            "GNU.sparse.name": info.name,
            "GNU.sparse.realsize": str(size),
        }
        # Short: the header of a long name would outrank the one above.
        self._number += 1
        info.name = f"GNUSparseFile.0/{self._number}"
        info.size = len(sparse_map) + sum(length for _, length in extents)
        self._tar.addfile(info, _Pieces(_with_map(stream, sparse_map, extents)))

    def add_pieces(self, name: str, size: int, pieces: Iterator[bytes]) -> None:
        """One file of `size` bytes that comes in pieces. Raises OSError when they are fewer."""
        info = tarfile.TarInfo(f"{DATA}/{name}")
        info.size = size
        self._tar.addfile(info, _Pieces(pieces))


def _extents(stream: IO[bytes], size: int) -> list[tuple[int, int]]:
    """Where a file has data: offset and length of each stretch. What is all zeros is none, hole or not.

    Raises OSError.
    """
    found: list[tuple[int, int]] = []
    at = 0
    while at < size:
        try:
            at = os.lseek(stream.fileno(), at, os.SEEK_DATA) // _UNIT * _UNIT
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole behind
                break
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):  # a file system that knows of no holes
                raise
        stream.seek(at)
        unit = stream.read(_UNIT)
        if unit != _ZEROS[: len(unit)]:
            if found and sum(found[-1]) == at:
                found[-1] = (found[-1][0], found[-1][1] + len(unit))
            else:
                found.append((at, len(unit)))
        at += _UNIT
    stream.seek(0)
    return found or [(size, 0)]


def _with_map(stream: IO[bytes], sparse_map: bytes, extents: list[tuple[int, int]]) -> Iterator[bytes]:
    """A sparse file as it stands in the archive: its map, then its data without the holes."""
    yield sparse_map
    for begin, length in extents:
        stream.seek(begin)
        left = length
        while left and (piece := stream.read(min(left, _PIECE))):
            left -= len(piece)
            yield piece


class _Pieces(io.RawIOBase):
    """What comes in pieces, to be read in others."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""
        self._at = 0  # in the rest: tarfile asks for 16 KB at a time, and a piece is 1 MB

    def read(self, size: int = -1) -> bytes:
        while len(self._rest) - self._at < size and (piece := next(self._pieces, b"")):
            self._rest, self._at = self._rest[self._at :] + piece, 0
        given = self._rest[self._at : self._at + size]
        self._at += len(given)
        return given


class _Hashing:
    """Writes through to a file and computes the checksum of what has gone through."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._at = 0
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        self._at += len(data)
        return self._stream.write(data)

    def tell(self) -> int:
        return self._at


def write(target: Path, manifest: Manifest, fill: Callable[[Writer], None], *, over: bool) -> int:
    """Write a backup to `target`, for the user alone; its size in bytes. `fill` is handed what takes the data.

    Raises UsageError when there is a file and not `over`, StoreLocked when another process writes a backup to it,
    StoreError when it cannot be written. Nothing is left then.
    """
    part = target.with_name(target.name + PART)
    try:
        with _alone(part, target) as stream:
            hashing = _Hashing(stream)
            with tarfile.open(fileobj=hashing, mode="w", format=tarfile.PAX_FORMAT) as tar:  # type: ignore[call-overload]
                text = json.dumps(asdict(manifest), indent=1).encode()
                info = tarfile.TarInfo(MANIFEST)
                info.size = len(text)
                tar.addfile(info, io.BytesIO(text))
                fill(Writer(tar))
            stream.write(_MARK + hashing.digest.hexdigest().encode() + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
            _move(part, target, over=over)
        return target.stat().st_size
    except OSError as error:
        raise StoreError(
            f"the backup cannot be written to {target}: {error.strerror}; nothing is left of it.",
            fix=f"df -h {target.parent}, or name a file elsewhere",
        ) from error


@contextmanager
def _alone(part: Path, target: Path) -> Iterator[IO[bytes]]:
    """The file that a backup is written into, empty, and of one process at a time; gone afterwards, if not moved.

    Raises StoreLocked when another one is at it, OSError.
    """
    fd = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "r+b") as stream:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreLocked(f"another backup to {target} is being made.", fix="name another file, or wait") from None
        except OSError:  # a file system without locks
            pass
        if not _is(part, fd):
            raise StoreLocked(f"another backup to {target} has just been made.", fix="the same command again")
        try:
            os.fchmod(fd, 0o600)
            os.ftruncate(fd, 0)  # of a backup that was killed
            yield stream
        finally:
            if _is(part, fd):
                part.unlink()


def _is(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(fd))
    except FileNotFoundError:
        return False


def _move(part: Path, target: Path, *, over: bool) -> None:
    """Give it its name. Without `over` whoever made a file of that name in the meantime keeps it."""
    if over:
        part.replace(target)
    else:
        try:
            target.hardlink_to(part)
        except FileExistsError:
            raise exists(target) from None
        except OSError:  # a file system without hard links
            part.rename(target)
    fd = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def exists(target: Path) -> UsageError:
    """The refusal to write over a file unasked."""
    return UsageError(f"{target} exists already.", fix="name another file, or the same command with --yes")


class Backup:
    """A backup that was found whole."""

    def __init__(self, tar: tarfile.TarFile, manifest: Manifest, path: Path) -> None:
        self._tar = tar
        self.manifest = manifest
        self._path = path

    def unpack(self, folder: Path) -> None:
        """Put the data below `folder`, for the user alone. Raises OSError, UsageError for a name that leads out."""
        for member in self._tar:
            if member.name == MANIFEST:
                continue
            relative = PurePosixPath(member.name)
            if not member.isfile() or relative.parts[:1] != (DATA,) or ".." in relative.parts or not relative.parts[1:]:
                raise _foreign(self._path, f"{member.name!r} has no place in it")
            target = folder.joinpath(*relative.parts[1:])
            missing = [path for path in (target.parent, *target.parent.parents) if not path.exists()]
            for path in reversed(missing):
                path.mkdir(mode=0o700)
            source = self._tar.extractfile(member)
            assert source is not None  # it is a file
            fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as stream:
                while piece := source.read(_UNIT):
                    if piece == _ZEROS[: len(piece)]:
                        stream.seek(len(piece), os.SEEK_CUR)  # a hole
                    else:
                        stream.write(piece)
                stream.truncate()

    def only_file(self) -> IO[bytes]:
        """The data, which are one file. Raises UsageError when they are not."""
        members = [member for member in self._tar if member.name != MANIFEST]
        source = self._tar.extractfile(members[0]) if len(members) == 1 and members[0].isfile() else None
        if source is None:
            raise _foreign(self._path, "it holds no snapshot")
        return source


@contextmanager
def opened(path: Path) -> Iterator[Backup]:
    """A backup, once every byte of it was compared with its checksum.

    Raises UsageError when it is not there, is not one, is damaged, or is of a later format.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be waited for without end
            raise _foreign(path, "it is no file")
        stream = path.open("rb")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", fix=f"ls -l {path}") from error
    with stream:
        try:
            _verify(stream, path)
            with tarfile.open(fileobj=stream, mode="r:") as tar:
                yield Backup(tar, _manifest(tar, path), path)
        except (tarfile.TarError, EOFError) as error:
            raise _foreign(path, str(error)) from error


def _verify(stream: IO[bytes], path: Path) -> None:
    try:
        begin = stream.read(len(MANIFEST))
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - _TRAILER))
        trailer = stream.read()
        stream.seek(0)
        if begin != MANIFEST.encode():
            raise _foreign(path, "it does not begin as one")
        if not re.fullmatch(rb"sha256:[0-9a-f]{64}\n", trailer):
            raise UsageError(
                f"{path} is cut short: its checksum is missing.", fix="copy it again, or use another backup"
            )
        digest, left = hashlib.sha256(), size - _TRAILER
        while left and (piece := stream.read(min(_PIECE, left))):
            digest.update(piece)
            left -= len(piece)
        stream.seek(0)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", fix="use another copy of it") from error
    if digest.hexdigest().encode() != trailer[len(_MARK) : -1]:
        raise UsageError(f"{path} is damaged: its checksum is not that of its contents.", fix="use another backup")


def _manifest(tar: tarfile.TarFile, path: Path) -> Manifest:
    member = tar.next()
    source = tar.extractfile(member) if member and member.isfile() and member.size < _LARGEST_MANIFEST else None
    if source is None:
        raise _foreign(path, "its manifest cannot be read")
    try:
        values: dict[str, Any] = json.loads(source.read())
        if values["format"] != FORMAT:
            raise UsageError(
                f"{path} is a backup of format {values['format']}, this Bigos reads {FORMAT}.",
                fix="restore it with the Bigos that made it",
            )
        for spec in fields(Manifest):
            if not isinstance(values[spec.name], int if spec.type == "int" else str):
                raise TypeError(f"{spec.name} is {values[spec.name]!r}")
        return Manifest(**{spec.name: values[spec.name] for spec in fields(Manifest)})
    except (ValueError, KeyError, TypeError) as error:
        raise _foreign(path, f"its manifest lacks something or has something else: {error}") from error


def _foreign(path: Path, why: str) -> UsageError:
    return UsageError(f"{path} is no backup that Bigos made ({why}).", fix="name a file that bigos backup wrote")
