# SPDX-License-Identifier: GPL-2.0-only
"""E-mail: one message (.eml) or a mailbox of them (.mbox); sender, receivers, subject, date and the text.

Each message is a section under its subject. Of a message that says the same as text and as HTML the text is taken.
Attachments are named, not opened; a message inside a message is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from email.message import Message

from bigos.loaders import mime
from bigos.loaders.encoding import clean, decode
from bigos.loaders.html import read_page
from bigos.loaders.options import LoadOptions
from bigos.loaders.sections import Parsed, one_line
from bigos.types import Block, SourceFile

_FROM_LINE = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\r\n\r\n))From [^\r\n]*\r?\n(?=[A-Za-z][\w-]*:|>From )")
_QUOTED_FROM = re.compile(rb"^>(>*From )", re.MULTILINE)
_SHOWN = ("From", "To", "Cc", "Date", "Subject")
_MOST_NESTED = 8  # messages inside messages
_SPACES = re.compile(r"[ \t\xa0]+")
_GAPS = re.compile(r"\n{3,}")


def load(_source: SourceFile, data: bytes, _options: LoadOptions) -> Parsed:
    """One block a message, under its subject; the title is the subject when there is one message."""
    letters = _Letters()
    starts = list(_FROM_LINE.finditer(data))
    if starts and not data[: starts[0].start()].strip():
        ends = [match.start() for match in starts[1:]] + [len(data)]
        for match, end in zip(starts, ends, strict=True):
            letters.add(_QUOTED_FROM.sub(rb"\1", data[match.end() : end]))
    else:
        letters.add(data)
    return letters.parsed(title=None if len(starts) > 1 else letters.subject)


class _Letters:
    """Puts messages together to one text."""

    def __init__(self) -> None:
        self.subject: str | None = None
        self._parts: list[str] = []
        self._blocks: list[Block] = []
        self._at = 0
        self._unread = 0

    def add(self, data: bytes) -> None:
        """One message. What cannot be taken apart at all is counted, and costs no other."""
        try:
            self._message(mime.parse(data), ())
        except (ValueError, LookupError, RecursionError, AssertionError, AttributeError):
            self._unread += 1  # what Python's parser throws at messages that break its expectations

    def parsed(self, title: str | None) -> Parsed:
        """The document so far."""
        warnings = (f"{self._unread} messages cannot be read",) if self._unread else ()
        return Parsed("".join(self._parts), tuple(self._blocks), title, warnings)

    def _message(self, message: Message, above: tuple[str, ...]) -> None:
        subject = one_line(mime.header(message, "Subject"))
        self.subject = self.subject or subject or None
        path = (*above, subject) if subject else above
        lines = [f"{name}: {value}" for name in _SHOWN if (value := one_line(mime.header(message, name)))]
        content = _Content(message)
        bodies = [_tidy(text) for text in content.texts]
        attached = "\n".join(f"Attachment: {name}" for name in content.attachments)
        self._put("\n\n".join(part for part in ("\n".join(lines), *bodies, attached) if part), path)
        for inner in content.messages:
            if len(above) < _MOST_NESTED:
                self._message(inner, path)

    def _put(self, text: str, path: tuple[str, ...]) -> None:
        if not text:
            return
        if self._parts:
            self._parts.append("\n\n")
            self._at += 2
        self._blocks.append(Block(text, self._at, heading_path=path))
        self._parts.append(text)
        self._at += len(text)


class _Content:
    """What a message holds: texts in reading order, names of attachments, messages."""

    def __init__(self, message: Message) -> None:
        self.texts: list[str] = []
        self.attachments: list[str] = []
        self.messages: list[Message] = []
        for part in _parts(message):
            self._take(part)

    def _take(self, part: Message) -> None:
        kind = part.get_content_type()
        name = mime.file_name(part)
        if kind == "message/rfc822":
            inner = part.get_payload()
            self.messages += [one for one in (inner if isinstance(inner, list) else []) if isinstance(one, Message)]
        elif part.get_content_disposition() == "attachment" or not kind.startswith("text/") or name:
            if name or not kind.startswith(("multipart/", "text/")):
                self.attachments.append(f"{name} ({kind})" if name else kind)
        elif kind == "text/html":
            page = read_page(mime.body(part), mime.charset(part))
            self.texts.append(page.text)
        else:
            self.texts.append(clean(decode(mime.body(part), mime.charset(part))[0]))


def _parts(message: Message) -> Iterator[Message]:
    """The leaves of a message; of alternatives only the best: text that says something, else HTML, else the last."""
    waiting = [message]
    while waiting:
        part = waiting.pop()
        inner = part.get_payload()
        if part.get_content_type() == "message/rfc822" or not part.is_multipart() or not isinstance(inner, list):
            yield part
        elif part.get_content_subtype() == "alternative":
            best = _best([one for one in inner if isinstance(one, Message)])
            waiting += [best] if best else []
        else:
            waiting += [one for one in reversed(inner) if isinstance(one, Message)]


def _best(alternatives: list[Message]) -> Message | None:
    for part in alternatives:
        if part.get_content_type() == "text/plain" and mime.body(part).strip():
            return part
    for part in alternatives:
        if part.get_content_type() == "text/html" or part.is_multipart():
            return part
    return alternatives[-1] if alternatives else None


def _tidy(text: str) -> str:
    lines = (_SPACES.sub(" ", line).rstrip() for line in text.split("\n"))
    return _GAPS.sub("\n\n", "\n".join(lines)).strip("\n")
