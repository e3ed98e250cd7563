# SPDX-License-Identifier: GPL-2.0-only
"""A scanned page is found in the other language, with its page, and costs its recognition once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from PIL import Image

from bigos import ocr_tools
from bigos.errors import DocumentError
from command_line import Home

FIXTURES = Path(__file__).parents[1] / "data" / "loaders"
OTHERS = {
    "spi.md": "The clock divider of the serial bus is computed from the parent clock and rounded up to an even value.",
    "garden.txt": "Apple trees are pruned in late winter. Remove branches that cross, and paint the larger wounds.",
    "stove.txt": "Clean the stove once a month: take out the ash, brush the flue and check the door seal.",
    "rower.txt": "Łańcuch roweru czyści się szmatką i smaruje po każdej jeździe w deszczu, zanim zacznie rdzewieć.",
}


def _installed() -> bool:
    try:
        ocr_tools.require_tools("pol+eng", drawing=True)
    except DocumentError:
        return False
    return True


@pytest.mark.skipif(not _installed(), reason="OCR IS NOT TESTED: install tesseract-ocr, -pol, -eng and poppler-utils")
def test_a_scanned_polish_page_is_found_by_an_english_question(home: Home) -> None:
    folder = home.path / "pot"
    folder.mkdir()
    for name, text in OTHERS.items():
        (folder / name).write_text(text)
    empty = Image.new("L", (1240, 1754), 255)
    scan = Image.open(FIXTURES / "skan.png").convert("L")
    empty.save(folder / "skany.pdf", save_all=True, append_images=[scan], resolution=150)
    first = home.ingest("--json", folder)
    assert first.code == 0, first.stderr
    found = home.bigos("search", "--json", "how many days does a sourdough starter need before baking").json["hits"][0]
    assert (found["source_name"], found["page"], found["language"]) == ("skany.pdf", 2, "pl")
    assert "mąkę żytnią do słoja" in found["text"]
    # Touched and read again, but not recognised again: the programs are gone.
    (home.path / "bin").mkdir()
    for program in ("sh", "env"):
        (home.path / "bin" / program).symlink_to(shutil.which(program) or "/bin/sh")
    again = home.ingest("--json", "--reindex", folder, PATH=str(home.path / "bin"))
    assert again.code == 0, again.stdout
    cached = home.path / ".cache" / "bigos" / "ocr"
    assert [file for file in cached.rglob("*") if file.is_file() and "mąkę" in file.read_text("utf-8", "replace")]
    assert home.bigos("ingest", "--forget", folder / "skany.pdf").code == 0
    assert not [file for file in cached.rglob("*") if file.is_file() and "mąkę" in file.read_text("utf-8", "replace")]
