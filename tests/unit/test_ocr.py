# SPDX-License-Identifier: GPL-2.0-only
"""OCR through the real tesseract and pdftoppm, and through stand-ins on PATH that misbehave."""

from __future__ import annotations

import io
import os
import pickle
import shutil
import stat
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from bigos import ocr, ocr_tools, preparation
from bigos.errors import DocumentError
from bigos.loaders import LoadOptions, content_hash, djvu, image, pdf
from bigos.loaders.sections import Parsed
from bigos.ocr import Tesseract
from bigos.ocr_cache import OcrCache
from bigos.ocr_skew import skew_of
from bigos.types import SourceFile
from pdf_files import PdfFile, PdfPage
from small_index import SETTINGS, small_index

FIXTURES = Path(__file__).parents[1] / "data" / "loaders"
SCAN = FIXTURES / "skan.png"
WORDS = (
    "Zażółć gęślą jaźń, a potem zakwas: wsyp mąkę żytnią do słoja, wlej ciepłą wodę i mieszaj drewnianą łyżką. Postaw "
    "przy piecu na pięć dni. Gdy pachnie jabłkami, jest gotowy do pieczenia."
)


def _installed() -> bool:
    try:
        ocr_tools.require_tools("pol+eng", drawing=True)
    except DocumentError:
        return False
    return True


needs_tesseract = pytest.mark.skipif(
    not _installed(),
    reason="OCR IS NOT TESTED: install tesseract-ocr, tesseract-ocr-pol, tesseract-ocr-eng and poppler-utils",
)
needs_djvulibre = pytest.mark.skipif(not shutil.which("ddjvu"), reason="DJVU IS NOT TESTED: install djvulibre-bin")


def load(loader, data: bytes, options: LoadOptions) -> Parsed:
    return loader.load(SourceFile(Path("/nowhere/a"), len(data), 0, 0), data, options)


def reason(loader, data: bytes, options: LoadOptions) -> DocumentError:
    with pytest.raises(DocumentError) as caught:
        load(loader, data, options)
    return caught.value


def scanned_pdf(*images: Image.Image) -> bytes:
    whole = io.BytesIO()
    first, *others = images
    first.save(whole, "PDF", save_all=True, append_images=others, resolution=300)
    return whole.getvalue()


def picture(kind: str, images: Sequence[Image.Image], **settings: object) -> bytes:
    whole = io.BytesIO()
    images[0].save(whole, kind, **settings)
    return whole.getvalue()


@pytest.fixture
def options(tmp_path: Path) -> LoadOptions:
    engine = Tesseract(cache_folder=tmp_path / "ocr", scratch=tmp_path / "scratch", page_seconds=60)
    return LoadOptions(recogniser=engine, scratch=tmp_path / "scratch")


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str, name: str = "tesseract") -> Path:
    """Put a program before the real ones on PATH; it notes that it was called, in the file that is returned."""
    folder.mkdir(exist_ok=True)
    calls = folder / f"{name}.calls"
    program = folder / name
    program.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n{script}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return calls


LISTING = (
    'case "$1" in --version) echo "tesseract 5.3.0"; exit;; --list-langs) printf "List:\\neng\\npol\\n"; exit;; esac'
)


@needs_tesseract
def test_a_scan_is_recognised_once_and_forgotten_when_told(
    options: LoadOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = scanned_pdf(Image.open(SCAN))
    first = load(pdf, data, options)
    assert first.text == WORDS
    assert [block.page for block in first.blocks] == [1]
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))  # what was read stays when the programs go
    assert load(pdf, data, options) == first
    assert OcrCache(tmp_path / "ocr").forget(content_hash(data))
    assert not OcrCache(tmp_path / "ocr").forget(content_hash(data))
    assert reason(pdf, data, options).reason == "needs OCR"
    assert not list((tmp_path / "scratch").iterdir())


