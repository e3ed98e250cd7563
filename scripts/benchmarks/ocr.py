#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Character error rate of recognised pages.

    scripts/benchmarks/ocr.py FOLDER [--font FILE.ttf]

Scans of FOLDER whose true text lies beside them (NAME.pdf and NAME.txt), then pages that are drawn here at 300 dpi from
known text, in Polish and in English, clean and as a worn copy (noise, a blur, one degree askew). The rate is the edit
distance over the length of the true text, line ends and repeated blanks counting as one. Target: at most 5 % on clean
pages.
"""

from __future__ import annotations

import argparse
import io
import tempfile
import time
from pathlib import Path

from PIL import Image, ImageDraw, ImageFilter, ImageFont

FONTS = (
    "/usr/share/fonts/truetype/dejavu/DejaVuSerif.ttf",
    "/usr/share/fonts/dejavu-serif-fonts/DejaVuSerif.ttf",
    "/usr/share/fonts/TTF/DejaVuSerif.ttf",
)
TEXTS = {
    "pl": (
        "Zakwas żytni to mąka i woda, którym dano czas. Pierwszego dnia miesza się je łyżką w wyparzonym słoju, "
        "przykrywa ściereczką i odstawia w ciepłe miejsce. Drugiego dnia niewiele widać, trzeciego pojawiają się "
        "bąbelki i kwaśna woń, a czwartego ciasto rośnie i opada. Piątego dnia pachnie jabłkami, co znaczy, że "
        "drożdże i bakterie doszły ze sobą do ładu. Wtedy odkłada się łyżkę na następny raz, a resztą zaczynia chleb.",
        "Piec musi być gorący, zanim chleb do niego trafi: 250 stopni przez pierwszy kwadrans, potem 210 przez trzy "
        "kwadranse. Gąbczasty miąższ źle znosi pośpiech, więc bochenek stygnie na kratce co najmniej dwie godziny. "
        "Skórka pęka wzdłuż nacięcia, jeśli było dość głębokie; jeśli nie, pęka, gdzie chce. Żółte światło świecy "
        "wystarczy, by ujrzeć, czy spód jest rumiany. Źdźbło słomy wbite w środek powinno wyjść suche.",
    ),
    "en": (
        "A sourdough starter is flour and water that had time. On the first day they are stirred in a clean jar, "
        "covered with a cloth and put in a warm place. On the second day there is little to see; on the third come "
        "bubbles and a sour smell, and on the fourth the dough rises and falls. On the fifth it smells of apples: "
        "yeast and bacteria have come to terms. One spoonful is kept for next time, the rest makes the bread.",
        "The oven must be hot before the loaf goes in: 480 degrees for a quarter of an hour, then 410 for three "
        "quarters. A spongy crumb does not like to be hurried, so the loaf cools on a rack for two hours. The "
        "crust breaks along the cut if that was deep enough; if not, where it likes. The light of a candle is "
        "enough to see whether the bottom is brown. A straw pushed into the middle should come out dry.",
    ),
}
A4 = (2480, 3508)


def error_rate(read: str, true: str) -> float:
    """Edit distance over the length of the true text."""
    read, true = " ".join(read.split()), " ".join(true.split())
    row = list(range(len(true) + 1))
    for number, letter in enumerate(read, 1):
        above, row[0] = row[0], number
        for place, wanted in enumerate(true, 1):
            above, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, above + (letter != wanted))
    return row[-1] / max(len(true), 1)


def page(paragraphs: tuple[str, ...], font: str, *, size: int = 46) -> Image.Image:
    """A4 at 300 dpi, 11 point letters, wrapped."""
    letters = ImageFont.truetype(font, size)
    image = Image.new("L", A4, 255)
    draw = ImageDraw.Draw(image)
    y = 300
    for words in paragraphs:
        line = ""
        for word in [*words.split(), ""]:
            longer = f"{line} {word}".strip()
            if word and letters.getlength(longer) < A4[0] - 600:
                line = longer
                continue
            draw.text((300, y), line, font=letters, fill=0)
            line, y = word, y + round(1.4 * size)
        y += size
    return image


def worn(image: Image.Image) -> Image.Image:
    """A copy of a copy."""
    noise = Image.effect_noise(image.size, 70).point(lambda value: min(255, value + 100))
    turned = image.rotate(1, fillcolor=255, resample=Image.Resampling.BICUBIC).filter(ImageFilter.GaussianBlur(1.2))
    return Image.blend(turned, noise, 0.15)


def recognise(data: bytes, folder: Path) -> str:
    """The text of a scanned PDF, as an ingest gets it."""
    from bigos.loaders import LoadOptions, pdf
    from bigos.ocr import Tesseract
    from bigos.types import SourceFile

    options = LoadOptions(recogniser=Tesseract(scratch=folder))
    return pdf.load(SourceFile(folder / "scan.pdf", len(data), 0, 0), data, options).text


def main() -> None:
    """Print a line a scan."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--font", default=next((font for font in FONTS if Path(font).is_file()), None))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in sorted(arguments.folder.rglob("*.pdf")):
            true = file.with_suffix(".txt")
            if true.is_file():
                report(file.name, file.read_bytes(), true.read_text(encoding="utf-8"), folder)
        if arguments.font is None:
            parser.exit(2, "no font with Polish letters is known here: --font FILE.ttf\n")
        for language, paragraphs in TEXTS.items():
            clean = page(paragraphs, arguments.font)
            for condition, image in (("clean", clean), ("worn", worn(clean))):
                whole = io.BytesIO()
                image.save(whole, "PDF", resolution=300)
                report(f"{language}, drawn, {condition}", whole.getvalue(), " ".join(paragraphs), folder)


def report(name: str, data: bytes, true: str, folder: Path) -> None:
    """Recognise one scan and say how it went."""
    before = time.perf_counter()
    read = recognise(data, folder)
    print(f"{name:28} CER {100 * error_rate(read, true):5.2f} %   {time.perf_counter() - before:5.1f} s", flush=True)


if __name__ == "__main__":
    main()
