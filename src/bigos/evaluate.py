# SPDX-License-Identifier: GPL-2.0-only
"""`bigos eval`: labelled questions against whatever is indexed, through the same search as everybody's.

A line of the questions' file is a JSON object: `query`, `relevant` ([{"path": ..., "lines": [first, last]}...], any of
which answers it) and, when known, `id`, `lang`, `target_lang`, `kind`, `type`, `twin` (paths, or objects with a path).

Documents are ranked by their best chunk. The twin, the same page in the question's own language, is taken out of the
ranking before counting when the question is after the other language: it is right, but not what is measured.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from bigos.config import Config
from bigos.errors import ExitCode, UsageError
from bigos.files import canonical, expanded
from bigos.library import Library, open_library
from bigos.terminal import Terminal
from bigos.types import path_text

if TYPE_CHECKING:
    from bigos.search import FoundHit

SCHEMA = "bigos.eval.v1"
DEPTHS = (1, 5, 10)
DEEPEST = 10
LINES_DEPTH = 5
FETCH = 100
"""Chunks asked for at first; more when they come from fewer than DEEPEST documents."""
NAMED = 10
PROGRESS_EVERY = 200


@dataclass(frozen=True, slots=True)
class Target:
    """A place that answers a question: a file, as the index names it, and its lines when they are labelled."""

    path: str
    lines: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A labelled question. `direction` is "pl->en", "en->code", or "pl->any" when nobody said."""

    name: str
    query: str
    direction: str
    type: str
    relevant: tuple[Target, ...]
    twins: frozenset[str]


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of a question: the ranks, from 1, of its relevant documents within DEEPEST.

    `lines_hit` tells whether one of the first LINES_DEPTH hits overlaps labelled lines; None when none are labelled, or
    only those of documents whose chunks have no lines.
    """

    question: Question
    ranks: tuple[int, ...]
    lines_hit: bool | None
    indexed: bool


def read_questions(file: Path, root: Path) -> list[Question]:
    """The questions of a JSON-lines file; its paths are relative to `root`.

    Raises UsageError for a file that cannot be read, a line that is no question, or no question at all.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"{path_text(file)} cannot be read: {reason}.", fix="bigos eval QUERIES.jsonl") from error
    questions = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                questions.append(_question(json.loads(line), number, root))
            except ValueError as error:
                problem = f"no JSON ({error.msg})" if isinstance(error, json.JSONDecodeError) else str(error)
                raise UsageError(
                    f"{path_text(file)}, line {number}: {problem}.", fix=f"correct line {number}"
                ) from error
    if not questions:
        raise UsageError(f"{path_text(file)} holds no questions.", fix="bigos eval --help")
    return questions


def _question(entry: object, number: int, root: Path) -> Question:
    """Raises ValueError with what is wrong."""
    if not isinstance(entry, dict):
        raise ValueError("not a JSON object")
    query, relevant = entry.get("query"), entry.get("relevant")
    if not isinstance(query, str) or not query.strip():
        raise ValueError("no query")
    if not isinstance(relevant, list) or not relevant:
        raise ValueError("no relevant documents")
    twins = entry.get("twin") or []
    if not isinstance(twins, list):
        raise ValueError("twin is not a list")
    targets = tuple(_target(item, root) for item in relevant)
    language, wanted = entry.get("lang"), entry.get("target_lang")
    across = wanted is None or wanted != language
    return Question(
        name=str(entry.get("id") or f"line {number}"),
        query=query,
        direction=f"{language or '?'}->{wanted or ('code' if entry.get('kind') == 'code' else 'any')}",
        type=str(entry.get("type") or "unnamed"),
        relevant=targets,
        twins=frozenset(_target(item, root).path for item in twins if across) - {target.path for target in targets},
    )


def _target(item: object, root: Path) -> Target:
    if isinstance(item, str):
        item = {"path": item}
    if not isinstance(item, dict) or not isinstance(item.get("path"), str) or not item["path"] or "\0" in item["path"]:
        raise ValueError("a document without a path")
    lines = item.get("lines")
    if lines is not None:
        right = isinstance(lines, list) and len(lines) == 2 and all(isinstance(line, int) for line in lines)
        if not right or lines[0] > lines[1]:
            raise ValueError(f"lines are [first, last], not {lines!r:.60}")
        lines = (lines[0], lines[1])
    return Target(path_text(canonical(root / item["path"])), lines)


