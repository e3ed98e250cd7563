# SPDX-License-Identifier: GPL-2.0-only
"""Recognised pages on disk, one folder a document, so that a scan is recognised once.

`FOLDER/ab/abcdef.../PAGE-KEY.txt`, where abcdef... is the content hash and KEY tells resolution, languages and engine.
Files are for their owner only: they hold what the scans hold. A damaged or unwritable cache costs time, nothing else.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from pathlib import Path

MOST_BYTES = 512 * 1024 * 1024
"""What the cache may hold, some 150,000 pages; the documents that were used longest ago are removed first."""

_DIGEST = re.compile(r"[0-9a-f]{16,128}")
_UNSAFE = re.compile(r"[^A-Za-z0-9.+_-]+")


def write_whole(file: Path, text: str) -> None:
    """Write a file for its owner only, so that a reader sees all of it or none. Raises OSError."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=".")  # mode 0600
    temporary = Path(name)
    try:
        os.close(handle)
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


class OcrCache:
    """Texts of pages by content hash, page and key."""

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        self.folder = folder
        self._most_bytes = most_bytes

    def get(self, digest: str, page: int, key: str) -> str | None:
        """The text of a page, None when it is not there."""
        file = self._file(digest, page, key)
        try:
            text = file.read_text(encoding="utf-8")
            os.utime(file.parent)  # what is used stays
        except (OSError, UnicodeDecodeError):
            return None
        return text

    def put(self, digest: str, page: int, key: str, text: str) -> None:
        """Keep the text of a page; a reader sees all of it or none."""
        file = self._file(digest, page, key)
        with contextlib.suppress(OSError):
            for folder in (self.folder, file.parent.parent, file.parent):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(file, text)

    def holds(self, digest: str) -> bool:
        """Whether there is a page of the document with this content hash; "", which is none, is asked in vain."""
        return bool(digest) and self._document(digest).is_dir()

    def forget(self, digest: str) -> bool:
        """Remove every page of a document; True when there was one."""
        folder = self._document(digest)
        there = folder.is_dir()
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            folder.parent.rmdir()  # only when it is empty
        return there

    def prune(self) -> None:
        """Bring the cache below its bound."""
        documents = []
        total = 0
        for folder in self.folder.glob("*/*/"):
            with contextlib.suppress(OSError):
                size = sum(entry.stat().st_size for entry in os.scandir(folder))
                documents.append((folder.stat().st_mtime, size, folder))
                total += size
        for _, size, folder in sorted(documents, key=lambda document: document[0]):
            if total <= self._most_bytes:
                return
            shutil.rmtree(folder, ignore_errors=True)
            total -= size

    def _document(self, digest: str) -> Path:
        if not _DIGEST.fullmatch(digest):
            raise ValueError(f"{digest!r} is no content hash")
        return self.folder / digest[:2] / digest

    def _file(self, digest: str, page: int, key: str) -> Path:
        return self._document(digest) / f"{page}-{_UNSAFE.sub('_', key)}.txt"
