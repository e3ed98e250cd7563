# SPDX-License-Identifier: GPL-2.0-only
"""PDF: the text layer through pdfium in reading order, page by page; what has none is recognised from its image.

What counts as text: whatever is in the text layer and on the page, so white text and the invisible layer that OCR
programs leave too; a line that lies wholly beside the page is left out, as no reader ever shows it. Running headers and
footers are left out. A page is recognised (policy "auto") when its text layer is missing or is not what the page
shows, and when an image covers most of it and the layer is no more than a stamp. Pages that would need OCR which cannot
be had are left out with a warning; a document that has nothing else fails with "needs OCR".
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from bigos.errors import DocumentError
from bigos.loaders import pdf_document, pdf_fallback, pdf_repair
from bigos.loaders.hyphens import Hyphens
from bigos.loaders.legibility import judge, without_unmapped
from bigos.loaders.options import LoadOptions
from bigos.loaders.pdf_furniture import without_furniture
from bigos.loaders.pdf_layout import Paragraph, lay_out
from bigos.loaders.pdf_lines import Line
from bigos.loaders.pdf_outline import Outline, bookmarks
from bigos.loaders.pdf_pages import Page, PageReader
from bigos.loaders.pdf_writing import Writer, learn, of_recognised
from bigos.loaders.recognised import Recognised, page_numbers, recognise, says_more
from bigos.loaders.sections import Parsed
from bigos.types import SourceFile

_STAMP = 300  # characters; more on a scanned page is a text layer
_MOST_COVERED = 0.5  # of the page, from which on an image is the page
_BATCH = 48  # pages that are read, and then laid out: by turns, each would drive the other out of the processor's cache
_PASSWORD = 4  # FPDF_ERR_PASSWORD
_ANNOTATED = re.compile(rb"/Subtype\s*/(?:FreeText|Stamp)\b")
_NUMBERS_ONLY = re.compile(r"[\d\s.,:/()%–-]+")


@dataclass(slots=True)
class _Read:
    """One page as it was read: paragraphs, and where the bookmarks lead to on it."""

    paragraphs: list[Paragraph] = field(default_factory=list)
    downs: list[float | None] = field(default_factory=list)
    size: tuple[float, float] = (595.0, 842.0)
    values: list[tuple[str, str]] = field(default_factory=list)
    """Of the form's fields on the page, with their labels."""
    to_recognise: bool = False
    trusted: bool = True
    """Whether the text layer says what the page shows."""
    distrusted: bool = False
    """Whether the text layer stands though it is not trusted, as nothing better was to be had."""
    usable: bool = True
    """Whether the text layer may stand when nothing better is to be had."""


def load(_source: SourceFile, data: bytes, options: LoadOptions) -> Parsed:
    """Paragraphs with their page and the trail of bookmarks above them.

    Raises:
        DocumentError: "needs a password", "needs OCR", "timed out", or "damaged" when neither reader opens the file.
    """
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if error.err_code == _PASSWORD:
            raise pdf_fallback.needs_password() from error
    else:
        try:
            return _Loading(document, data, data, options).parsed()
        finally:
            document.close()
    try:
        return _load_without_pdfium(data)
    except DocumentError as error:
        left = _load_what_is_left(data, options) if error.reason == "damaged" else None
        if left is None:
            raise
        return left


def _load_what_is_left(data: bytes, options: LoadOptions) -> Parsed | None:
    """The text of the pages of a file that no reader opens as it is; None when there is none."""
    import pypdfium2

    repaired = pdf_repair.with_new_catalog(data)
    if repaired is None:
        return None
    try:
        document = pypdfium2.PdfDocument(repaired)
    except pypdfium2.PdfiumError:
        return None
    try:
        parsed = _Loading(document, repaired, data, options).parsed()
    finally:
        document.close()
    said = "the file is damaged or cut short, and has no order of its pages; what is left of them was read"
    return replace(parsed, warnings=(said, *parsed.warnings)) if parsed.text.strip() else None


def _load_without_pdfium(data: bytes) -> Parsed:
    texts, title = pdf_fallback.page_texts(data)
    writer = Writer(Outline(()), Hyphens())
    for index, text in enumerate(texts):
        if judge(text) in ("good", "weak"):
            writer.page(index, of_recognised(text), ())
    return writer.parsed(pdf_document.title(title), ())


