# SPDX-License-Identifier: GPL-2.0-only
"""Which format a file is: one answer, from its first bytes and its name together.

Content that is certain wins over the name; where it only says "some ZIP", "some binary" or "text", the name decides.
"""

from __future__ import annotations

import fnmatch
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bigos.errors import DocumentError
from bigos.loaders.content import ARCHIVES, CERTAIN_TEXT, INSIDE, TEXT, Content, sniff, text_family
from bigos.loaders.formats import FORMATS, FormatSpec
from bigos.source import languages
from bigos.types import path_text

__all__ = ["FORMATS", "HEAD_BYTES", "Detection", "FormatSpec", "binary_kind", "detect", "extension_of"]

VERSION = 2
"""Goes up when files that were of no known format may be of one now: they are then looked at again."""
HEAD_BYTES = 65_536
"""How much of a file `detect` looks at."""

_EXTENSION = re.compile(r"[0-9]*[A-Za-z][A-Za-z0-9_+-]{0,15}~?")
# config.h.in and riscv.ld.orig are what their inner name says.
_WRAPPERS = frozenset(("in", "orig", "sample", "example", "dist", "tmpl", "template"))


# Documents that are ZIP files inside, which no loader reads: "archive" would be no help.
_ZIPPED_DOCUMENTS = frozenset(
    (
        *("xlsb", "vsdx", "xps", "oxps", "odg", "otg", "odf", "odc", "odb", "sxw", "sxc", "sxi", "stw"),
        *("pages", "numbers", "key", "one", "onepkg", "hwpx", "ibooks", "kra", "ora", "3mf", "mscz", "xmind", "sketch"),
    )
)


@dataclass(frozen=True, slots=True)
class Detection:
    """The one format chosen for a file; `code_language` is lower case, None for documents."""

    spec: FormatSpec
    code_language: str | None = None


_BY_NAME = {spec.name: spec for spec in FORMATS}
_BY_EXTENSION = {extension: spec for spec in FORMATS for extension in spec.extensions}
_BARE = next(spec for spec in FORMATS if spec.bare)
_log = logging.getLogger(__name__)


def detect(path: Path, head: bytes, names: Sequence[tuple[str, str]] = ()) -> Detection:
    """Choose the format of a file. The choice and what it rests on are logged at debug level.

    Args:
        path: its name counts; the file itself is not touched.
        head: its first HEAD_BYTES bytes (or all of it).
        names: what the configuration adds to the table of code languages, see `languages.configured`.

    Raises:
        DocumentError: skipped, "unknown format" (the message names the extension), "archive" or "binary".
    """
    name = path_text(Path(path.name)).strip()
    named = _by_name(name, head, names)
    content = sniff(head)
    found = named
    if content is None and named and named.spec.kind == "code":
        family = "text"  # also a PHP file that begins with <html>
    elif content is None:
        family = text_family(head)
        found = _text_format(family, named, name)
    else:
        family = content.family
        found = _binary_format(family, named)
    by_name = named.spec.name if named else "nothing"
    _log.debug("%s: %s by content, %s by name: %s", name, family, by_name, found.spec.name if found else "no loader")
    if found is None:
        raise _refusal(name, named, content)
    return found


def _text_format(family: str, named: Detection | None, name: str) -> Detection | None:
    """An HTML page named .txt or .doc is HTML, and notes named .html or .pdf are text."""
    if named and family in named.spec.signatures:
        return named
    if family in CERTAIN_TEXT and not name.endswith("~"):
        spec = _by_signature(family)
        if spec:
            return Detection(spec)
    if named and family == "mail" and named.spec.bare:
        return Detection(_BY_NAME["mail"])  # mail folders have names like Inbox
    if named and named.spec.signatures:
        return Detection(_BY_NAME["xml"] if family == "xml" else _BARE)
    return named


def _binary_format(family: str, named: Detection | None) -> Detection | None:
    """A PDF is a PDF whatever its name; what may be anything of its kind is what its name says."""
    signatures = named.spec.signatures - TEXT if named else frozenset[str]()
    if family in signatures or signatures & INSIDE.get(family, frozenset()) or (signatures and family == "binary"):
        return named
    spec = _by_signature(family)
    if spec and (signatures or family != "ole"):  # a Thumbs.db is "ole" too
        return Detection(spec)
    return None


def _by_signature(family: str) -> FormatSpec | None:
    return next((spec for spec in FORMATS if family in spec.signatures), None)


def _refusal(name: str, named: Detection | None, content: Content | None) -> DocumentError:
    if content and content.family in ARCHIVES and extension_of(name) not in _ZIPPED_DOCUMENTS:
        return DocumentError("archive", f"the file is {content.words}, and archives are not opened", skipped=True)
    if content and named and content.family not in ARCHIVES:
        return DocumentError("binary", f"the content is {content.words}, not text", skipped=True)
    shown = name[name.rindex(".") :] if "." in name else name
    return DocumentError("unknown format", f"no loader for {shown} files", skipped=True)


def _by_name(name: str, head: bytes, names: Sequence[tuple[str, str]]) -> Detection | None:
    code = _BY_NAME["code"]
    certain = languages.configured_language(name, names) or languages.NAMES.get(name)
    if certain:
        return Detection(code, certain)
    extension = extension_of(name)
    known = _by_extension(extension, name, head)
    if known and known.code_language not in languages.WORDS:
        return known
    known = _by_glob(name) or known
    if known:
        return known
    script = languages.shebang_language(head)
    if script:
        return Detection(code, script)
    return None if extension or name.endswith("~") else Detection(_BARE)


def _by_glob(name: str) -> Detection | None:
    for glob, language in languages.NAME_GLOBS:
        if fnmatch.fnmatchcase(name, glob):
            return Detection(_BY_NAME["code"], language)
    for spec in FORMATS:
        if not name.endswith("~") and any(fnmatch.fnmatchcase(name, glob) for glob in spec.names):
            return Detection(spec)
    return None


def _by_extension(extension: str, name: str, head: bytes) -> Detection | None:
    if extension in _WRAPPERS:
        name = name[: name.rindex(".")]
        if name in languages.NAMES:
            return Detection(_BY_NAME["code"], languages.NAMES[name])
        extension = extension_of(name)
    spec = _BY_EXTENSION.get(extension)
    if spec is None:
        return None
    if spec.kind == "document":
        return Detection(spec)
    return Detection(spec, languages.extension_language(extension, head))


def extension_of(name: str) -> str:
    """The extension, lower case, without the dot; "" for none.

    What follows the last dot of `GPL-2.0`, `ls.1` or `Dr. Kowalska, notes` is no extension, nor is a dot file's name.
    """
    stem, dot, extension = name.strip().rpartition(".")
    return extension.lower() if dot and stem and _EXTENSION.fullmatch(extension) else ""


def binary_kind(head: bytes) -> str | None:
    """What binary content it is, in words for a message; None for text."""
    content = sniff(head)
    return content.words if content else None
