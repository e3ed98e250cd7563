# SPDX-License-Identifier: GPL-2.0-only
"""By how much a scanned page lies askew: the angle at which its rows of pixels are most clearly lines and gaps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

MOST_DEGREES = 10
_SIDE = 700  # pixels of the longer side at which the page is looked at: a line of text has some ten
_COARSE, _FINE = 1.0, 0.25  # degrees
_LEAST_DEGREES = 1.5
"""What tesseract copes with by itself."""
_CLEARER = 1.5  # times as clear as it stands, or the page is no text


def skew_of(page: Image) -> float:
    """Degrees by which to turn the page clockwise, from -MOST_DEGREES to MOST_DEGREES; 0 when it is straight enough."""
    import numpy as np
    from PIL import Image as images

    small = page.convert("L")
    small = small.reduce(max(1, round(max(small.size) / _SIDE)))
    pixels = np.asarray(small, np.float32)
    ink = images.fromarray(np.uint8(255) * (np.abs(pixels - pixels.mean()) > pixels.std()))

    def clearness(degrees: float) -> float:
        rows = np.asarray(ink.rotate(-degrees), np.float32).sum(axis=1)
        return float(np.square(np.diff(rows)).sum())

    def clearest(angles: Iterable[float]) -> float:
        return max(angles, key=clearness)

    steps = int(MOST_DEGREES / _COARSE)
    about = clearest([step * _COARSE for step in range(-steps, steps + 1)])
    within = int(_COARSE / _FINE)
    degrees = clearest([about + step * _FINE for step in range(-within, within + 1)])
    clearer = clearness(degrees) > _CLEARER * clearness(0.0)
    return degrees if clearer and abs(degrees) >= _LEAST_DEGREES else 0.0
