# SPDX-License-Identifier: GPL-2.0-only
"""What OCR gave for the pages of a file, or why it gave nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from bigos.errors import DocumentError
from bigos.loaders.options import LoadOptions
from bigos.recognition import RecognisedPage, Recogniser

_WORD = re.compile(r"[^\W_]{2,}")
_MOST_NAMED = 20


@dataclass(slots=True)
class Recognised:
    """Texts of recognised pages by their number from 1; `refusal` is why pages were not looked at."""

    texts: dict[int, str] = field(default_factory=dict)
    problems: dict[int, str] = field(default_factory=dict)
    refusal: DocumentError | None = None

    def refuse_without_text(self) -> None:
        """Raise the reason why there is no text at all, when it is not that the pages have none."""
        if not any(text.strip() for text in self.texts.values()):
            if self.refusal:
                raise self.refusal
            if self.problems:
                page, problem = next(iter(self.problems.items()))
                raise DocumentError("OCR failed", f"page {page} {problem}")

    def warnings(self, left_out: Collection[int]) -> Iterator[str]:
        """What was lost: `left_out` are the pages that give no text for want of OCR."""
        if left_out and self.refusal:
            cure = f": {self.refusal.fix}" if self.refusal.fix else ""
            yield f"left out, as OCR was not to be had: {page_numbers(left_out)} ({self.refusal.message}{cure})"
        for problem in sorted(set(self.problems.values())):
            pages = [page for page, other in self.problems.items() if other == problem]
            yield f"not recognised: {page_numbers(pages)} ({problem})"


def recognise(
    options: LoadOptions,
    data: bytes,
    wanted: Collection[int],
    ask: Callable[[Recogniser, str], Iterator[RecognisedPage]],
) -> Recognised:
    """Have the pages in `wanted` recognised through `ask`, which gets the recogniser and the file's content hash."""
    result = Recognised()
    if not wanted:
        return result
    if options.ocr == "never":
        result.refusal = DocumentError(
            "needs OCR",
            "its pages are images, and OCR is switched off",
            fix="bigos ingest --ocr auto --reindex ...",
            skipped=True,
        )
        return result
    if options.recogniser is None:
        result.refusal = DocumentError("needs OCR", "its pages are images, and nothing is there to read them")
        return result
    from bigos.loaders import content_hash

    try:
        for page in ask(options.recogniser, content_hash(data)):
            if page.text is None:
                result.problems[page.page] = page.problem or "cannot be read"
            else:
                result.texts[page.page] = page.text
    except DocumentError as error:
        result.refusal = error
    return result


def says_more(recognised: str, layer: str) -> bool:
    """Whether the page's image has more words than its text layer."""
    return len(_WORD.findall(recognised)) > len(_WORD.findall(layer))


def page_numbers(pages: Collection[int]) -> str:
    """`page 3`, or `pages 3, 4, 7`."""
    ordered = sorted(pages)
    shown = ", ".join(map(str, ordered[:_MOST_NAMED])) + (", ..." if len(ordered) > _MOST_NAMED else "")
    return f"{'page' if len(ordered) == 1 else 'pages'} {shown}"
