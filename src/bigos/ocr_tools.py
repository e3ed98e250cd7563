# SPDX-License-Identifier: GPL-2.0-only
"""Which OCR programs and languages are installed, and the command that brings what is missing."""

from __future__ import annotations

import contextlib
import json
import shutil
from functools import lru_cache
from pathlib import Path

from bigos.config import one_thread_a_page
from bigos.errors import DocumentError
from bigos.ocr_cache import write_whole

_MANAGERS = ("apt", "dnf", "pacman", "zypper", "brew")
_PACKAGES = {
    "tesseract": {"apt": "tesseract-ocr", "zypper": "tesseract-ocr"},
    "poppler": {"apt": "poppler-utils", "dnf": "poppler-utils", "zypper": "poppler-tools"},
    "djvulibre": {"apt": "djvulibre-bin"},
}
_LANGUAGE_PACKAGES = {
    "apt": "tesseract-ocr-{}",
    "dnf": "tesseract-langpack-{}",
    "pacman": "tesseract-data-{}",
    "zypper": "tesseract-ocr-traineddata-{}",
    "brew": "tesseract-lang",
}
_INSTALL = {
    "apt": "sudo apt install",
    "dnf": "sudo dnf install",
    "pacman": "sudo pacman -S",
    "zypper": "sudo zypper install",
    "brew": "brew install",
}
_KNOWN_ENGINE = "engine.json"


def install_command(program: str, languages: tuple[str, ...] = ()) -> str:
    """The command of this system's package manager (apt's where none is known).

    `program` is "tesseract", "poppler", "djvulibre" or ""; `languages` are tesseract's names.
    """
    manager = next((name for name in _MANAGERS if shutil.which(name)), "apt")
    packages = [_PACKAGES[program].get(manager, program)] if program else []
    packages += [_LANGUAGE_PACKAGES[manager].format(language.replace("_", "-")) for language in languages]
    return f"{_INSTALL[manager]} {' '.join(dict.fromkeys(packages))}"


def require_tools(languages: str, *, drawing: bool) -> None:
    """Check that pages can be recognised.

    Raises:
        DocumentError: "needs OCR", with the package to install.
    """
    one_thread_a_page()
    wanted = tuple(part for part in languages.split("+") if part and "/" not in part)  # script/Latin is listed nowhere
    if not shutil.which("tesseract"):
        raise DocumentError(
            "needs OCR",
            "the pages are images, and tesseract, which reads them, is not installed",
            fix=install_command("tesseract", wanted),
        )
    if drawing and not (shutil.which("pdftoppm") and shutil.which("pdfinfo")):
        raise DocumentError(
            "needs OCR",
            "the pages are images, and pdftoppm, which draws them, is not installed",
            fix=install_command("poppler"),
        )
    there = _installed_languages()
    missing = tuple(language for language in wanted if language not in there)
    if missing:
        raise DocumentError(
            "needs OCR",
            f"the pages are images, and tesseract has no data for the language {' and '.join(missing)}",
            fix=install_command("", missing),
        )


def _installed_languages() -> frozenset[str]:
    """Asked anew for each document: what is missing may have been installed since."""
    import pytesseract

    return frozenset(pytesseract.get_languages(config=""))


def tesseract_version(folder: Path | None) -> str | None:
    """The engine's version, asked once for an executable and then remembered in `folder`; None without one.

    What was recognised stays usable when the program is removed: the version that was seen last is the answer then.
    """
    program = shutil.which("tesseract")
    note = folder / _KNOWN_ENGINE if folder else None
    known: dict[str, object] = {}
    if note:
        with contextlib.suppress(OSError, ValueError):
            loaded = json.loads(note.read_text(encoding="utf-8"))
            known = loaded if isinstance(loaded, dict) else {}
    if program is None:
        return str(known["version"]) if "version" in known else None
    with contextlib.suppress(OSError):
        status = Path(program).stat()
        mark = {"program": program, "mtime_ns": status.st_mtime_ns, "size": status.st_size}
        if all(known.get(name) == value for name, value in mark.items()) and "version" in known:
            return str(known["version"])
        version = _ask_version(program, status.st_mtime_ns)
        if note and version:
            _remember(note, {**mark, "version": version})
        return version
    return None


@lru_cache(maxsize=4)
def _ask_version(_program: str, _mtime_ns: int) -> str | None:
    import pytesseract

    try:
        return str(pytesseract.get_tesseract_version())
    except (SystemExit, Exception):  # pytesseract ends the program over a version that it does not understand
        return None


def _remember(note: Path, content: dict[str, object]) -> None:
    with contextlib.suppress(OSError):
        note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(note, json.dumps(content))
