# SPDX-License-Identifier: GPL-2.0-only
"""What may go into the index as the configuration says it: which names, and which part of the disk."""

from __future__ import annotations

import os
from collections.abc import Iterator

from bigos.config import Config
from bigos.denied import Denied
from bigos.loaders import FORMATS
from bigos.source import languages

_MAY_KEEP_SECRETS = frozenset(
    ("text", "csv", "json", "jsonl", "xml", "mail", "docx", "xlsx", "odt", "ods", "flat-odf", "rtf", "legacy-office")
)
"""Formats that people and programs keep passwords and tokens in. The others are made to be read, or to be run."""
_DATA = frozenset(("yaml", "toml", "ini", "json", "env", "kconfig"))
"""Languages of the code loader that are data: what they say is a setting and not how something works."""
_MANUAL_SECTIONS = frozenset("12345678")


def denied(config: Config) -> Denied:
    """The setting denied_patterns, ready for a walk."""
    # The walk compares canonical paths, so a pattern for one must not go through links.
    whole = (os.path.realpath(name) if name.startswith("/") else name for name in config.denied_patterns)
    return Denied(whole, _spared())


def _spared() -> Iterator[str]:
    """Extensions that a name such as *token* is harmless with."""
    yield from _MANUAL_SECTIONS
    yield from (extension for extension, language in languages.EXTENSIONS.items() if language not in _DATA)
    for spec in FORMATS:
        if spec.kind == "document" and spec.name not in _MAY_KEEP_SECRETS:
            yield from spec.extensions
