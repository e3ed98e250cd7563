# SPDX-License-Identifier: GPL-2.0-only
"""Source code: the text is the file, to the character; one block."""

from __future__ import annotations

from bigos.errors import DocumentError
from bigos.loaders.encoding import decode
from bigos.loaders.options import LoadOptions
from bigos.loaders.sections import Parsed
from bigos.types import Block, SourceFile


def load(_source: SourceFile, data: bytes, _options: LoadOptions) -> Parsed:
    """Decode and unify line ends; nothing else may change, or line ranges would point beside the code.

    Raises:
        DocumentError: "binary" when there is a NUL character, which no source code has.
    """
    text, _, warnings = decode(data)
    if "\0" in text:
        raise DocumentError("binary", "the file has NUL characters in it", skipped=True)
    return Parsed(text, (Block(text, 0, line_start=1),), None, warnings)
