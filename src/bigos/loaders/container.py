# SPDX-License-Identifier: GPL-2.0-only
"""ZIP containers (EPUB, OOXML, OpenDocument, FB2): read in memory, within stated limits, never extracted to disk."""

from __future__ import annotations

import contextlib
import io
import posixpath
import re
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from urllib.parse import unquote

from bigos.errors import DocumentError

MAX_UNPACKED_BYTES = 512 * 1024 * 1024
"""All entries together, as the container's directory declares them; no more than declared is ever unpacked."""
MAX_RATIO = 200
"""Unpacked bytes for one packed byte, once they are more than RATIO_FREE_BYTES. XML packs some 10 to 50 times."""
RATIO_FREE_BYTES = 16 * 1024 * 1024
MAX_ENTRIES = 50_000
MAX_PART_BYTES = 64 * 1024 * 1024
"""One entry that is read as a whole, because its parse tree takes some ten times as much."""

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED_PACKAGE = "EncryptedPackage".encode("utf-16-le")
# A document type, in the encodings that XML parsers recognise without help. OOXML forbids it.
_DOCTYPE = re.compile(rb"<!DOCTYPE|<\0!\0D\0O\0C\0T\0Y\0P\0E|\0<\0!\0D\0O\0C\0T\0Y\0P\0E")
_NAME_ENCODINGS = ("cp852", "cp1250")
_READ_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError)


class Container:
    """The entries of a ZIP file by name; names that leave the container mean nothing, for nothing is written.

    Names are looked up as a careless producer writes them: percent-encoded, in another case or Unicode form, with
    backslashes, or without the one folder that everything lies in.
    """

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._entries = {_plain(info.filename): info for info in archive.infolist() if not info.is_dir()}
        self.names = tuple(self._entries)
        self._prefix = _common_folder(self.names)
        self._folded: dict[str, str] = {}
        for name in self.names:
            for folded in (_folded(name), *_in_old_code_pages(name)):
                self._folded.setdefault(folded, name)

    def find(self, wanted: str) -> str | None:
        """The entry that `wanted` means, None when there is none."""
        for spelling in (wanted, unquote(wanted)):
            plain = _plain(spelling)
            for name in (plain, self._prefix + plain):
                if name in self._entries:
                    return name
                if _folded(name) in self._folded:
                    return self._folded[_folded(name)]
        return None

    def read(self, name: str, limit: int = MAX_PART_BYTES) -> bytes:
        """One entry's bytes.

        Args:
            name: one of `names`.
            limit: in bytes, unpacked.

        Raises:
            DocumentError: "too large when unpacked" above the limit, "damaged" when it cannot be unpacked.
        """
        info = self._entries[name]
        if info.file_size > limit:
            raise too_large(f"{name} has {info.file_size:,} bytes, and the limit is {limit:,}")
        try:
            with self._archive.open(info) as stream:
                return stream.read(limit + 1)[:limit]
        except _READ_ERRORS as error:
            raise DocumentError("damaged", f"{name} cannot be unpacked: {error}") from error


def open_container(data: bytes) -> Container:
    """Open a ZIP file that is within the limits.

    Raises:
        DocumentError: "damaged" when it is no whole ZIP file, "needs a password" when its entries are encrypted (or it
            is an Office file that is, inside an OLE file), "too large when unpacked".
    """
    if is_ole(data):
        refuse_encrypted_office(data)
        raise DocumentError("damaged", "an OLE file (old Office) under the name of a ZIP-based format")
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
        entries = archive.infolist()
    except _READ_ERRORS as error:
        raise DocumentError("damaged", f"the ZIP container is damaged or cut short: {error}") from error
    if len(entries) > MAX_ENTRIES:
        raise too_large(f"it has {len(entries):,} entries, and the limit is {MAX_ENTRIES:,}")
    unpacked = sum(info.file_size for info in entries)
    if unpacked > MAX_UNPACKED_BYTES:
        raise too_large(f"its entries have {unpacked:,} bytes, and the limit is {MAX_UNPACKED_BYTES:,}")
    if unpacked > max(RATIO_FREE_BYTES, MAX_RATIO * len(data)):
        raise too_large(f"its {len(data):,} bytes become {unpacked:,}, and the limit is {MAX_RATIO} times as many")
    if any(info.flag_bits & 1 for info in entries):
        raise _needs_password()
    return Container(archive)


def is_ole(data: bytes) -> bool:
    """Whether it is a compound file of Microsoft's: an old Office file, or the envelope of an encrypted new one."""
    return data.startswith(_OLE)


def too_large(why: str) -> DocumentError:
    """The failure of a file that is small on disk and not in memory."""
    return DocumentError("too large when unpacked", f"not read: {why}")


def refuse_encrypted_office(data: bytes) -> None:
    """Raise DocumentError "needs a password" for an encrypted OOXML file, which is an OLE file around it."""
    if is_ole(data) and _ENCRYPTED_PACKAGE in data:
        raise _needs_password()


def refuse_doctype(container: Container, names: Iterable[str] | None = None) -> None:
    """Refuse XML with a document type, before a library parses it: what entities expand to is then nobody's question.

    Raises:
        DocumentError: "damaged" when an XML part has one.
    """
    for name in container.names if names is None else names:
        if not name.lower().endswith((".xml", ".rels", ".vml")):
            continue
        if _DOCTYPE.search(container.read(name, MAX_UNPACKED_BYTES)):
            raise DocumentError("damaged", f"{name} declares a document type, which this format forbids")


def _needs_password() -> DocumentError:
    return DocumentError(
        "needs a password", "the file is encrypted", fix="save a copy without a password, and ingest that"
    )


def _plain(name: str) -> str:
    """A name without steps up or a leading slash."""
    path = posixpath.normpath("/" + name.replace("\\", "/"))
    return path.lstrip("/")


def _folded(name: str) -> str:
    """For a second look: NFC, one case, and UTF-8 that was taken for the code page of DOS."""
    with contextlib.suppress(UnicodeEncodeError, UnicodeDecodeError):
        name = name.encode("cp437").decode("utf-8")
    return unicodedata.normalize("NFC", name).casefold()


def _in_old_code_pages(name: str) -> Iterator[str]:
    """What the name is when the packer wrote it in a code page of its system, which the container does not tell."""
    if not name.isascii():
        with contextlib.suppress(UnicodeEncodeError):
            raw = name.encode("cp437")  # as zipfile has read it
            for encoding in _NAME_ENCODINGS:
                with contextlib.suppress(UnicodeDecodeError):
                    yield _folded(raw.decode(encoding))


def _common_folder(names: Iterable[str]) -> str:
    """The folder with its slash when all entries but mimetype and zip-slip ones lie in one that is no META-INF."""
    tops = {name.split("/", 1)[0] for name in names if "/" in name}
    marked = [top for top in tops if f"{top}/META-INF/container.xml" in names]
    return marked[0] + "/" if len(marked) == 1 else ""
