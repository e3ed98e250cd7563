# SPDX-License-Identifier: GPL-2.0-only
"""Source code: the text is the file, to the character; a block a definition. What a program wrote is refused."""

from __future__ import annotations

import fnmatch
import re

from bigos.errors import DocumentError
from bigos.loaders.encoding import decode
from bigos.loaders.options import LoadOptions
from bigos.loaders.sections import Parsed
from bigos.source.definitions import sections
from bigos.types import Block, SourceFile

_LONG_LINE = 2000
_ENORMOUS_LINE = 5000
"""Characters. The longest line in 2,300 files of kernels, Yocto layers and HDL has 755."""
_VISIBLE = re.compile(r"\S")
_LONG_LINES = re.compile(rf"[^\n]{{{_LONG_LINE},}}")
_LONG_LINES_BYTES = 20_000
"""Smaller files may be one line: they are some chunks at most, and often written by hand, as a test of a parser."""
_PACKED = frozenset(("js", "mjs", "cjs", "css"))
"""Extensions of what is packed for browsers, by some packers in lines of a few hundred characters."""
_PACKED_BYTES, _PACKED_LINE = 10_000, 200
_GENERATED_NAMES = ("*.min.js", "*.min.mjs", "*.min.css", "pnpm-lock.yaml")


def load(source: SourceFile, data: bytes, options: LoadOptions) -> Parsed:
    """Decode and unify line ends; nothing else may change, or line ranges would point beside the code.

    Blocks are the definitions, as far as they are known in the language; a block's trail of headings is their names.

    Raises:
        DocumentError: skipped; "binary" when there is a NUL character, which no source code has, "generated" for a file
            that is too large, or packed into lines that no person reads.
    """
    if len(data) > options.max_code_bytes:
        # Nobody writes larger source files: they are register tables, amalgamations, data.
        raise _generated(f"{len(data):,} bytes of code, and the limit is {options.max_code_bytes:,}")
    text, _, warnings = decode(data)
    if "\0" in text:
        raise DocumentError("binary", "the file has NUL characters in it", skipped=True)
    why = _sign_of_a_program(source.path.name, text)
    if why:
        raise _generated(why)
    return Parsed(text, _blocks(text, options.code_language), None, warnings)


def _blocks(text: str, language: str | None) -> tuple[Block, ...]:
    return tuple(
        Block(text[part.start : part.end], part.start, line_start=part.line, heading_path=part.trail)
        for part in sections(text, language)
        if _VISIBLE.search(text, part.start, part.end)
    )


def _generated(why: str) -> DocumentError:
    return DocumentError("generated", why, skipped=True)


def _sign_of_a_program(name: str, text: str) -> str | None:
    """Why the text was not written by hand; None when nothing says so. One long line of data makes no such file."""
    if any(fnmatch.fnmatchcase(name, glob) for glob in _GENERATED_NAMES):
        return "the name says that a program wrote it"
    long_lines = [len(match[0]) for match in _LONG_LINES.finditer(text)]
    mostly_long = len(text) > _LONG_LINES_BYTES and 2 * sum(long_lines) > len(text)
    if mostly_long and max(long_lines) >= _ENORMOUS_LINE:
        return f"most of it is in lines of up to {max(long_lines):,} characters"
    lines = text.count("\n") + 1
    extension = name.rpartition(".")[2].lower()
    if extension in _PACKED and len(text) > _PACKED_BYTES and len(text) > _PACKED_LINE * lines:
        return f"its lines have {len(text) // lines:,} characters on average"
    return None
