# SPDX-License-Identifier: GPL-2.0-only
"""What a document was made with, as its Record says: a change of one part makes what it affects be read again.

`COLLECTION/FORMAT-n/chunker-n`, and `/ocr-n-LANGUAGES` behind it where pages were recognised; `/let-in` where the text
holds a secret and somebody took it all the same; `/incomplete` where pages would have been recognised, had the programs
been installed; `COLLECTION/detection-n` where no loader was found. What the embedder reads of a chunk (passages.py) is
not among them: a change of that changes every vector, and is part of the collection's own fingerprint.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from bigos import chunking
from bigos.loaders import detection
from bigos.loaders.formats import FORMATS
from bigos.stores import stamp_state
from bigos.types import Record

BEFORE = "loaders-2"
"""What Records said when one number stood for all loaders: the first version of each."""
BEFORE_OCR = "ocr-1-"
_INCOMPLETE = "/incomplete"
_LET_IN = "let-in"


def let_in(record: Record | None) -> str | None:
    """The content hash of a document that holds a secret and was taken all the same; None of any other.

    What was let in stays as long as it is the same, however often and for whatever reason its file is read again.
    """
    return record.content_hash if record is not None and _LET_IN in record.fingerprint.split("/") else None


class Versions:
    """The versions that are current.

    Args:
        collection: its fingerprint.
        ocr: the recogniser's fingerprint; None where there is none.
        can_recognise: asked, once and only where a document lacks pages, whether they could be recognised now.
    """

    def __init__(self, collection: str, ocr: str | None, can_recognise: Callable[[], bool] = lambda: False) -> None:
        self._can_recognise = cache(can_recognise)
        self._collection = collection
        self._ocr = ocr
        self._before = f"{collection}/{BEFORE}"
        self._specs = {spec.name: spec for spec in FORMATS}
        self._current = {
            self.fingerprint(name, recognised=recognised, holds_secret=holds_secret)
            for name in (None, *self._specs)
            for recognised in (False, True)
            for holds_secret in (False, True)
        }

    def fingerprint(
        self, form: str | None, *, recognised: bool, lacks_pages: bool = False, holds_secret: bool = False
    ) -> str:
        """Of a document that is made now: the name of its format (None: no loader), whether pages were recognised.

        `lacks_pages` when they could not be, for want of a program; `holds_secret` when it does and is taken.
        """
        if form is None:
            made = f"{self._collection}/detection-{detection.VERSION}"
        else:
            made = f"{self._collection}/{form}-{self._specs[form].version}/chunker-{chunking.VERSION}"
        made = f"{made}/{self._ocr}" if form is not None and recognised and self._ocr else made
        made = f"{made}/{_LET_IN}" if holds_secret else made
        return made + _INCOMPLETE if lacks_pages else made

    def indexed_states(self) -> frozenset[str]:
        """What the stamps of indexed documents say that need not be read again, see `Store.stamps`."""
        return frozenset(stamp_state(fingerprint, "indexed") for fingerprint in self._current)

    def renewed(self, record: Record) -> Record | None:
        """The Record as it is written now, with its fingerprint in today's words; None where the file has to be read.

        It has to be when pages of it were left out that can be recognised now.

        Of a document older than these words it is not known whether pages were recognised: of a format that may have
        images they are taken to have been, so that no later change of the recogniser passes it by.
        """
        if record.fingerprint in self._current:
            return record
        if record.fingerprint.removesuffix(_INCOMPLETE) in self._current:
            return None if self._can_recognise() else record
        if record.fingerprint != self._before or record.status != "indexed" or record.format not in self._specs:
            return None
        spec = self._specs[record.format]
        first_ocr = not spec.images or self._ocr is None or self._ocr.startswith(BEFORE_OCR)
        if spec.version > 1 or chunking.VERSION > 1 or not first_ocr:
            return None
        return replace(record, fingerprint=self.fingerprint(spec.name, recognised=spec.images))
