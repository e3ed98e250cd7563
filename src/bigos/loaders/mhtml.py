# SPDX-License-Identifier: GPL-2.0-only
"""MHTML, a web page saved to one file: its main HTML part, read as a page."""

from __future__ import annotations

from email.message import Message

from bigos.errors import DocumentError
from bigos.loaders import mime
from bigos.loaders.html import read_page
from bigos.loaders.options import LoadOptions
from bigos.loaders.sections import Parsed, one_line
from bigos.types import SourceFile


def load(_source: SourceFile, data: bytes, _options: LoadOptions) -> Parsed:
    """The text of the page; frames, pictures and styles in the other parts are not read.

    Raises DocumentError "damaged" when there is no HTML part.
    """
    message = mime.parse(data)
    page = _main_part(message)
    if page is None:
        raise DocumentError("damaged", "there is no HTML page in it")
    parsed = read_page(mime.body(page), mime.charset(page))
    title = parsed.title or one_line(mime.header(message, "Subject")) or None
    return Parsed(parsed.text, parsed.blocks, title, parsed.warnings)


def _main_part(message: Message) -> Message | None:
    """The part that the header names as the start, else the one with the page's address, else the first."""
    pages = [part for part in message.walk() if part.get_content_type() in ("text/html", "application/xhtml+xml")]
    start = message.get_param("start")
    for part in pages:
        if start and part.get("Content-ID") == start:
            return part
    address = mime.header(message, "Snapshot-Content-Location")
    for part in pages:
        if address and mime.header(part, "Content-Location") == address:
            return part
    return pages[0] if pages else None