@needs_tesseract
def test_a_document_whose_scanned_pages_were_left_out_is_read_again_when_there_is_ocr(
    options: LoadOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = Image.open(SCAN).convert("L")
    words = [(60.0, 780.0 - 14 * line, 11.0, "This page has a text layer, and the next one none.") for line in range(9)]
    width, height = (round(side * 72 / 300) for side in scan.size)
    pages = [PdfPage(words), PdfPage(operators=f"q {width} 0 0 {height} 0 {842 - height} cm /Im Do Q")]
    with small_index(tmp_path) as index:
        index.write("mixed.pdf", bytes(PdfFile(pages, image=scan.tobytes(), image_size=scan.size)))
        index.write("note.txt", "Nothing is lacking here.")
        settings = replace(SETTINGS, timeout=600, options=options)
        with monkeypatch.context() as without:
            without.setenv("PATH", str(tmp_path / "empty"))
            first = index.ingest(settings=settings)
            assert first.files == {"added": 2}
            assert "left out, as OCR was not to be had: page 2" in first.warnings[0][1]
            assert index.ingest(settings=settings).files_read == 0  # as long as nothing has changed
        assert index.ingest(settings=replace(settings, options=replace(options, ocr="never"))).files_read == 0
        found = index.ingest(settings=settings)
        assert (found.files_read, found.warnings) == (1, [])
        assert "mąkę żytnią" in " ".join(index.texts())
        assert index.ingest(settings=settings).files_read == 0


@needs_tesseract
def test_a_long_scan_is_left_for_the_next_run_when_this_one_is_to_stop(
    options: LoadOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = stand_in(tmp_path / "bin", monkeypatch, f"{LISTING}\nexec sleep 300")
    monkeypatch.setattr(preparation, "PATIENCE_SECONDS", 0.2)
    with small_index(tmp_path) as index:
        scan = index.write("scan.pdf", scanned_pdf(*[Image.open(SCAN)] * 3))
        began = time.monotonic()
        report = index.ingest(
            settings=replace(SETTINGS, timeout=600, options=options),
            stop=lambda: calls.exists() and "tsv" in calls.read_text(),
        )
        assert time.monotonic() - began < 250
        assert (report.interrupted, report.files_read) == (True, 0)
        assert not index.chunks(scan)
        assert not list((tmp_path / "scratch").iterdir())


@needs_tesseract
def test_the_second_time_no_program_is_run(
    options: LoadOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shutil.which("tesseract")
    calls = stand_in(tmp_path / "bin", monkeypatch, f'exec {real} "$@"')
    drawn = stand_in(tmp_path / "bin", monkeypatch, f'exec {shutil.which("pdftoppm")} "$@"', "pdftoppm")
    data = scanned_pdf(Image.open(SCAN))
    first = load(pdf, data, options)
    assert "tsv" in calls.read_text() and drawn.exists()
    calls.unlink()
    drawn.unlink()
    assert load(pdf, data, options) == first
    assert not calls.exists() and not drawn.exists()
    changed = load(pdf, data + b"\n", options)  # another content
    assert changed == first
    assert calls.exists()


@needs_tesseract
@pytest.mark.parametrize("degrees", [90, 180])
def test_a_turned_scan_is_turned_right(degrees: int, options: LoadOptions) -> None:
    scan = Image.open(SCAN).convert("L")
    page = Image.new("L", (scan.width + 200, 2 * scan.height + 100), "white")
    for row in range(2):
        page.paste(scan, (100, 50 + row * scan.height))
    text = load(image, picture("PNG", [page.rotate(degrees, expand=True)]), options).text
    assert text.count("drewnianą łyżką") == 2


@needs_tesseract
@pytest.mark.parametrize(("kind", "degrees"), [("L", 5), ("1", -4)])
def test_a_scan_that_lies_askew_is_read_whole(kind: str, degrees: int, options: LoadOptions) -> None:
    scan = Image.open(SCAN).convert("L")
    page = Image.new("L", (scan.width, 4 * scan.height), "white")
    for row in range(4):
        page.paste(scan, (0, row * scan.height))
    askew = page.rotate(degrees, Image.Resampling.BICUBIC, expand=True, fillcolor="white").convert(kind)
    text = " ".join(load(image, picture("PNG", [askew]), options).text.split())
    assert text.count("gęślą jaźń") == text.count("drewnianą łyżką") == text.count("gotowy do pieczenia") == 4


@settings(deadline=None, max_examples=40)
@given(
    degrees=st.floats(-9, 9),
    lines=st.lists(st.integers(100, 500), min_size=8, max_size=20),
    height=st.integers(4, 12),
    light=st.booleans(),
)
def test_skew_is_found_within_a_degree_and_none_where_there_is_little(
    degrees: float, lines: list[int], height: int, light: bool
) -> None:
    ink, paper = (255, 0) if light else (0, 255)
    page = Image.new("L", (700, 700), paper)
    for row, width in enumerate(lines):
        page.paste(ink, (100, 120 + 2 * height * row, 100 + width, 120 + 2 * height * row + height))
    found = skew_of(page.rotate(degrees, Image.Resampling.BICUBIC, fillcolor=paper))
    assert abs(found - degrees) <= 0.75 or (found == 0 and abs(degrees) < 2)


@pytest.mark.parametrize("paper", [Image.new("L", (300, 400), 255), Image.effect_noise((300, 400), 60)])
def test_a_page_without_lines_is_straight(paper: Image.Image) -> None:
    assert skew_of(paper) == 0


@needs_tesseract
def test_every_frame_of_a_tiff_is_a_page_and_exif_says_what_is_up(options: LoadOptions) -> None:
    scan = Image.open(SCAN).convert("L")
    half = scan.crop((0, 0, scan.width, 170))
    data = picture("TIFF", [scan], save_all=True, append_images=[half])
    parsed = load(image, data, options)
    assert [block.page for block in parsed.blocks] == [1, 2]
    assert parsed.blocks[0].text == WORDS
    assert parsed.blocks[1].text.startswith("Zażółć gęślą jaźń")
    exif = Image.Exif()
    exif[0x0112] = 6  # turn clockwise to see it right
    sideways = picture("JPEG", [scan.rotate(90, expand=True)], quality=90, exif=exif)
    assert load(image, sideways, options).text == WORDS


@needs_tesseract
def test_a_photograph_has_no_text(options: LoadOptions) -> None:
    sky = Image.radial_gradient("L").resize((600, 450))
    noise = Image.effect_noise((600, 450), 60)
    data = picture("JPEG", [Image.blend(sky, noise, 0.4)])
    assert load(image, data, options).text == ""


@needs_tesseract
def test_transparent_images_stand_on_white_and_small_ones_are_enlarged(options: LoadOptions) -> None:
    scan = Image.open(SCAN).convert("L")
    clear = Image.new("RGBA", scan.size, (0, 0, 0, 0))
    clear.putalpha(scan.point(lambda value: 255 - value))
    small = clear.resize((scan.width * 2 // 5, scan.height * 2 // 5), Image.Resampling.LANCZOS)
    assert "drewnianą łyżką" in load(image, picture("PNG", [small]), options).text


def test_a_program_that_hangs_costs_its_page_and_then_its_file(
    options: LoadOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path / "bin", monkeypatch, f"{LISTING}\nexec sleep 600")
    engine = Tesseract(cache_folder=tmp_path / "ocr", scratch=tmp_path / "scratch", page_seconds=0.3, threads=2)
    started = time.monotonic()
    data = picture(
        "TIFF", [Image.new("L", (60, 60), 200)] * 2, save_all=True, append_images=[Image.new("L", (60, 60))] * 40
    )
    failure = reason(image, data, LoadOptions(recogniser=engine))
    assert (failure.reason, failure.skipped) == ("timed out", False)
    assert time.monotonic() - started < 60
    assert not list((tmp_path / "scratch").iterdir())
    assert not list((tmp_path / "ocr").glob("*/*/*"))


def test_a_program_that_fails_is_named_with_its_words(
    options: LoadOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path / "bin", monkeypatch, f'{LISTING}\necho "no memory left \\377" >&2; exit 3')
    failure = reason(image, SCAN.read_bytes(), options)
    assert failure.reason == "OCR failed"
    assert "no memory left" in failure.message


def test_what_is_missing_is_a_sentence_with_the_package(
    options: LoadOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = SCAN.read_bytes()
    (tmp_path / "apt").mkdir()
    for program in ("apt", "sh"):
        (tmp_path / "apt" / program).symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path / "apt"))
    failure = reason(image, data, options)
    assert (failure.reason, failure.skipped) == ("needs OCR", False)
    assert failure.fix == "sudo apt install tesseract-ocr tesseract-ocr-pol tesseract-ocr-eng"
    stand_in(tmp_path / "apt", monkeypatch, LISTING)
    german = LoadOptions(recogniser=Tesseract("pol+deu", scratch=tmp_path))
    failure = reason(image, data, german)
    assert "deu" in failure.message and "pol" not in failure.message
    assert failure.fix == "sudo apt install tesseract-ocr-deu"
    failure = reason(pdf, bytes(PdfFile([PdfPage(operators="q 595 0 0 842 0 0 cm /Im Do Q")])), options)
    assert failure.fix == "sudo apt install poppler-utils"
    failure = reason(djvu, (FIXTURES / "skan.djvu").read_bytes(), options)
    assert (failure.reason, failure.fix) == ("needs djvulibre", "sudo apt install djvulibre-bin")


@needs_tesseract
def test_a_place_for_temporary_files_that_cannot_be_used_is_named_and_the_file_is_not_called_damaged(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").touch()
    options = LoadOptions(recogniser=Tesseract(scratch=tmp_path / "file" / "scratch"))
    for loader, data in ((pdf, scanned_pdf(Image.open(SCAN))), (image, SCAN.read_bytes())):
        failure = reason(loader, data, options)
        assert (failure.reason, failure.fix) == ("no scratch space", f"df -h {tmp_path}/file/scratch")
        assert failure.message.endswith("Not a directory")


def test_an_image_that_is_cut_short_is_not_taken_for_a_full_disk(options: LoadOptions) -> None:
    data = picture("PNG", [Image.effect_noise((400, 300), 60)])
    with pytest.raises((OSError, DocumentError)) as caught:
        load(image, data[: len(data) // 2], options)
    assert getattr(caught.value, "reason", "damaged") != "no scratch space"


def test_an_image_that_unpacks_to_too_much_is_refused_before_it_is_unpacked(options: LoadOptions) -> None:
    import struct
    import zlib

    def part(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = part(b"IHDR", struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0))
    bomb = b"\x89PNG\r\n\x1a\n" + header + part(b"IDAT", zlib.compress(b"")) + part(b"IEND", b"")
    failure = reason(image, bomb, options)
    assert (failure.reason, failure.skipped) == ("too large", True)
    assert reason(image, SCAN.read_bytes()[:300], options).reason == "damaged"
    assert reason(image, b"\x89PNG\r\n\x1a\n", options).reason == "damaged"


@needs_djvulibre
def test_djvu_gives_its_text_layer(options: LoadOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = stand_in(tmp_path / "bin", monkeypatch, "exit 1")
    parsed = load(djvu, (FIXTURES / "skan.djvu").read_bytes(), options)
    assert parsed.text == WORDS
    assert [block.page for block in parsed.blocks] == [1]
    assert not calls.exists()
    assert reason(djvu, (FIXTURES / "skan.djvu").read_bytes()[:200], options).reason == "damaged"


@needs_djvulibre
@needs_tesseract
def test_a_djvu_page_without_text_is_recognised(options: LoadOptions) -> None:
    parsed = load(djvu, (FIXTURES / "skan.djvu").read_bytes(), LoadOptions("always", recogniser=options.recogniser))
    assert parsed.text == WORDS


@given(width=st.floats(0, 14_400), height=st.floats(0, 14_400))
def test_no_page_is_drawn_with_too_many_pixels(width: float, height: float) -> None:
    dpi = ocr._dpi((width, height))
    assert 0 < dpi <= ocr.DPI
    assert width / 72 * dpi * height / 72 * dpi <= ocr.MOST_PIXELS


def test_a_recogniser_crosses_to_a_worker(tmp_path: Path) -> None:
    engine = Tesseract("pol", tmp_path / "ocr", tmp_path)
    assert pickle.loads(pickle.dumps(LoadOptions(recogniser=engine))).recogniser == engine


@needs_tesseract
def test_what_is_kept_of_a_scan_is_for_its_owner_only(options: LoadOptions, tmp_path: Path) -> None:
    load(image, SCAN.read_bytes(), options)
    kept = [path for path in (tmp_path / "ocr").rglob("*") if path.is_file()]
    assert any(path.suffix == ".txt" for path in kept)
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in kept)
    folders = [tmp_path / "ocr", *[path for path in (tmp_path / "ocr").rglob("*") if path.is_dir()]]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o700 for path in folders)
