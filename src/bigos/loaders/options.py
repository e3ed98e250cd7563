# SPDX-License-Identifier: GPL-2.0-only
"""What a loader may be told beside the file itself; picklable, and but for the language the same for a whole run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bigos.recognition import Recogniser

OcrPolicy = Literal["auto", "never", "always"]


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Settings of the loaders that need any."""

    ocr: OcrPolicy = "auto"
    """Which pages are recognised from their image: those without a text layer, none, or all."""
    scratch: Path | None = None
    """The run's folder for temporary files, removed after it and by the next run after a kill; None is the system's."""
    max_code_bytes: int = 1_000_000
    """Larger source files are skipped as generated."""
    code_names: tuple[tuple[str, str], ...] = ()
    """What the configuration adds to the table of code languages, see `languages.configured`."""
    recogniser: Recogniser | None = None
    """What reads pages that are images; None reads none."""
    code_language: str | None = None
    """What the file at hand is written in, where `detect` knew; `load_document` fills it in."""
