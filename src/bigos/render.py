# SPDX-License-Identifier: GPL-2.0-only
"""What a search found, for a program (a dict for JSON) and for a reader (text). Pure: no I/O, no clock, no colour.

Every document has a `schema` field; a field that does not apply is None, never absent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from bigos.fragments import Span, unrepeated

if TYPE_CHECKING:
    from bigos.pipeline import IngestReport
    from bigos.search import FoundHit, SearchResult, Stale
    from bigos.stores import StoredChunk
    from bigos.types import Chunk, FileOutcome, Ranks

SEARCH_SCHEMA = "bigos.search.v1"
SHOW_SCHEMA = "bigos.show.v1"
INGEST_SCHEMA = "bigos.ingest.v1"
STALE_WORDS: dict[Stale, str] = {"changed": " (changed since it was indexed)", "gone": " (file is gone)"}
BY_RULE = frozenset({"ignored", "pruned directory", "denied", "Bigos's own"})
"""Reasons whose detail is a rule that takes many files: reports count by it, so that a rule which takes all is seen."""
LEAST_FRAGMENT = 120
"""A fragment cut shorter than this to fit a budget says nothing; it is left out and counted instead."""


def chunk_fields(chunk: Chunk, *, chunk_id: str, source_path: str, source_name: str) -> dict[str, Any]:
    """What a chunk tells about itself and its place, under the names that search and show share."""
    return {
        "chunk_id": chunk_id,
        "kind": chunk.kind,
        "source_path": source_path,
        "source_name": source_name,
        "code_language": chunk.code_language,
        "language": chunk.language,
        "chunk_language": chunk.chunk_language,
        "page": chunk.page,
        "page_end": chunk.page_end,
        "line_start": chunk.line_start,
        "line_end": chunk.line_end,
        "heading_path": list(chunk.heading_path),
        "chunk_index": chunk.index,
        "char_start": chunk.char_start,
        "char_end": chunk.char_end,
        "token_count": chunk.token_count,
    }


def search_document(result: SearchResult, explain: bool = False, files_only: bool = False) -> dict[str, Any]:
    """The answer as `bigos search --json` and a tool's structuredContent give it (bigos.search.v1)."""
    return {
        "schema": SEARCH_SCHEMA,
        "query": result.request.query,
        "language": result.language,
        "seconds": round(result.seconds, 4),
        "hits": [_hit_document(rank, found, result.language, explain) for rank, found in _ranked(result, files_only)],
    }


def _ranked(result: SearchResult, files_only: bool) -> list[tuple[int, FoundHit]]:
    """Hits with their rank among all; only the best of each file when files are asked for."""
    ranked = list(enumerate(result.hits, start=1))
    if not files_only:
        return ranked
    best: dict[str, tuple[int, FoundHit]] = {}
    for rank, found in ranked:
        best.setdefault(found.hit.source_path, (rank, found))
    return list(best.values())


def _hit_document(rank: int, found: FoundHit, language: str | None, explain: bool) -> dict[str, Any]:
    hit = found.hit
    return {
        "rank": rank,
        "score": round(hit.score, 6),
        **chunk_fields(
            found.shown, chunk_id=hit.chunk_id, source_path=hit.source_path, source_name=hit.source_name
        ),
        "text": found.text,
        "text_truncated": found.text_truncated,
        "stale": found.stale,
        "explain": {"query_language": language, **asdict(hit.ranks)} if explain else None,
    }  # fmt: skip


def search_text(
    result: SearchResult, *, max_total_chars: int | None = None, explain: bool = False, files_only: bool = False
) -> str:
    """The answer for a reader: one header line a hit, then its fragment; ends with a newline unless empty.

    Args:
        max_total_chars: the whole text stays within it; fragments that do not fit are cut or left out, and counted in
            the last line. At least the header of the best hit is shown.
        explain: a line under each header with the ranks and scores of each leg.
        files_only: paths alone, best first, each once.
    """
    if files_only:
        return "".join(f"{found.hit.source_path}\n" for _, found in _ranked(result, files_only=True))
    blocks = [_hit_text(found, explain) for found in result.hits]
    if not blocks:
        return ""
    top = f"question language: {result.language or 'not told'}\n\n" if explain else ""
    if max_total_chars is None:
        return top + "\n\n".join(_joined(header, text) for header, text in blocks) + "\n"
    return top + _within(blocks, max_total_chars - len(top))