def judge(questions: Sequence[Question], library: Library, indexed: frozenset[str]) -> Iterator[Judged]:
    """Ask each question. `indexed` are the paths of the documents that are in the index. Raises BigosError."""
    with library.store.hold():
        for question in questions:
            hits, documents = _ranked(question, library)
            wanted = {target.path for target in question.relevant}
            yield Judged(
                question,
                tuple(rank for rank, path in enumerate(documents[:DEEPEST], start=1) if path in wanted),
                _lines_hit(question, hits),
                not wanted.isdisjoint(indexed),
            )


def _ranked(question: Question, library: Library) -> tuple[Sequence[FoundHit], list[str]]:
    """The hits, and their documents by best chunk without the twins: at least DEEPEST of them if there are so many."""
    from bigos.search import MOST_HITS, SearchRequest

    fetch = FETCH
    while True:
        hits = library.search(SearchRequest(question.query, fetch)).hits
        documents = [
            path for path in dict.fromkeys(found.hit.source_path for found in hits) if path not in question.twins
        ]
        if len(documents) >= DEEPEST or len(hits) < fetch or fetch >= MOST_HITS:
            return hits, documents
        fetch = min(fetch * 4, MOST_HITS)


def _lines_hit(question: Question, hits: Sequence[FoundHit]) -> bool | None:
    without = {found.hit.source_path for found in hits if found.hit.chunk.line_start is None}
    labelled = [
        (target.path, target.lines)
        for target in question.relevant
        if target.lines is not None and target.path not in without
    ]
    if not labelled:
        return None
    return any(_overlaps(found, path, lines) for found in hits[:LINES_DEPTH] for path, lines in labelled)


def _overlaps(found: FoundHit, path: str, lines: tuple[int, int]) -> bool:
    first, last = found.hit.chunk.line_start, found.hit.chunk.line_end
    if found.hit.source_path != path or first is None or last is None:
        return False
    return first <= lines[1] and lines[0] <= last


def figures(judged: Sequence[Judged]) -> dict[str, Any]:
    """Recall (the share of questions with an answer in the first k documents), MRR@10 and nDCG@10."""
    count = len(judged)

    def mean(values: Iterable[float]) -> float | None:
        return round(sum(values) / count, 4) if count else None

    return {
        "queries": count,
        **{
            f"recall_at_{depth}": mean(any(rank <= depth for rank in item.ranks) for item in judged) for depth in DEPTHS
        },
        "mrr_at_10": mean(1 / item.ranks[0] if item.ranks else 0.0 for item in judged),
        "ndcg_at_10": mean(_ndcg(item) for item in judged),
    }


def _ndcg(item: Judged) -> float:
    wanted = len({target.path for target in item.question.relevant})
    best = sum(1 / math.log2(rank + 1) for rank in range(1, min(wanted, DEEPEST) + 1))
    return sum(1 / math.log2(rank + 1) for rank in item.ranks) / best


def _lines_figures(judged: Sequence[Judged]) -> dict[str, Any] | None:
    labelled = [item for item in judged if item.lines_hit is not None]
    if not labelled:
        return None
    by_file = figures(labelled)
    return {
        "queries": len(labelled),
        "recall_at_5_by_file": by_file["recall_at_5"],
        "recall_at_5_by_lines": round(sum(bool(item.lines_hit) for item in labelled) / len(labelled), 4),
    }


def _grouped(judged: Sequence[Judged], keys: Iterable[str]) -> dict[str, list[Judged]]:
    groups: dict[str, list[Judged]] = {}
    for key, item in zip(keys, judged, strict=True):
        groups.setdefault(key, []).append(item)
    return dict(sorted(groups.items()))


