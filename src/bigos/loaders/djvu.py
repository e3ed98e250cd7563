# SPDX-License-Identifier: GPL-2.0-only
"""DjVu through DjVuLibre's programs: the text layer by djvutxt, pages without one drawn by ddjvu and recognised."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from bigos import ocr_tools, time_limit
from bigos.errors import DocumentError
from bigos.loaders.external import run_converter, scratch_folder
from bigos.loaders.hyphens import Hyphens
from bigos.loaders.options import LoadOptions
from bigos.loaders.pdf_outline import Outline
from bigos.loaders.pdf_writing import Writer, learn, of_recognised
from bigos.loaders.recognised import recognise
from bigos.loaders.sections import Parsed
from bigos.types import SourceFile

if TYPE_CHECKING:
    from PIL.Image import Image

_PROGRAMS = ("djvutxt", "ddjvu", "djvused")
_SECONDS = 60.0  # that one program may take; a page, or the text of all
_SIDE = 3508  # pixels into which a page is drawn: A4 at 300 dpi
_MOST_PAGES = 20_000


def load(_source: SourceFile, data: bytes, options: LoadOptions) -> Parsed:
    """The text of each page.

    Raises:
        DocumentError: "needs djvulibre" when its programs are not installed, "needs OCR", "damaged", "timed out".
    """
    if not all(shutil.which(program) for program in _PROGRAMS):
        raise DocumentError(
            "needs djvulibre",
            "DjVuLibre, whose programs read DjVu files, is not installed",
            fix=ocr_tools.install_command("djvulibre"),
        )
    with scratch_folder(options.scratch) as folder:
        file = folder / "document.djvu"
        file.write_bytes(data)
        count = _count(file, folder)
        layer = _text_layer(file, folder, count)
        wanted = [page for page in range(1, count + 1) if options.ocr == "always" or not layer[page - 1].strip()]
        result = recognise(
            options,
            data,
            wanted,
            lambda recogniser, digest: recogniser.recognise_images(
                digest, wanted, lambda page: _draw(file, folder, page)
            ),
        )
    texts = [result.texts.get(page) or layer[page - 1] for page in range(1, count + 1)]
    if not any(text.strip() for text in texts):
        result.refuse_without_text()
    pages = [of_recognised(text) for text in texts]
    hyphens = Hyphens()
    learn(hyphens, pages)
    writer = Writer(Outline(()), hyphens)
    for index, paragraphs in enumerate(pages):
        writer.page(index, paragraphs, ())
    return writer.parsed(None, tuple(result.warnings([page for page in wanted if not texts[page - 1].strip()])))


def _count(file: Path, folder: Path) -> int:
    printed = run_converter(["djvused", str(file), "-e", "n"], folder, {}, name="djvused", seconds=_SECONDS)
    if not printed.isdecimal():
        raise DocumentError("damaged", f"djvused says of its pages: {printed}")
    return min(int(printed), _MOST_PAGES)


def _text_layer(file: Path, folder: Path, count: int) -> list[str]:
    """The text of each page; djvutxt ends every page with a form feed, or leaves all of them out."""
    target = folder / "document.txt"
    run_converter(["djvutxt", str(file), str(target)], folder, {}, name="djvutxt", seconds=_SECONDS)
    pages = target.read_text(encoding="utf-8", errors="replace").split("\f")
    pages = [page.replace("\x1f", "\n").replace("\x1d", "\n").replace("\x0b", "\n\n") for page in pages]
    return (pages + [""] * count)[:count]


def _draw(file: Path, folder: Path, page: int) -> Image:
    from PIL import Image as Images

    time_limit.extend(2 * _SECONDS)
    target = folder / f"{page}.pnm"
    command = ["ddjvu", "-format=pnm", f"-page={page}", f"-size={_SIDE}x{_SIDE}", str(file), str(target)]
    run_converter(command, folder, {}, name="ddjvu", seconds=_SECONDS)
    try:
        with Images.open(target, formats=("PPM",)) as image:
            return image.convert("L")
    finally:
        target.unlink(missing_ok=True)