class _Loading:
    """The reading of one document that pdfium has open."""

    def __init__(self, document: Any, data: bytes, original: bytes, options: LoadOptions) -> None:
        """`data` is what pdfium has open, `original` the file."""
        self._document = document.raw
        self._data = data
        self._original = original
        self._options = options
        self._count = len(document)
        self._unreadable: list[int] = []

    def parsed(self) -> Parsed:
        with _collector_paused():
            outline = Outline(bookmarks(self._document))
            pages = self._read(outline)
        recognised = self._recognise(pages)
        left_out = self._choose(pages, recognised)
        distrusted = [number for number, page in enumerate(pages, 1) if page.paragraphs and page.distrusted]
        hyphens = Hyphens()
        learn(hyphens, [page.paragraphs for page in pages])
        attached = pdf_document.attachment_names(self._document)
        if attached and pages:
            pages[-1].paragraphs.append(Paragraph("\n".join(["Attached files:", *attached]), float("inf")))
        warnings = self._warnings(recognised, left_out, len(attached))
        if distrusted:
            said = "the text layer does not say what the page shows, and was taken for want of OCR"
            warnings = (*warnings, f"{said}: {page_numbers(distrusted)}")
        if not any(page.paragraphs for page in pages):
            recognised.refuse_without_text()
            if len(self._unreadable) == self._count:
                raise DocumentError("damaged", "none of the pages can be read")
            return Parsed("", (), warnings=warnings)
        writer = Writer(outline, hyphens)
        with _collector_paused():
            for index, page in enumerate(pages):
                writer.page(index, page.paragraphs, page.downs)
        return writer.parsed(pdf_document.metadata_title(self._document), warnings)

    def _warnings(self, recognised: Recognised, left_out: Sequence[int], attached: int) -> tuple[str, ...]:
        warnings = list(recognised.warnings(left_out))
        if attached:
            warnings.append(f"{attached} attached {'file is' if attached == 1 else 'files are'} not opened")
        if self._unreadable:
            warnings.append(f"could not be read: {page_numbers(self._unreadable)}")
        return tuple(warnings)

    def _read(self, outline: Outline) -> list[_Read]:
        """Every page, in one pass; of the lines and their places only a few pages' are ever held."""
        found: list[_Read] = []
        with pdf_document.Form(self._document) as form:
            annotated = form.is_form or _ANNOTATED.search(self._data) is not None
            reader = PageReader(self._document, annotated=annotated)
            stripped = without_furniture(self._lines(reader, form, found, outline), self._count)
            batch: list[Sequence[Line]] = []
            for index in range(self._count):
                if index % _BATCH == 0:
                    batch = list(islice(stripped, _BATCH))
                page = found[index]
                page.paragraphs = lay_out(batch[index % _BATCH])
                shown = "\n".join([paragraph.text for paragraph in page.paragraphs]) if page.values else ""
                for label, value in page.values:
                    if value not in shown:
                        line = f"{label}: {value}" if label else value
                        page.paragraphs.append(Paragraph(line, page.size[1], tight=True))
            if form.is_xfa:
                text = pdf_fallback.xfa_text(self._data)
                if text and found:
                    found[-1].paragraphs.append(Paragraph(text, found[-1].size[1]))
        return found

    def _lines(
        self, reader: PageReader, form: pdf_document.Form, found: list[_Read], outline: Outline
    ) -> Iterator[Sequence[Line]]:
        for first in range(0, self._count, _BATCH):
            indexes = range(first, min(first + _BATCH, self._count))
            # A form's values first: the reader makes its fields a part of the page.
            batch = [(index, form.values(index), reader.read(index, look_below=_STAMP)) for index in indexes]
            for index, values, page in batch:
                points = outline.points(index)
                if page is None:
                    self._unreadable.append(index + 1)
                    found.append(_Read(downs=[None] * len(points)))
                    yield ()
                    continue
                downs = [point and page.reading_y(*point) for point in points]
                read = _Read(downs=downs, size=page.size, values=values)
                found.append(read)
                yield self._usable_lines(page, read)

    def _usable_lines(self, page: Page, read: _Read) -> Sequence[Line]:
        """The page's lines, mended; none when they are not what the page shows. Decides whether to recognise it."""
        text = page.text
        legible = judge(text) if page.lines else "none"
        picture = page.picture
        if legible == "good":
            scanned = picture is not None and picture.image_share >= _MOST_COVERED and not picture.invisible_text
            read.to_recognise = scanned
        elif legible == "none":
            read.to_recognise = picture is not None and picture.drawn
        else:
            read.to_recognise = True
            read.trusted = False
            read.usable = legible == "garbage" or _NUMBERS_ONLY.fullmatch(text) is not None
        if self._options.ocr == "always":
            read.to_recognise = True
        if legible != "garbage":
            return page.lines
        mended = [line._replace(text=without_unmapped(line.text).strip()) for line in page.lines]
        return [line for line in mended if line.text]

    def _recognise(self, pages: list[_Read]) -> Recognised:
        wanted = {number: page.size for number, page in enumerate(pages, 1) if page.to_recognise}
        return recognise(
            self._options,
            self._original,
            wanted,
            lambda recogniser, digest: recogniser.recognise_pdf(self._data, digest, wanted),
        )

    def _choose(self, pages: list[_Read], recognised: Recognised) -> list[int]:
        """Take the better of text layer and OCR for each page; the numbers of those that have neither."""
        left_out = []
        for number, page in enumerate(pages, 1):
            if not page.to_recognise:
                continue
            text = recognised.texts.get(number)
            layer = "\n".join([paragraph.text for paragraph in page.paragraphs])
            if text and (not layer or not page.trusted or self._options.ocr == "always" or says_more(text, layer)):
                page.paragraphs = of_recognised(text)
            elif not page.usable:
                page.paragraphs = []
            else:
                page.distrusted = not page.trusted
            if text is None and not page.paragraphs:
                left_out.append(number)
        return left_out


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Without the search for cycles: a page makes thousands of small objects and no cycle, and it took a tenth."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()
