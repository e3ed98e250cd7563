#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""How fast text comes out of PDFs: pdfium's bare loop, Bigos' loader (without OCR) and pypdf, over the same files.

    scripts/benchmarks/pdf.py FOLDER [--rounds N]

Processor time, the best of the rounds, which take turns; of the ratios between readers in the same round, the median:
the speed of a machine changes from one to the next. Then the memory that a 1,000-page PDF takes in a process of
its own. Targets: at most 1.5 times the bare loop, at least 8 times as fast as pypdf, at most 600 MB.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

REPO = Path(__file__).resolve().parents[2]
MEMORY = """
import resource, sys, time
from pathlib import Path
from bigos.loaders import LoadOptions, pdf
from bigos.types import SourceFile
data = Path(sys.argv[1]).read_bytes()
before = time.perf_counter()
parsed = pdf.load(SourceFile(Path(sys.argv[1]), len(data), 0, 0), data, LoadOptions("never"))
print(len(parsed.blocks), time.perf_counter() - before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def bare(file: Path) -> None:
    """What nobody can be faster than: every page's text, and nothing done with it."""
    import pypdfium2

    document = pypdfium2.PdfDocument(file)
    for index in range(len(document)):
        page = document[index]
        text = page.get_textpage()
        text.get_text_range()
        text.close()
        page.close()
    document.close()


def ours(file: Path) -> None:
    """The loader as an ingest calls it."""
    from bigos.errors import DocumentError
    from bigos.loaders import LoadOptions, pdf
    from bigos.types import SourceFile

    data = file.read_bytes()
    with contextlib.suppress(DocumentError):
        pdf.load(SourceFile(file, len(data), 0, 0), data, LoadOptions("never"))


def by_pypdf(file: Path) -> None:
    """The pure Python reader."""
    from pypdf import PdfReader

    for page in PdfReader(file).pages:
        page.extract_text()


def opens(file: Path) -> bool:
    """Whether the bare loop gets through, and so can be compared with."""
    try:
        bare(file)
    except Exception:
        return False
    return True


def clock(work: Callable[[Path], None], file: Path) -> float:
    """Seconds of processor time."""
    before = time.process_time()
    work(file)
    return time.process_time() - before


def thousand_pages(target: Path) -> None:
    """A made-up book of 1,000 pages with headers, page numbers and 45 lines a page."""
    sys.path.insert(0, str(REPO / "tests"))
    from pdf_files import PdfFile, PdfPage, paragraph

    pages = []
    for number in range(1, 1001):
        story = " ".join(
            f"Sentence {part} of page {number} says what {part * number % 997} means." for part in range(60)
        )
        lines = [(60.0, 810.0, 9.0, "A made-up book"), *paragraph(60, 780, story, 62), (290.0, 30.0, 9.0, str(number))]
        pages.append(PdfPage(lines))
    target.write_bytes(bytes(PdfFile(pages, outline=[(f"Part {n}", 1, 100 * n, None) for n in range(10)])))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    files = sorted(file for file in arguments.folder.rglob("*.pdf") if opens(file))
    with tempfile.TemporaryDirectory() as folder:
        book = Path(folder) / "book.pdf"
        thousand_pages(book)
        files.append(book)
        totals = [[0.0, 0.0, 0.0] for _ in range(arguments.rounds)]
        print(f"{'file':42} {'pdfium':>9} {'bigos':>9} {'ratio':>6} {'pypdf':>10} {'x':>6}")
        for file in files:
            pypdf = float("nan")
            with contextlib.suppress(Exception):
                pypdf = clock(by_pypdf, file)  # once: slow, and not close
            seconds = [[clock(bare, file), clock(ours, file), pypdf] for _ in range(arguments.rounds)]
            print(row(file.name, seconds))
            if not math.isnan(pypdf):  # it got through
                totals = [[a + b for a, b in zip(*both, strict=True)] for both in zip(totals, seconds, strict=True)]
        print(row("all that pypdf reads too", totals))
        command = [sys.executable, "-c", MEMORY, str(book)]
        pages, seconds, megabytes = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        print(f"{pages} pages: {float(seconds):.2f} s, {float(megabytes):.0f} MB in the process at most")


def row(name: str, seconds: list[list[float]]) -> str:
    """A line of the table, in milliseconds; `seconds` are pdfium's, Bigos' and pypdf's in each round."""
    pdfium, bigos, pypdf = (1000 * min(own) for own in zip(*seconds, strict=True))
    ratio = median([own / peer for peer, own, _ in seconds])
    times = median([peer / own for _, own, peer in seconds])
    return f"{name[:42]:42} {pdfium:9.1f} {bigos:9.1f} {ratio:6.2f} {pypdf:10.1f} {times:6.1f}"


if __name__ == "__main__":
    main()
