# SPDX-License-Identifier: GPL-2.0-only
"""Text from images of pages: poppler's pdftoppm draws them, tesseract reads them, several at a time.

A page is recognised as it stands. Of one that lies askew tesseract leaves out most lines: it is turned straight and
read once more. One on which it is unsure of nearly every word may lie on its side or upside down: its orientation is
detected then, and it is read again. What was read is kept by content (`ocr_cache`).
"""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bigos import ocr_tools, time_limit
from bigos.errors import DocumentError
from bigos.ocr_cache import OcrCache
from bigos.ocr_skew import skew_of
from bigos.recognition import RecognisedPage
from bigos.scratch import temporary_folder

if TYPE_CHECKING:
    from PIL.Image import Image

VERSION = 1
"""Goes up when a page would be read otherwise than before: what was recognised is then recognised again."""
DPI = 300
MOST_PIXELS = 30_000_000
"""An A3 page at 300 dpi has 17 million; what is larger is drawn at a lower resolution."""
LEAST_DPI = 20.0

_UNSURE = 60.0  # mean confidence of tesseract, 0 to 100, below which the page may be turned
_NOISE = 30.0  # below which a word is a stain, a hatching or a piece of a photograph
_PHOTOGRAPH = 45.0  # mean confidence below which a page with few words has none
_FEW_WORDS = 12
_ORIENTATION_SURE = 1.0
_LEVEL_WORD = "5"
_GIVE_UP = 3  # pages in a row that take too long


