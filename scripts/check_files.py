#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Load every file of a manifest as an ingest does, and judge what came out.

    python scripts/check_files.py MANIFEST [--json] [--timeout S] [PATTERN...]

A line of MANIFEST is a JSON object with `file` (relative to the folder above the manifest's) and `check`. A PATTERN is
part of a file's name or a glob; only files that match one are run. Each file goes through the worker processes of an
ingest, with their limits. White space counts as one blank in all comparisons.

check.outcome is one of these, or several joined by "_or_", of which one must be true:
  text           a document that holds every phrase of the check and nothing of `absent`
  text_lossy_ok  a document; its letters may be damaged: of each phrase at least half of the words, nothing of `absent`
  text_partial   a document that holds at least one phrase, nothing of `absent`
  ocr            a document recognised from images: 70 % of `ocr_words`, 90 % of the words of the file `ocr_reference`
  empty          no document, for the reason "empty"
  error          no document, for a stated reason; "empty" is one only for a file without bytes
  skip           no document, and that is as it should be (a binary, an archive)
  no_crash       anything but a crash, a time-out, a loader's own error or memory beyond the limit
Phrases are `contains`, `contains_after_nfc`, `contains_after_nfkc` and `contains_without_spaces`. Wherever a document
comes out, `pages` is the number of its last page, `lines` is how many lines the file has (the last chunk must end with
the file's last line that is not blank), and 70 % of `ocr_words_pageN` are on page N. Other keys are not judged.

Prints one line for each file that is wrong, a table by folder, and the total. Exit 0 when at least 95 % are right and
none crashed, hung or was silently empty (a document without text, or "empty" where that was not expected), else 1.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import tempfile
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bigos.config import Config, load_config, user_environment
from bigos.embedders import Window
from bigos.errors import BigosError
from bigos.loaders import LoadOptions
from bigos.ocr import Tesseract
from bigos.preparation import Preparation, PreparationPool, PreparationSettings, Prepared, Rejected, Task
from bigos.types import SourceFile

WINDOW, CODE_WINDOW, HEADER_TOKENS = Window(192, 24), Window(384, 48), 48
NEEDED_SHARE = 0.95
WORDS_SHARE = 0.7
REFERENCE_SHARE = 0.9
CRASHED = frozenset(("crashed", "loader error"))
HUNG = frozenset(("timed out",))
NO_CRASH_BROKEN = CRASHED | HUNG | {"out of memory"}


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the manifest."""

    name: str
    path: Path
    base: Path
    check: dict[str, Any]

    @property
    def outcomes(self) -> list[str]:
        """The outcomes of which one must be true."""
        whole = str(self.check["outcome"])
        return [whole] if whole == "text_lossy_ok" else whole.split("_or_")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a file; `wrong` is None when that is right."""

    name: str
    got: str
    wrong: str | None
    trouble: str | None
    """"crashed", "hung" or "silently empty"."""


def read_manifest(manifest: Path, patterns: list[str]) -> list[Case]:
    """The cases whose file's name matches. Raises ValueError, OSError or KeyError when it is no manifest."""
    lines = [json.loads(line) for line in manifest.read_text("utf-8").splitlines() if line.strip()]
    bases = (manifest.absolute().parent.parent, manifest.absolute().parent)
    base = next((base for base in bases if lines and (base / lines[0]["file"]).exists()), bases[0])
    cases = [Case(line["file"], (base / line["file"]).resolve(), base, line["check"]) for line in lines]
    return [case for case in cases if not patterns or any(_matches(case.name, pattern) for pattern in patterns)]


def _matches(name: str, pattern: str) -> bool:
    return pattern in name or fnmatch.fnmatch(name, pattern)


def document_text(prepared: Prepared, page: int | None = None) -> str:
    """The text that the chunks hold, each character once; of one page only if it is named."""
    parts: list[str] = []
    end = 0
    for chunk in prepared.chunks:
        if page is not None and not (chunk.page is not None and chunk.page <= page <= (chunk.page_end or chunk.page)):
            continue
        if chunk.char_start > end:
            parts.append("\n")
        parts.append(chunk.text[max(end - chunk.char_start, 0) :])
        end = max(end, chunk.char_end)
    return "".join(parts)


def flat(text: str) -> str:
    """With every run of white space as one blank."""
    return " ".join(text.split())


def judge(case: Case, result: Preparation) -> Verdict:
    """Compare a result with the case's check."""
    if isinstance(result, Rejected):
        got = f"{'skipped' if result.skipped else 'failed'}: {result.reason}"
        complaints = [_rejection_is_wrong(case, result, outcome) for outcome in case.outcomes]
        trouble = _trouble_of(case, result)
    else:
        assert isinstance(result, Prepared)
        text = document_text(result)
        got = f"{result.format}, {len(text):,} characters"
        complaints = [_document_is_wrong(case, result, text, outcome) for outcome in case.outcomes]
        trouble = None if text.strip() else "silently empty"
    wrong = None if None in complaints and trouble is None else next((c for c in complaints if c), trouble)
    return Verdict(case.name, got, wrong, trouble)


def _trouble_of(case: Case, result: Rejected) -> str | None:
    if result.reason in CRASHED:
        return "crashed"
    if result.reason in HUNG:
        return "hung"
    expected = {"empty", "no_crash"} & set(case.outcomes) or case.path.stat().st_size == 0
    return "silently empty" if result.reason == "empty" and not expected else None


def _rejection_is_wrong(case: Case, result: Rejected, outcome: str) -> str | None:
    said = f"{result.reason} ({result.message})"
    right = {
        "empty": result.reason == "empty",
        "error": result.reason not in NO_CRASH_BROKEN and (result.reason != "empty" or case.path.stat().st_size == 0),
        "skip": result.skipped and result.reason != "empty",
        "no_crash": result.reason not in NO_CRASH_BROKEN,
    }
    return None if right.get(outcome, False) else f"expected {case.check['outcome']}, got no document: {said}"


def _document_is_wrong(case: Case, result: Prepared, text: str, outcome: str) -> str | None:
    if outcome == "no_crash":
        return None
    if outcome not in ("text", "text_lossy_ok", "text_partial", "ocr"):
        return f"expected {case.check['outcome']}, got a document: {flat(text)[:60]!r}"
    for unwanted in case.check.get("absent", ()):
        if unwanted in text or (flat(unwanted) and flat(unwanted) in flat(text)):
            return f"holds {unwanted!r}"
    found = [(phrase, kept) for phrase, kept in _phrases(case.check, text)]
    if outcome == "text_partial":
        complaint = None if not found or any(kept == 1 for _, kept in found) else "holds none of the phrases"
    else:
        least = 0.5 if outcome == "text_lossy_ok" else 1.0
        complaint = next((f"lacks {phrase!r}" for phrase, kept in found if kept < least), None)
    if complaint is None and outcome == "ocr":
        complaint = _recognised_wrong(case, text)
    return complaint or _places_are_wrong(case, result)


def _phrases(check: dict[str, Any], text: str) -> Iterator[tuple[str, float]]:
    """Each phrase with the share of it that the text has: 1 for all of it, else its share of words."""
    forms: tuple[tuple[str, Callable[[str], str]], ...] = (
        ("contains", flat),
        ("contains_after_nfc", lambda whole: flat(unicodedata.normalize("NFC", whole))),
        ("contains_after_nfkc", lambda whole: flat(unicodedata.normalize("NFKC", whole))),
        ("contains_without_spaces", lambda whole: "".join(whole.split())),
    )
    for key, form in forms:
        where = form(text) if check.get(key) else ""
        for phrase in check.get(key) or ():
            words = form(phrase).split()
            yield phrase, 1.0 if form(phrase) in where else sum(word in where for word in words) / (len(words) + 0.001)


def _share(words: list[str], text: str) -> float:
    have = Counter(flat(text).casefold().split())
    return sum(have[word.casefold()] > 0 for word in words) / len(words)


def _recognised_wrong(case: Case, text: str) -> str | None:
    words = case.check.get("ocr_words") or []
    if words and sum(word.casefold() in text.casefold() for word in words) < WORDS_SHARE * len(words):
        return "fewer than 70 % of the words were recognised"
    if case.check.get("ocr_reference"):
        share = _share((case.base / case.check["ocr_reference"]).read_text("utf-8").split(), text)
        if share < REFERENCE_SHARE:
            return f"{share:.0%} of the words of {case.check['ocr_reference']} were recognised"
    return None


def _places_are_wrong(case: Case, result: Prepared) -> str | None:
    pages = case.check.get("pages")
    last_page = max((chunk.page_end or 0 for chunk in result.chunks), default=0)
    if pages and last_page != pages:
        return f"the last page is {last_page}, not {pages}"
    if case.check.get("lines"):
        lines = case.path.read_bytes().split(b"\n")
        last = max((number for number, line in enumerate(lines, 1) if line.strip()), default=0)
        ends = max((chunk.line_end or 0 for chunk in result.chunks), default=0)
        if ends != last or last > case.check["lines"]:
            return f"the last line is {ends}, not {last} of {case.check['lines']}"
    for key, words in case.check.items():
        if key.startswith("ocr_words_page") and words:
            text = document_text(result, int(key.removeprefix("ocr_words_page"))).casefold()
            if sum(word.casefold() in text for word in words) < WORDS_SHARE * len(words):
                return f"page {key.removeprefix('ocr_words_page')} was not recognised"
    return None


def run(cases: list[Case], config: Config, timeout: float, scratch: Path) -> Iterator[Verdict]:
    """Prepare each file in the workers of an ingest and judge it, as they get ready."""
    settings = PreparationSettings(
        tokenizer_file=config.models_dir / "tokenizer" / "bge-m3-tokenizer.json",
        window=WINDOW,
        code_window=CODE_WINDOW,
        header_tokens=HEADER_TOKENS,
        max_file_bytes=config.max_file_bytes,
        max_document_bytes=config.max_file_bytes,
        memory_mb=config.parse_memory_mb,
        timeout=timeout,
        options=LoadOptions(
            ocr=config.ocr,
            scratch=scratch,
            recogniser=Tesseract(config.ocr_languages, scratch / "ocr", scratch),
        ),
    )
    by_path = {case.path: case for case in cases}
    tasks = []
    for case in cases:
        try:
            status = case.path.stat()
        except OSError as error:
            yield Verdict(case.name, "missing", f"cannot be read: {error.strerror}", None)
            continue
        tasks.append(Task(SourceFile(case.path, status.st_size, status.st_mtime_ns, status.st_ino)))
    with PreparationPool(settings, config.workers or 2) as pool:
        for result in pool.run(tasks):
            yield judge(by_path[result.source.path], result)


def summary(verdicts: list[Verdict]) -> dict[str, Any]:
    """Counts by folder and in all."""
    folders: dict[str, Counter[str]] = {}
    for verdict in verdicts:
        counts = folders.setdefault(str(Path(verdict.name).parent), Counter())
        counts["files"] += 1
        counts["right"] += verdict.wrong is None
    troubles = Counter(verdict.trouble for verdict in verdicts if verdict.trouble)
    right = sum(verdict.wrong is None for verdict in verdicts)
    share = right / len(verdicts) if verdicts else 0.0
    return {
        "files": len(verdicts),
        "right": right,
        "share": round(share, 4),
        "crashed": troubles["crashed"],
        "hung": troubles["hung"],
        "silently_empty": troubles["silently empty"],
        "passed": share >= NEEDED_SHARE and not troubles,
        "folders": {folder: dict(counts) for folder, counts in sorted(folders.items())},
    }


def show(verdicts: list[Verdict], total: dict[str, Any], seconds: float) -> None:
    """The report for a person."""
    for verdict in verdicts:
        if verdict.wrong is not None:
            print(f"{verdict.name}: {verdict.wrong} [{verdict.got}]")
    width = max((len(folder) for folder in total["folders"]), default=0)
    for folder, counts in total["folders"].items():
        print(f"{folder:{width}}  {counts['right']:4} of {counts['files']:4} right")
    troubles = ", ".join(f"{total[key]} {key.replace('_', ' ')}" for key in ("crashed", "hung", "silently_empty"))
    print(f"{total['right']} of {total['files']} right ({total['share']:.1%}), {troubles}, in {seconds:.0f} s")


def main(argv: list[str] | None = None) -> int:
    """0 when enough is right, 1 when not, 2 when there is nothing to judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS
    )
    parser.add_argument("manifest", type=Path)
    parser.add_argument("patterns", nargs="*", metavar="PATTERN")
    parser.add_argument("--json", action="store_true", help="print one JSON object, with a verdict for each file")
    parser.add_argument("--timeout", type=float, help="seconds for one file (default: the setting parse_timeout)")
    arguments = parser.parse_intermixed_args(argv)
    began = time.monotonic()
    try:
        cases = read_manifest(arguments.manifest, arguments.patterns)
        config = load_config(user_environment())
        with tempfile.TemporaryDirectory(prefix="bigos-check-") as scratch:
            timeout = arguments.timeout or config.parse_timeout
            verdicts = sorted(run(cases, config, timeout, Path(scratch)), key=lambda verdict: verdict.name)
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"{arguments.manifest} is no manifest: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    except BigosError as error:
        print(error, file=sys.stderr)
        return 2
    if not verdicts:
        print("no file of the manifest matches", file=sys.stderr)
        return 2
    total = summary(verdicts)
    if arguments.json:
        files = [{"file": v.name, "got": v.got, "wrong": v.wrong, "trouble": v.trouble} for v in verdicts]
        print(json.dumps({**total, "verdicts": files}, ensure_ascii=False, indent=1))
    else:
        show(verdicts, total, time.monotonic() - began)
    return 0 if total["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