def report(judged: Sequence[Judged], indexed: frozenset[str], seconds: float) -> dict[str, Any]:
    """All figures as one document (bigos.eval.v1).

    A question whose answer is not indexed counts as missed, like for whoever asks it; `answerable` are the figures
    without those, `not_indexed` names them.
    """
    answerable = [item for item in judged if item.indexed]
    missing = sorted({target.path for item in judged for target in item.question.relevant} - indexed)
    directions = _grouped(judged, (item.question.direction for item in judged))
    return {
        "schema": SCHEMA,
        "queries": len(judged),
        "seconds": round(seconds, 3),
        "queries_per_second": round(len(judged) / seconds, 1) if seconds else None,
        "overall": figures(judged),
        "answerable": figures(answerable),
        "by_direction": {name: figures(items) for name, items in directions.items()},
        "by_type": {
            name: figures(items) for name, items in _grouped(judged, (item.question.type for item in judged)).items()
        },
        "lines": _lines_figures(judged),
        "lines_by_direction": {
            name: found for name, items in directions.items() if (found := _lines_figures(items)) is not None
        },
        "not_indexed": {"queries": len(judged) - len(answerable), "files": len(missing), "paths": missing},
        "ranks": [
            {
                "id": item.question.name,
                "direction": item.question.direction,
                "type": item.question.type,
                "rank": item.ranks[0] if item.ranks else None,
                "lines_hit": item.lines_hit,
                "indexed": item.indexed,
            }
            for item in judged
        ],
    }


def report_text(document: dict[str, Any]) -> str:
    """The figures as a small table."""
    rows = [
        ("all", document["overall"]),
        *(document["by_direction"].items() if len(document["by_direction"]) > 1 else ()),
        *(document["by_type"].items() if len(document["by_type"]) > 1 else ()),
    ]
    if document["not_indexed"]["queries"]:
        rows.append(("answerable", document["answerable"]))
    width = max(len(name) for name, _ in rows)
    lines = [f"{'':{width}}  queries    r@1    r@5   r@10    mrr   ndcg"]
    for name, row in rows:
        numbers = [row[key] for key in ("recall_at_1", "recall_at_5", "recall_at_10", "mrr_at_10", "ndcg_at_10")]
        lines.append(f"{name:{width}}  {row['queries']:7,}" + "".join(f"  {number:5.3f}" for number in numbers))
    for name, found in [("all", document["lines"]), *document["lines_by_direction"].items()]:
        if found is not None:
            by_file, by_lines = found["recall_at_5_by_file"], found["recall_at_5_by_lines"]
            lines.append(f"{name}, {found['queries']:,} with lines: r@5 by file {by_file:.3f}, by lines {by_lines:.3f}")
    lines += _missing_lines(document["not_indexed"])
    lines.append(f"{document['queries']:,} queries in {document['seconds']:,.1f} s")
    return "\n".join(lines) + "\n"


def _missing_lines(missing: dict[str, Any]) -> list[str]:
    if not missing["files"]:
        return []
    lines = [f"not indexed: {missing['files']:,} relevant files; {missing['queries']:,} queries cannot be answered"]
    lines += [f"  {path}" for path in missing["paths"][:NAMED]]
    return lines + ([f"  ... and {missing['files'] - NAMED:,} more"] if missing["files"] > NAMED else [])


def main(  # noqa: PLR0917 - what the command line knows, in its order
    config: Config, queries: str | Path, root: str | Path | None, as_json: bool, stdout: TextIO, stderr: TextIO
) -> int:
    """The command; its exit code. `root` is what paths are relative to, by default the folder of the questions' file.

    Raises BigosError.
    """
    terminal = Terminal(stdout, stderr)
    file = expanded(Path(queries))
    base = expanded(Path(root)) if root is not None else file.parent
    if not base.is_dir():
        raise UsageError(f"{path_text(base)} is not a folder.", fix="give the folder of the relevant paths with --root")
    questions = read_questions(file, canonical(base))
    with open_library(config) as library:
        indexed = frozenset(record.source_path for record in library.records().values() if record.status == "indexed")
        if indexed.isdisjoint(target.path for question in questions for target in question.relevant):
            terminal.say(
                f"none of the relevant files is in the index.\nhint: bigos ingest {path_text(base)} --recursive, or "
                "--root with the folder that the paths are relative to"
            )
            return int(ExitCode.NOTHING_FOUND)
        started = time.monotonic()
        judged = []
        for number, item in enumerate(judge(questions, library, indexed), start=1):
            judged.append(item)
            if number % PROGRESS_EVERY == 0 and terminal.stderr.isatty():
                terminal.say(f"{number:,} of {len(questions):,} queries")
        document = report(judged, indexed, time.monotonic() - started)
    if as_json:
        terminal.document(document)
    else:
        terminal.result(report_text(document))
    return int(ExitCode.OK)