def _hit_text(found: FoundHit, explain: bool) -> tuple[str, str]:
    mark = STALE_WORDS[found.stale] if found.stale else ""
    header = f"{found.hit.score:.4f} {place(found.shown, found.hit.source_path)}{mark}"
    if explain:
        header += "\n" + _explain_text(found.hit.ranks, found.hit.chunk_id)
    text = found.text.strip("\n")
    return header, ("[…]\n" if found.start else "") + text + (" […]" if found.ends_early else "")


def _explain_text(ranks: Ranks, chunk_id: str) -> str:
    def leg(name: str, rank: int | None, score: float | None) -> str:
        if rank is None:
            return f"{name} -"
        return f"{name} #{rank}" + (f" ({score:.4f})" if score is not None else "")

    legs = [
        leg("dense", ranks.dense, ranks.dense_score),
        leg("lexical", ranks.lexical, ranks.lexical_score),
        "coverage -" if ranks.coverage is None else f"coverage {ranks.coverage:.2f}",
        leg("fused", ranks.fused, None),
    ]
    return f"  {', '.join(legs)}, chunk {chunk_id}"


def place(chunk: Chunk, source_path: str) -> str:
    """Where a chunk is, for a reader: `[code/c] /abs/x.c:1-28`, `[document/pl] /abs/x.pdf p. 3-4 > trail`."""
    sort = (chunk.code_language or "text") if chunk.kind == "code" else (chunk.chunk_language or chunk.language or "?")
    words = f"[{chunk.kind}/{sort}] {one_line(source_path)}"
    if chunk.page is not None:
        words += f" p. {_span(chunk.page, chunk.page_end)}"
    elif chunk.line_start is not None:
        words += f":{_span(chunk.line_start, chunk.line_end)}"
    if chunk.heading_path:
        words += " > " + " > ".join(one_line(heading) for heading in chunk.heading_path)
    return words


def _span(first: int, last: int | None) -> str:
    return str(first) if last is None or last == first else f"{first}-{last}"


_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))} | {0x2028: " ", 0x2029: " "}


def one_line(text: str) -> str:
    """Control characters of a file's name or a heading as escapes: a header stays one line, a terminal stays sane."""
    return text.translate(_CONTROLS)


def _joined(header: str, text: str) -> str:
    return f"{header}\n{text}" if text else header


def _within(blocks: Sequence[tuple[str, str]], budget: int) -> str:
    """As many blocks as fit, the last one cut when a useful piece of it fits; says how many were left out."""
    shown: list[str] = []
    note_room = len(f"\n\n({len(blocks)} more left out: the answer is full)\n")
    left = budget - note_room
    for header, text in blocks:
        whole = _joined(header, text)
        gap = 2 if shown else 0
        if len(whole) + gap <= left:
            shown.append(whole)
            left -= len(whole) + gap
            continue
        room = left - gap - len(header) - len("\n […]")
        if room >= LEAST_FRAGMENT:
            shown.append(f"{header}\n{text[:room].rstrip()} […]")
        elif not shown:
            shown.append(header)
        break
    if len(shown) < len(blocks):
        shown.append(f"({len(blocks) - len(shown)} more left out: the answer is full)")
    return "\n\n".join(shown) + "\n"


def show_document(chunks: Iterable[StoredChunk]) -> dict[str, Any]:
    """Chunks as they stand, in order, as `bigos show --json` gives them (bigos.show.v1)."""
    return {
        "schema": SHOW_SCHEMA,
        "chunks": [
            {
                **chunk_fields(
                    item.chunk, chunk_id=item.chunk_id, source_path=item.source_path, source_name=item.source_name
                ),
                "text": item.chunk.text,
                "text_truncated": False,
            }
            for item in chunks
        ],
    }