@dataclass(frozen=True, slots=True)
class Tesseract:
    """Recognises pages; picklable, and made anew in each process that needs it."""

    languages: str = "pol+eng"
    cache_folder: Path | None = None
    scratch: Path | None = None
    """Folder for temporary files; None is the system's."""
    page_seconds: float = 90.0
    """What drawing a page, and reading it, may take each."""
    threads: int | None = None
    """Pages at a time; None is one a core."""

    @property
    def fingerprint(self) -> str:
        """See `Recogniser`. Not the engine's version: the system's upgrade is no reason to read every scan again."""
        return f"ocr-{VERSION}-{self.languages}"

    def ready(self) -> bool:
        """See `Recogniser.ready`."""
        try:
            ocr_tools.require_tools(self.languages, drawing=True)
        except DocumentError:
            return False
        return True

    def recognise_pdf(
        self, data: bytes, digest: str, sizes: Mapping[int, tuple[float, float]]
    ) -> Iterator[RecognisedPage]:
        """Recognise pages of a PDF, in the order in which they get ready.

        Args:
            data: the file, which an empty password opens.
            digest: its content hash.
            sizes: width and height in points of the pages that are wanted, by their number from 1.

        Raises:
            DocumentError: "needs OCR" when a tool or a language is missing, "timed out" when page after page is.
        """
        keys = {page: f"{_dpi(size):g}dpi" for page, size in sizes.items()}

        def work(folder: Path) -> Callable[[int], str]:
            file = folder / "document.pdf"
            file.write_bytes(data)
            return lambda page: self._read_pdf_page(file, page, _dpi(sizes[page]))

        yield from self._recognise(digest, keys, work, drawing=True)

    def recognise_images(
        self, digest: str, pages: Sequence[int], image: Callable[[int], Image]
    ) -> Iterator[RecognisedPage]:
        """Recognise pages that `image` gives by their number; it is called from several threads, one at a time.

        Raises:
            DocumentError: as `recognise_pdf`, and what `image` raises.
        """
        from threading import Lock

        lock = Lock()

        def work(folder: Path) -> Callable[[int], str]:
            def read(page: int) -> str:
                file = folder / f"{page}.png"
                with lock:
                    image(page).save(file, compress_level=1)
                try:
                    return self._read_image(file)
                finally:
                    file.unlink(missing_ok=True)

            return read

        yield from self._recognise(digest, dict.fromkeys(pages, "image"), work, drawing=False)

    def _recognise(
        self, digest: str, keys: Mapping[int, str], work: Callable[[Path], Callable[[int], str]], *, drawing: bool
    ) -> Iterator[RecognisedPage]:
        cache = OcrCache(self.cache_folder) if self.cache_folder else None
        version = ocr_tools.tesseract_version(self.cache_folder)
        if cache and version:
            known = {page: cache.get(digest, page, self._key(key, version)) for page, key in keys.items()}
        else:
            known = {}
        for page, text in known.items():
            if text is not None:
                yield RecognisedPage(page, text)
        missing = [page for page in keys if known.get(page) is None]
        if not missing:
            return
        ocr_tools.require_tools(self.languages, drawing=drawing)
        with _temporary_files(self.scratch) as folder:
            for result in self._run(missing, work(folder)):
                if cache and version and result.text is not None:
                    cache.put(digest, result.page, self._key(keys[result.page], version), result.text)
                yield result
        if cache:
            cache.prune()

    def _key(self, key: str, version: str) -> str:
        return f"{key}-{self.languages}-{version}"

    def _run(self, pages: Sequence[int], read: Callable[[int], str]) -> Iterator[RecognisedPage]:
        """Read pages in parallel. Each has its own limit, and the file's is put off as they get done."""
        longest = 7 * self.page_seconds  # drawing, reading twice, orientation, turning, reading twice
        pool = ThreadPoolExecutor(self.threads or _cores(), thread_name_prefix="ocr")
        try:
            time_limit.extend(longest)
            futures: dict[Future[str], int] = {pool.submit(read, page): page for page in pages}
            late = 0
            for future in as_completed(futures):
                time_limit.extend(longest)
                try:
                    yield RecognisedPage(futures[future], future.result())
                    late = 0
                except TimeoutError:
                    late += 1
                    if late >= _GIVE_UP:
                        raise DocumentError(
                            "timed out", f"each of {late} pages in a row took more than {self.page_seconds:g} s"
                        ) from None
                    yield RecognisedPage(futures[future], None, f"took more than {self.page_seconds:g} s")
                except _Unreadable as error:
                    yield RecognisedPage(futures[future], None, str(error))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _read_pdf_page(self, file: Path, page: int, dpi: float) -> str:
        image = _draw(file, page, dpi, self.page_seconds)
        try:
            return self._read_image(image)
        finally:
            image.unlink(missing_ok=True)

    def _read_image(self, image: Path) -> str:
        reading = self._straight_words(image)
        if reading.confidence >= _UNSURE:
            return reading.text
        turn = self._orientation(image)
        if turn:
            _turn(image, turn)
            reading = max(reading, self._straight_words(image), key=attrgetter("weight"))
        few = reading.count <= _FEW_WORDS
        return "" if few and reading.confidence < _PHOTOGRAPH else reading.text

    def _straight_words(self, image: Path) -> _Reading:
        """The words of the page as it stands or, when it lies askew and that says more, set straight."""
        reading = self._words(image)
        degrees = _skew(image)
        if not degrees:
            return reading
        _turn(image, degrees)
        return max(reading, self._words(image), key=attrgetter("weight"))

    def _words(self, image: Path) -> _Reading:
        import pytesseract

        with _tesseract_errors():
            table = pytesseract.image_to_data(
                str(image), lang=self.languages, config="--psm 3", timeout=self.page_seconds
            )
        return _reading(table)

    def _orientation(self, image: Path) -> int:
        """Degrees by which to turn the image clockwise; 0 when it stands right or nothing can be said."""
        import pytesseract

        try:
            with _tesseract_errors():
                found = pytesseract.image_to_osd(
                    str(image), timeout=self.page_seconds, output_type=pytesseract.Output.DICT
                )
        except _Unreadable:  # too few letters, or the data for it is not installed
            return 0
        sure = float(found.get("orientation_conf", 0)) >= _ORIENTATION_SURE
        return int(found.get("rotate", 0)) % 360 if sure else 0


class _Unreadable(Exception):
    """A page that a tool could not cope with; the message is for the file's warnings."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """What tesseract read: the text, how many words, and how sure it was of them (mean, by letters)."""

    text: str
    count: int
    confidence: float

    @property
    def weight(self) -> float:
        return self.confidence * self.count


def _reading(table: str) -> _Reading:
    """Lines and paragraphs from tesseract's TSV; a blank line stands between paragraphs."""
    lines: list[list[str]] = []
    breaks: set[int] = set()
    place: tuple[str, ...] = ()
    letters, sureness, count = 0, 0.0, 0
    for row in table.split("\n")[1:]:
        cells = row.split("\t")
        if len(cells) < 12 or cells[0] != _LEVEL_WORD or not cells[11].strip():
            continue
        word, confidence = cells[11].strip(), float(cells[10])
        letters += len(word)
        sureness += confidence * len(word)
        count += 1
        if confidence < _NOISE:
            continue
        here = tuple(cells[2:5])
        if here != place:
            if here[:2] != place[:2]:
                breaks.add(len(lines))
            lines.append([])
            place = here
        lines[-1].append(word)
    parts = []
    for index, words in enumerate(lines):
        if index:
            parts.append("\n\n" if index in breaks else "\n")
        parts.append(" ".join(words))
    return _Reading("".join(parts), count, sureness / letters if letters else 0.0)


