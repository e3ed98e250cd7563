# SPDX-License-Identifier: GPL-2.0-only
"""Writes the PDF, the scan and the DjVu file of this folder: `python make_scans.py FONT.ttf`.

FONT needs Polish letters (DejaVu Serif was used); DjVuLibre's cjb2 and djvused must be installed. The words are this
project's own.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from pdf_files import PdfFile, PdfPage, paragraph  # noqa: E402 - the folder above is no package

SCAN = (
    "Zażółć gęślą jaźń, a potem zakwas:",
    "wsyp mąkę żytnią do słoja, wlej ciepłą",
    "wodę i mieszaj drewnianą łyżką. Postaw",
    "przy piecu na pięć dni. Gdy pachnie",
    "jabłkami, jest gotowy do pieczenia.",
)
PAGES = (
    "Zakwas żytni robi się z mąki i wody. Przez pięć dni dokarmia się go rano i wieczorem, aż pachnie jabłkami.",
    "Chleb piecze się w gorącym piecu na liściach kapusty, które dają parę i nie pozwalają skórce popękać za wcześnie.",
)


def scan(font: str) -> Image.Image:
    """A part of a page at 300 dpi, black and white."""
    letters = ImageFont.truetype(font, 46)
    image = Image.new("L", (1060, 420), 255)
    ImageDraw.Draw(image).multiline_text((50, 40), "\n".join(SCAN), font=letters, fill=0, spacing=18)
    return image.point(lambda value: 255 if value > 128 else 0).convert("1")


def main() -> None:
    """Write the files."""
    pages = [
        PdfPage([(60, 790, 14, name), *paragraph(60, 760, text)])
        for name, text in zip(("Zakwas", "Piec"), PAGES, strict=True)
    ]
    outline = [("Zakwas", 1, 0, 805.0), ("Piec", 1, 1, None)]
    (HERE / "chleb.pdf").write_bytes(bytes(PdfFile(pages, title="Chleb na zakwasie", outline=outline)))
    image = scan(sys.argv[1])
    image.save(HERE / "skan.png", dpi=(300, 300), optimize=True)
    with tempfile.TemporaryDirectory() as folder:
        bitmap = Path(folder) / "skan.pbm"
        image.save(bitmap)
        target = HERE / "skan.djvu"
        subprocess.run(["cjb2", "-dpi", "300", str(bitmap), str(target)], check=True)
        words = Path(folder) / "words"
        lines = " ".join(f'(line 50 {340 - 64 * n} 1000 {400 - 64 * n} "{line}")' for n, line in enumerate(SCAN))
        words.write_text(f"(page 0 0 1060 420 {lines})", encoding="utf-8")
        subprocess.run(["djvused", str(target), "-e", f"select 1; set-txt {words}; save"], check=True)


if __name__ == "__main__":
    main()