def show_text(chunks: Sequence[StoredChunk]) -> str:
    """Chunks of one document for a reader: a header line and the text of each; an overlap stands only in the first."""
    blocks = []
    shown: list[Span] = []
    for item in chunks:
        rest = unrepeated(item.chunk, shown)
        shown.append((rest.char_start, rest.char_end))
        header = f"{place(rest, item.source_path)} (chunk {rest.index}, {item.chunk_id})"
        blocks.append(_joined(header, rest.text.strip("\n")))
    return "\n\n".join(blocks) + "\n" if blocks else ""


def ingest_document(report: IngestReport) -> dict[str, Any]:
    """What a run did, as `bigos ingest --json` gives it (bigos.ingest.v1)."""
    return {
        "schema": INGEST_SCHEMA,
        "dry_run": report.dry_run,
        "interrupted": report.interrupted,
        "files": {name: report.files[name] for name in ("added", "updated", "unchanged", "skipped", "failed")}
        | ({"forgotten": report.files["forgotten"]} if report.files["forgotten"] else {}),
        "reasons": {reason: len(items) for (_, reason), items in _by_reason(report).items()},
        "rules": [
            {"reason": reason, "rule": rule, "count": count}
            for (_, reason), items in _by_reason(report).items()
            if reason in BY_RULE
            for rule, count in Counter(item.detail for item in items).most_common()
        ],
        "kept": [{"path": path, "reason": reason} for path, reason in report.kept],
        "prune_refused": None
        if report.prune_refused is None
        else dict(zip(("gone", "known"), report.prune_refused, strict=True)),
        "outcomes": [
            {
                "path": item.path,
                "outcome": item.outcome,
                "reason": item.reason,
                "detail": item.detail or None,
                "chunks": item.chunks,
            }
            for item in report.outcomes
        ],
        "warnings": [{"path": path, "warning": warning} for path, warning in report.warnings],
        "chunks": {
            "written": report.chunks_written,
            "unchanged": report.chunks_unchanged,
            "removed": report.chunks_removed,
        },
        "embedded": report.embedded,
        "reused": report.reused,
        "files_read": report.files_read,
        "seconds": round(report.seconds, 3),
        "estimated_seconds": None if report.estimated_seconds is None else round(report.estimated_seconds, 3),
        "remains": None if report.remains is None else report.remains.message,
        "rebuild": None,
    }


def _by_reason(report: IngestReport) -> dict[tuple[str, str], list[FileOutcome]]:
    """The files that were not indexed by outcome and reason: failures first, then the most frequent reason first."""
    groups: dict[tuple[str, str], list[FileOutcome]] = {}
    for item in report.outcomes:
        if item.outcome in ("failed", "skipped"):
            groups.setdefault((item.outcome, item.reason or "no reason given"), []).append(item)
    return dict(sorted(groups.items(), key=lambda entry: (entry[0][0], -len(entry[1]), entry[0][1])))


def _forgotten(report: IngestReport) -> dict[tuple[str, str], list[FileOutcome]]:
    """The documents that were pruned, as `_by_reason` has the files that were not indexed."""
    items = [item for item in report.outcomes if item.outcome == "forgotten"]
    word = "to forget" if report.dry_run else "forgotten"
    return {(word, items[0].reason or ""): items} if items else {}


def ingest_text(report: IngestReport, limit: int = 10, most: int | None = None) -> str:
    """What a run did, for a reader: counts, then what was not indexed and why, then chunks and speed.

    Args:
        limit: paths named for each reason.
        most: paths named in all; None for no such bound.
    """
    lines = [_ingest_headline(report)]
    left = most if most is not None else len(report.outcomes)
    groups = _by_reason(report) | _forgotten(report)
    for (outcome, reason), items in groups.items():
        lines.append(f"  {outcome}, {reason}: {len(items):,}")
        if reason in BY_RULE:
            lines += _rule_lines(items, min(limit, left))
            left -= min(limit, left)
            continue
        named = items[: min(limit, left)]
        left -= len(named)
        lines += [
            f"    {one_line(item.path)}" + (f": {one_line(item.detail)}" if item.detail else "") for item in named
        ]
        if len(items) > len(named) and named:
            lines.append(f"    ... and {len(items) - len(named):,} more")
    if report.prune_refused is not None:
        lines.append(
            "  gone from the disk: {:,} of {:,} known; more than half needs --yes".format(*report.prune_refused)
        )
    kept = Counter(reason for _, reason in report.kept)
    lines += [f"  kept, {reason}: {count:,}" for reason, count in kept.most_common()]
    lines += ["    bigos ingest PATH --forget takes out what is kept and should not be"] * bool(kept)
    lines += _warning_lines(report, min(limit, most) if most is not None else limit)
    lines.append(_ingest_speed(report))
    return "\n".join(lines) + "\n"