def _dpi(size: tuple[float, float]) -> float:
    """The resolution at which a page of so many points is drawn, within MOST_PIXELS."""
    area = max(size[0], 1.0) * max(size[1], 1.0) / 72**2
    return max(min(float(DPI), math.floor(math.sqrt(MOST_PIXELS / area))), LEAST_DPI)


def _draw(file: Path, page: int, dpi: float, seconds: float) -> Path:
    """One page of a PDF as a grey image in the folder of the file."""
    from pdf2image import convert_from_path
    from pdf2image.exceptions import PDFPopplerTimeoutError

    try:
        images: list[Any] = convert_from_path(
            file,
            dpi=dpi,  # type: ignore[arg-type]  # pdftoppm takes fractions, the annotation does not
            first_page=page,
            last_page=page,
            grayscale=True,
            fmt="ppm",
            output_folder=str(file.parent),
            output_file=f"page-{page}-",
            paths_only=True,
            timeout=math.ceil(seconds),
        )
    except PDFPopplerTimeoutError as error:
        raise TimeoutError from error
    except Exception as error:  # pdf2image raises whatever it meets in poppler's answers
        raise _Unreadable(f"cannot be drawn: {_words(error)}") from error
    if not images:
        raise _Unreadable("cannot be drawn")
    return Path(images[0])


@contextlib.contextmanager
def _image_errors() -> Iterator[None]:
    """What Pillow meets in an image that is cut short, as on a full disk."""
    try:
        yield
    except OSError as error:
        raise _Unreadable(f"cannot be turned: {_words(error)}") from error


@_image_errors()
def _skew(image: Path) -> float:
    from PIL import Image

    with Image.open(image) as loaded:
        return skew_of(loaded)


@_image_errors()
def _turn(image: Path, degrees: float) -> None:
    from PIL import Image

    with Image.open(image) as loaded:
        page = loaded.convert("L") if loaded.mode == "1" else loaded  # bilevel letters would lose their edges
        smooth = Image.Resampling.BICUBIC if degrees % 90 else Image.Resampling.NEAREST
        turned = page.rotate(-degrees, smooth, expand=True, fillcolor="white")
    turned.save(image)


@contextlib.contextmanager
def _tesseract_errors() -> Iterator[None]:
    """The one place where pytesseract's exceptions become ours."""
    import pytesseract

    try:
        yield
    except pytesseract.TesseractError as error:
        raise _Unreadable(f"tesseract: {_words(error)}") from error
    except RuntimeError as error:  # how pytesseract says that the time is over
        raise TimeoutError from error
    except UnicodeDecodeError as error:  # of what tesseract said as it failed
        raise _Unreadable(f"tesseract: {' '.join(error.object.decode('utf-8', 'replace').split())[:200]}") from error
    except OSError as error:  # the program went away, or the disk is full
        raise _Unreadable(f"tesseract: {_words(error)}") from error


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


@contextlib.contextmanager
def _temporary_files(scratch: Path | None) -> Iterator[Path]:
    """A folder that is gone afterwards, and where the libraries' own temporary files go meanwhile.

    Raises:
        DocumentError: "no scratch space" when it cannot be made, or the disk is full while it is used.
    """
    before = tempfile.tempdir
    try:
        with temporary_folder(scratch) as folder:
            tempfile.tempdir = str(folder)
            yield folder
    except OSError as error:
        if error.errno is None:
            raise  # no system call's: it tells of an image that is damaged
        place = scratch or tempfile.gettempdir()
        raise DocumentError(
            "no scratch space", f"temporary files cannot be written to {place}: {error.strerror}", fix=f"df -h {place}"
        ) from error
    finally:
        tempfile.tempdir = before


@lru_cache(maxsize=1)
def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
