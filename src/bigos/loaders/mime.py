# SPDX-License-Identifier: GPL-2.0-only
"""MIME messages: headers as people read them, bodies as bytes, whatever the sender got wrong."""

from __future__ import annotations

import email
import email.header
import email.policy
import email.utils
from email.message import Message

from bigos.loaders.encoding import clean, decode


def parse(data: bytes) -> Message:
    """The message; never raises for what is merely malformed."""
    # compat32: the newer policy parses every header when it is asked for, and throws at those that are not RFC 5322.
    return email.message_from_bytes(data.lstrip(b"\r\n"), policy=email.policy.compat32)


def header(message: Message, name: str) -> str:
    """All values of a header, decoded; "" when there is none."""
    values = [value for key, value in message.raw_items() if key.lower() == name.lower()]
    return ", ".join(_decoded(str(value)) for value in values)


def _decoded(value: str) -> str:
    """Encoded words (=?utf-8?Q?...?=) and bytes that should have been encoded as words, as text."""
    try:
        parts = email.header.decode_header(value)
    except (email.errors.HeaderParseError, ValueError):
        parts = [(value, None)]
    words = []
    for part, charset in parts:
        raw = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        words.append(_text(raw, charset))
    return clean("".join(words)).replace("\n", " ")


def _text(raw: bytes, charset: str | None) -> str:
    if charset:
        try:
            return raw.decode(charset)
        except (LookupError, ValueError):
            pass  # a charset that does not exist, or not that of these bytes
    return decode(raw, charset)[0]


def body(part: Message) -> bytes:
    """A part's content with base64 and quoted-printable undone; b"" for a multipart."""
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def charset(part: Message) -> str | None:
    """The character set that the part's header names."""
    try:
        return part.get_content_charset()
    except (LookupError, ValueError):
        return None


def file_name(part: Message) -> str | None:
    """The name of an attachment."""
    try:
        name = part.get_filename()
    except (LookupError, ValueError):
        return None
    return _decoded(name).strip() or None if name else None
