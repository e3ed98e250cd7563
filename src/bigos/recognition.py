# SPDX-License-Identifier: GPL-2.0-only
"""The port between loaders, which know which pages are images, and what reads them (`ocr.Tesseract`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from bigos.errors import DocumentError

NEEDS_OCR = "needs OCR"
"""The reason of a DocumentError when what would read its pages is not there."""


@dataclass(frozen=True, slots=True)
class RecognisedPage:
    """What was read on a page (from 1): lines, and blank lines between paragraphs. `problem` says why there is none."""

    page: int
    text: str | None
    problem: str | None = None


class Recogniser(Protocol):
    """Reads images of pages, several at a time, in the order in which they get ready.

    `fingerprint` changes whenever it would read the same page otherwise. It goes into the Records of what it has read.

    Both methods raise DocumentError: "needs OCR" when a tool or a language is missing, "timed out" when page after page
    takes too long.
    """

    @property
    def fingerprint(self) -> str:
        """What reads, and how."""
        ...

    def ready(self) -> bool:
        """Whether all is there that it needs to read a page of a PDF now."""
        ...

    def recognise_pdf(
        self, data: bytes, digest: str, sizes: Mapping[int, tuple[float, float]]
    ) -> Iterator[RecognisedPage]:
        """Pages of a PDF: `sizes` has the width and height in points of each that is wanted, by its number from 1."""
        ...

    def recognise_images(
        self, digest: str, pages: Sequence[int], image: Callable[[int], Any]
    ) -> Iterator[RecognisedPage]:
        """Pages whose Pillow image `image` gives by their number; it is asked for one at a time."""
        ...


class Watched:
    """A Recogniser that remembers whether it was asked, and whether it could not answer for want of a program."""

    def __init__(self, recogniser: Recogniser) -> None:
        self._recogniser = recogniser
        self.asked = False
        self.lacked_programs = False

    @property
    def fingerprint(self) -> str:
        """See `Recogniser`."""
        return self._recogniser.fingerprint

    def ready(self) -> bool:
        """See `Recogniser.ready`."""
        return self._recogniser.ready()

    def recognise_pdf(
        self, data: bytes, digest: str, sizes: Mapping[int, tuple[float, float]]
    ) -> Iterator[RecognisedPage]:
        """See `Recogniser.recognise_pdf`."""
        return self._noting(self._recogniser.recognise_pdf(data, digest, sizes))

    def recognise_images(
        self, digest: str, pages: Sequence[int], image: Callable[[int], Any]
    ) -> Iterator[RecognisedPage]:
        """See `Recogniser.recognise_images`."""
        return self._noting(self._recogniser.recognise_images(digest, pages, image))

    def _noting(self, pages: Iterator[RecognisedPage]) -> Iterator[RecognisedPage]:
        self.asked = True
        try:
            yield from pages
        except DocumentError as error:
            self.lacked_programs = error.reason == NEEDS_OCR
            raise
