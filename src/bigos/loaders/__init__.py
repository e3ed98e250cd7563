# SPDX-License-Identifier: GPL-2.0-only
"""Loaders: a file's bytes become a Document.

One FormatSpec a format stands in `FORMATS`; `detect` chooses exactly one, and `load_document` runs its loader, which is
imported only then. To add a format, write a module with `load(source, data, options) -> Parsed` and add its FormatSpec.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import stat
from collections.abc import Callable
from dataclasses import replace

from bigos.errors import BigosError, DocumentError
from bigos.loaders.detection import FORMATS, HEAD_BYTES, Detection, FormatSpec, detect
from bigos.loaders.options import LoadOptions, OcrPolicy
from bigos.loaders.sections import Parsed
from bigos.types import Document, SourceFile

__all__ = [
    "FORMATS",
    "HEAD_BYTES",
    "Detection",
    "FormatSpec",
    "LoadOptions",
    "OcrPolicy",
    "Parsed",
    "content_hash",
    "detect",
    "load_document",
    "read_head",
    "read_source",
]

DEFAULT_OPTIONS = LoadOptions()
VANISHED = "vanished"
"""The reason of a file that is gone since the walk."""

_READ_BYTES = 1 << 16  # at least, so that a file that grew while we read costs few calls


def read_source(source: SourceFile, max_bytes: int, setting: str = "max_file_bytes") -> bytes:
    """The whole file as it is now. `setting` names what sets max_bytes.

    Raises:
        DocumentError: "too large" (skipped) when it has more than max_bytes, also when it grows beyond them while it
            is read; "unreadable" with the system's words; VANISHED; "special file" when it is no regular file any more.
    """
    return _read(source, max_bytes, max_bytes, setting)


def read_head(source: SourceFile) -> bytes:
    """At most the first HEAD_BYTES bytes: enough for `detect` to refuse a file before all of it is read.

    Raises:
        DocumentError: "unreadable", VANISHED or "special file".
    """
    return _read(source, HEAD_BYTES, None)


def _read(source: SourceFile, wanted: int, max_bytes: int | None, setting: str = "") -> bytes:
    """Read up to `wanted` bytes; when max_bytes is given, more than that is an error."""
    parts: list[bytes] = []
    total = 0
    try:
        # O_NONBLOCK: the file may have become a FIFO since the walk, and opening one waits for a writer. O_NOFOLLOW: or
        # a link to what no walk would take.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW
        handle = os.open(source.path, flags)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise DocumentError("special file", "not a regular file", skipped=True)
            if max_bytes is not None and status.st_size > max_bytes:
                raise _too_large(status.st_size, max_bytes, setting)
            while total < wanted + 1:
                ask = max(status.st_size - total + 1, _READ_BYTES)
                part = os.read(handle, min(ask, wanted + 1 - total))
                if not part:
                    break
                parts.append(part)
                total += len(part)
        finally:
            os.close(handle)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DocumentError(VANISHED, "it is gone since its folder was looked at") from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise DocumentError("unreadable", f"cannot be read: {reason}") from error
    if max_bytes is not None and total > max_bytes:
        raise _too_large(total, max_bytes, setting)
    data = parts[0] if len(parts) == 1 else b"".join(parts)
    return data[:wanted]


def _too_large(size: int, max_bytes: int, setting: str) -> DocumentError:
    return DocumentError(
        "too large",
        f"{size:,} bytes, and the limit is {max_bytes:,}",
        fix=f"BIGOS_{setting.upper()}={size * 2} bigos ingest --reindex ...",
        skipped=True,
    )


def content_hash(data: bytes) -> str:
    """BLAKE2b of the file's bytes, 128 bits, as 32 hexadecimal digits."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def load_document(source: SourceFile, data: bytes, digest: str, options: LoadOptions = DEFAULT_OPTIONS) -> Document:
    """Detect the format once and load.

    Args:
        source: where the bytes came from; the file is not opened again.
        data: the whole file.
        digest: its content_hash.
        options: settings of the loaders that need any.

    Raises:
        DocumentError: "unknown format", "binary" or "empty" (all skipped); "damaged" for whatever the parser threw.
    """
    found = detect(source.path, data[:HEAD_BYTES], options.code_names)
    if not data or data.isspace():
        raise _empty()
    parsed = _parse(found.spec, source, data, replace(options, code_language=found.code_language))
    if not parsed.text or parsed.text.isspace():
        raise _empty()
    return Document(
        source=source,
        title=parsed.title,
        format=found.spec.name,
        kind=found.spec.kind,
        code_language=found.code_language,
        text=parsed.text,
        blocks=parsed.blocks,
        content_hash=digest,
        warnings=parsed.warnings,
    )


def _empty() -> DocumentError:
    return DocumentError("empty", "there is no text in the file", skipped=True)


def _parse(spec: FormatSpec, source: SourceFile, data: bytes, options: LoadOptions) -> Parsed:
    """Run the loader; the one place where a parser's exceptions become ours."""
    module, _, function = spec.loader.partition(":")
    load: Callable[[SourceFile, bytes, LoadOptions], Parsed] = getattr(importlib.import_module(module), function)
    try:
        return load(source, data, options)
    except (BigosError, MemoryError):
        raise
    except Exception as error:
        words = " ".join(str(error).split())[:200]
        raise DocumentError("damaged", f"the {spec.name} loader failed: {type(error).__name__}: {words}") from error
