# SPDX-License-Identifier: GPL-2.0-only
"""What a PDF holds beside its pages: its title, its form's values, the names of files attached to it."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from bigos.loaders.encoding import clean
from bigos.loaders.sections import one_line

_MOST_ATTACHMENTS = 1000
_MOST_WIDGETS = 5000  # on one page
_NO_TITLE = re.compile(
    r"(?:untitled|unknown|bez tytułu|document|dokument|title|slide|slajd|scan|skan|print|test)?[\s_-]*\d*"
    r"|\(?anonymous\)?|adobe photoshop pdf"
    r"|[\w.,()\[\]%+~-]*"
    r"\.(?:docx?|odt|rtf|pdf|tex|dvi|ps|pptx?|xlsx?|indd|qxd|pmd|cdr|html?|txt|tiff?|jpe?g|png)"
    r"|.*[\\/][^\\/]+\.\w{2,5}",
    re.IGNORECASE,
)
_PROGRAM = re.compile(
    r"^(?:Microsoft (?:Office )?(?:Word|PowerPoint|Excel)|PowerPoint Presentation)\s*-\s*", re.IGNORECASE
)


def title(raw: str) -> str | None:
    """The title of the metadata, or None when a program put a file name or a default there."""
    words = one_line(clean(_PROGRAM.sub("", raw)))
    if "\ufffd" in words or not any(char.isalpha() for char in words) or _NO_TITLE.fullmatch(words):
        return None
    return words


def metadata_title(document: Any) -> str | None:
    """The title of a document that pdfium has open."""
    import pypdfium2.raw as pdfium

    raw = _utf16(lambda buffer, size: pdfium.FPDF_GetMetaText(document, b"Title\0", buffer, size))
    return title(raw)


def attachment_names(document: Any) -> list[str]:
    """Names of the files that are attached; they are not opened."""
    import pypdfium2.raw as pdfium

    names = []
    for index in range(min(pdfium.FPDFDoc_GetAttachmentCount(document), _MOST_ATTACHMENTS)):
        attached = pdfium.FPDFDoc_GetAttachment(document, index)
        if attached:
            raw = _utf16(partial(pdfium.FPDFAttachment_GetName, attached))
            names.append(one_line(clean(raw)))
    return [name for name in names if name]


class Form:
    """The form of an open document; gives the values that its fields have on a page. A context manager."""

    def __init__(self, document: Any) -> None:
        import pypdfium2.raw as pdfium

        self._pdfium: Any = pdfium
        self._document = document
        self.kind: int = pdfium.FPDF_GetFormType(document)
        self._config: Any = None  # pdfium keeps a pointer to it
        self._handle: Any = None

    def __enter__(self) -> Form:
        if self.is_form:
            self._config = self._pdfium.FPDF_FORMFILLINFO(version=2)
            self._handle = self._pdfium.FPDFDOC_InitFormFillEnvironment(self._document, self._config)
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle:
            self._pdfium.FPDFDOC_ExitFormFillEnvironment(self._handle)
            self._handle = None

    @property
    def is_xfa(self) -> bool:
        """Whether the form is written in XFA, which pdfium does not read."""
        return self.kind in (self._pdfium.FORMTYPE_XFA_FULL, self._pdfium.FORMTYPE_XFA_FOREGROUND)

    @property
    def is_form(self) -> bool:
        """Whether there is a form at all."""
        return bool(self.kind != self._pdfium.FORMTYPE_NONE)

    def values(self, index: int) -> list[tuple[str, str]]:
        """(label, value) of each field with a value on the page at `index` from 0."""
        if not self._handle:
            return []
        page = self._pdfium.FPDF_LoadPage(self._document, index)
        if not page:
            return []
        try:
            return list(dict.fromkeys(self._values(page)))  # a group of buttons has one value
        finally:
            self._pdfium.FPDF_ClosePage(page)

    def _values(self, page: Any) -> Iterator[tuple[str, str]]:
        pdfium, handle = self._pdfium, self._handle
        for index in range(min(pdfium.FPDFPage_GetAnnotCount(page), _MOST_WIDGETS)):
            widget = pdfium.FPDFPage_GetAnnot(page, index)
            if not widget:
                continue
            try:
                if pdfium.FPDFAnnot_GetSubtype(widget) != pdfium.FPDF_ANNOT_WIDGET:
                    continue
                kind = pdfium.FPDFAnnot_GetFormFieldType(handle, widget)
                if kind in (pdfium.FPDF_FORMFIELD_PUSHBUTTON, pdfium.FPDF_FORMFIELD_SIGNATURE):
                    continue
                value = self._text("FPDFAnnot_GetFormFieldValue", widget)
                if not value or value == "Off":
                    continue
                label = self._text("FPDFAnnot_GetFormFieldAlternateName", widget)
                label = label or self._text("FPDFAnnot_GetFormFieldName", widget)
                yield label, value
            finally:
                pdfium.FPDFPage_CloseAnnot(widget)

    def _text(self, function: str, widget: Any) -> str:
        ask = getattr(self._pdfium, function)
        return clean(_utf16(lambda buffer, size: ask(self._handle, widget, buffer, size))).strip()


def _utf16(ask: Callable[[Any, int], int]) -> str:
    """The answer of a function that writes UTF-16 into a buffer, and says how many bytes it needs when given none."""
    size = ask(None, 0)
    if size <= 2:
        return ""
    buffer = (ctypes.c_ushort * (size // 2 + 1))()
    ask(buffer, size)
    return ctypes.string_at(buffer, size - 2).decode("utf-16-le", "replace")
