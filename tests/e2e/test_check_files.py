# SPDX-License-Identifier: GPL-2.0-only
"""scripts/check_files.py: a judge that lets nothing wrong pass, run as a person runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from processes import PATIENCE

SCRIPT = Path(__file__).parents[2] / "scripts" / "check_files.py"
FILES: dict[str, bytes] = {
    "right.txt": "Borowik rośnie w lesie.\n\nKurka też.\n".encode("iso-8859-2"),
    "menu.html": b"<!DOCTYPE html><nav>MENU</nav><h1>Grzyby</h1><p>Borowik",
    "blank.txt": b" \n\n",
    "none.txt": b"",
    "packed.txt": b"\x1f\x8b\x08\x00rest",
    "lines.txt": b"one\n\ntwo\n\n",
}
CHECKS: dict[str, tuple[str, dict[str, Any], str | None]] = {
    # name of the case: file, check, what must be said; None when the file is right
    "right": (
        "right.txt",
        {"outcome": "text", "contains": ["Borowik rośnie w lesie. Kurka"], "absent": ["MENU"]},
        None,
    ),
    "lacks": ("right.txt", {"outcome": "text", "contains": ["Maślak"]}, "lacks 'Maślak'"),
    "holds": ("right.txt", {"outcome": "text_or_error", "absent": ["Kurka też"]}, "holds 'Kurka też'"),
    "lossy": ("right.txt", {"outcome": "text_lossy_ok", "contains": ["Borowik rósł w lesie"]}, None),
    "too lossy": ("right.txt", {"outcome": "text_lossy_ok", "contains": ["Maślak rósł na łące"]}, "lacks"),
    "partial": ("right.txt", {"outcome": "text_partial", "contains": ["Maślak", "Borowik"]}, None),
    "no part": ("right.txt", {"outcome": "text_partial", "contains": ["Maślak"]}, "none of the phrases"),
    "page": ("menu.html", {"outcome": "text", "contains": ["Grzyby Borowik"], "absent": ["MENU"]}, None),
    "paged": ("menu.html", {"outcome": "text", "pages": 3}, "the last page is 0, not 3"),
    "a document": ("menu.html", {"outcome": "error"}, "got a document"),
    "empty": ("blank.txt", {"outcome": "empty"}, None),
    "no bytes": ("none.txt", {"outcome": "error"}, None),
    "silent": ("blank.txt", {"outcome": "text_or_error", "contains": ["x"]}, "empty"),
    "skip": ("packed.txt", {"outcome": "error_or_skip"}, None),
    "lost": ("packed.txt", {"outcome": "text"}, "got no document: archive"),
    "lines": ("lines.txt", {"outcome": "text", "lines": 4}, None),
    "recognised": ("right.txt", {"outcome": "ocr", "ocr_words": ["Borowik", "Maślak", "Koźlarz"]}, "fewer than 70 %"),
}


def run(folder: Path, cases: list[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    base = folder / "odd"
    base.mkdir()
    lines = []
    for number, case in enumerate(cases):
        name, check, _ = CHECKS[case]
        file = f"odd/{number:02}-{name}"
        (folder / file).write_bytes(FILES[name])
        lines.append(json.dumps({"file": file, "check": {"contains": [], "absent": [], **check}}))
    (base / "manifest.jsonl").write_text("\n".join(lines), "utf-8")
    command = [sys.executable, str(SCRIPT), str(base / "manifest.jsonl"), "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_each_outcome_is_judged_and_every_fault_is_named(tmp_path: Path) -> None:
    code, report = run(tmp_path, list(CHECKS))

    for (case, (_, _, expected)), verdict in zip(CHECKS.items(), report["verdicts"], strict=True):
        if expected is None:
            assert verdict["wrong"] is None, case
        else:
            assert expected in (verdict["wrong"] or ""), case
    assert (code, report["silently_empty"], report["passed"]) == (1, 1, False)
    assert report["right"] == sum(expected is None for _, _, expected in CHECKS.values())


@pytest.mark.parametrize(
    ("cases", "code"),
    [(["right"] * 19 + ["lacks"], 0), (["right"] * 18 + ["lacks"] * 2, 1), (["right"] * 39 + ["silent"], 1)],
)
def test_it_passes_at_95_percent_when_nothing_is_silently_empty(tmp_path: Path, cases: list[str], code: int) -> None:
    assert run(tmp_path, cases)[0] == code


def test_a_loader_that_takes_too_long_is_counted_as_hung(tmp_path: Path) -> None:
    code, report = run(tmp_path, ["right", "page"], "--timeout", "0.001", "menu")
    assert (code, report["files"], report["hung"]) == (1, 1, 1)


def test_what_is_no_manifest_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_text("{}\n")
    for manifest in (tmp_path / "m.jsonl", tmp_path / "none.jsonl"):
        done = subprocess.run([sys.executable, str(SCRIPT), str(manifest)], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (2, "")
        assert "Traceback" not in done.stderr
        assert "is no manifest" in done.stderr