def _rule_lines(items: Sequence[FileOutcome], limit: int) -> list[str]:
    """What each rule took, the greediest first, with a path as example."""
    by_rule: dict[str, list[FileOutcome]] = {}
    for item in items:
        by_rule.setdefault(item.detail or "", []).append(item)
    ordered = sorted(by_rule.items(), key=lambda rule: -len(rule[1]))
    lines = []
    for rule, taken in ordered[:limit]:
        more = f" and {len(taken) - 1:,} more" if len(taken) > 1 else ""
        lines.append(f"    {one_line(rule)}: {one_line(taken[0].path)}{more}")
    if len(ordered) > limit and lines:
        lines.append(f"    ... and {len(ordered) - limit:,} more rules")
    return lines


def _ingest_headline(report: IngestReport) -> str:
    words = {"added": "to add", "updated": "to update", "forgotten": "to forget"} if report.dry_run else {}
    names = ("added", "updated", "unchanged", "skipped", "failed", "forgotten")
    counts = [f"{report.files[name]:,} {words.get(name, name)}" for name in names]
    told = ", ".join(text for text in counts if not text.startswith("0 "))
    if report.interrupted:
        return f"interrupted; what was finished is kept, the same command does the rest. Files: {told or 'none'}"
    if report.dry_run:
        return f"dry run, nothing was written. Files: {told or 'none'}"
    if not told:
        return "no files were found"
    nothing_new = set(+report.files) <= {"unchanged", "skipped"} and not report.files_read
    return ("nothing to do. " if nothing_new else "") + f"Files: {told}"


def forget_text(report: IngestReport, limit: int = 10) -> str:
    """What was forgotten, for a reader."""
    words = "dry run, nothing was removed. To forget" if report.dry_run else "Forgotten"
    bare = sum(item.outcome == "forgotten" and not item.chunks for item in report.outcomes)
    more = f", and what was known of {bare:,} files without text" if bare else ""
    lines = [f"{words}: {report.files['forgotten'] - bare:,} documents, {report.chunks_removed:,} chunks{more}"]
    lines += [f"  {one_line(item.path)}" for item in report.outcomes[:limit]]
    if len(report.outcomes) > limit:
        lines.append(f"  ... and {len(report.outcomes) - limit:,} more")
    if report.remains is not None:
        lines += [f"note: {report.remains.message}", f"hint: {report.remains.fix}"]
    return "\n".join(lines) + "\n"


def _warning_lines(report: IngestReport, limit: int) -> list[str]:
    texts = Counter(warning for _, warning in report.warnings)
    lines = []
    for warning, count in texts.most_common(limit):
        first = next(path for path, text in report.warnings if text == warning)
        lines.append(f"  warning: {one_line(warning)}: {one_line(first)}" + (f" and {count - 1:,} more" * (count > 1)))
    return lines


def _ingest_speed(report: IngestReport) -> str:
    before = f" ({report.reused:,} with vectors from before)" if report.reused else ""
    chunks = ", ".join(
        (
            f"{report.chunks_written:,} written{before}",
            f"{report.chunks_unchanged:,} unchanged",
            f"{report.chunks_removed:,} removed",
        )
    )
    if report.dry_run:
        time = "" if report.estimated_seconds is None else f"; about {duration(report.estimated_seconds)} to embed"
        return f"Chunks: {report.chunks_written:,} to write, {report.chunks_unchanged:,} unchanged{time}"
    speed = f" ({report.embedded / report.seconds:,.1f} chunks/s)" if report.embedded and report.seconds else ""
    return f"Chunks: {chunks}; {duration(report.seconds)}{speed}"


def duration(seconds: float) -> str:
    """A time as a reader takes it in: `0.4 s`, `12 s`, `3 min 20 s`, `2 h 05 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60:02} min"
