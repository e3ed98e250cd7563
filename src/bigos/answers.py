# SPDX-License-Identifier: GPL-2.0-only
"""What each tool of the MCP server answers: the text for a reader and the document for a program. Knows no protocol.

An answer has a budget, because it lands in a model's context: Claude Code warns above 10,000 tokens and refuses above
25,000. Which of the two forms a client shows its model differs, so both are kept within it.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bigos import render
from bigos.errors import UsageError
from bigos.paths import given
from bigos.types import Kind, path_text

if TYPE_CHECKING:
    from bigos.library import Library
    from bigos.loaders import OcrPolicy
    from bigos.pipeline import Event
    from bigos.search import FoundHit, SearchResult
    from bigos.stores import StoredChunk

TEXT_CHARS = 24_000
"""The text of an answer stays within it: some 8,000 tokens."""
DOCUMENT_CHARS = 32_000
"""The document of an answer as JSON stays within it: field names are cheap in tokens."""
MOST_OUTCOMES = 10
"""Files that the report of an ingest names; the others are counted."""
_NOTE_CHARS = 80
"""Room in the text for what is said below the hits, a hit: a rank and an id."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer in its two forms."""

    text: str
    document: dict[str, Any]


def search(library: Library, query: str, *, top_k: int, kind: Kind | None, max_chars: int, path: str | None) -> Answer:
    """Find fragments, as `bigos search --json` does; shorter and then fewer where they would not fit.

    Raises BigosError.
    """
    from bigos.search import SearchRequest

    if not query.strip():
        raise UsageError("the query is empty.", fix="ask a question in Polish or English")
    paths = (_path(path),) if path else ()
    result = library.search(SearchRequest(query, top_k, kind, paths, max_chars))
    found = len(result.hits)
    result = fitting(result)
    document = render.search_document(result)
    notice = f"\n{result.notice}\n" if result.notice else ""
    if notice:
        document["notice"] = result.notice
    if not found:
        return Answer(_nothing_found(library, path, kind) + notice, document)
    text = render.search_text(result, max_total_chars=TEXT_CHARS - len(notice) - _NOTE_CHARS * (len(result.hits) + 2))
    if len(result.hits) < found:
        document["left_out"] = found - len(result.hits)
        text += (
            f"\n{found - len(result.hits)} more hits did not fit into the answer: ask with a smaller top_k or a path.\n"
        )
    return Answer(text + _reading_on(result.hits) + notice, document)


def fitting(result: SearchResult) -> SearchResult:
    """The result with all texts cut alike to fit the budget; with fewer hits only when cut texts would say nothing."""
    hits = result.hits
    while hits and _size(render.search_document(replace(result, hits=hits))) > DOCUMENT_CHARS:
        bare = tuple(replace(found, text="") for found in hits)
        room = (DOCUMENT_CHARS - _size(render.search_document(replace(result, hits=bare)))) // len(hits)
        longest = max(len(found.text) for found in hits)
        # JSON writes a line end or a quote as two characters, so the first cut may not do.
        length = min(room, longest * 9 // 10)
        if length >= render.LEAST_FRAGMENT:
            hits = tuple(found.cut(length, result.terms) for found in hits)
        elif len(hits) > 1:
            hits = hits[:-1]
        else:
            break
    return replace(result, hits=hits)


def _size(document: dict[str, Any]) -> int:
    return len(json.dumps(document, ensure_ascii=False))


def _nothing_found(library: Library, path: str | None, kind: Kind | None) -> str:
    if not library.stats().documents:
        return "Nothing found: the index is empty.\nhint: ingest_document with the path of a file or folder\n"
    from bigos.files import canonical

    where = canonical(_path(path)) if path else None
    if where is not None and not library.reading_store.known(where):
        name = render.one_line(path_text(where))
        if not os.path.exists(where):  # noqa: PTH110 - Path.exists raises for a name that is too long
            return f"Nothing found: {name} does not exist, and is not in the index.\nhint: ask without path\n"
        return f"Nothing found: nothing of {name} is in the index.\nhint: ingest_document with that path\n"
    filters = " and ".join(["kind"] * (kind is not None) + ["path"] * (where is not None))
    return "Nothing found.\n" + (f"hint: ask without {filters}\n" if filters else "")


def _reading_on(hits: Sequence[FoundHit]) -> str:
    """The ids that read_fragment takes, by rank: of what was cut, and of what its place does not name."""
    ids = [
        f"{rank}: {found.hit.chunk_id}"
        for rank, found in enumerate(hits, start=1)
        if found.text_truncated or found.hit.chunk.line_start is found.hit.chunk.page is None
    ]
    if not ids:
        return ""
    cut = "([…]: it was cut) " if any(found.text_truncated for found in hits) else ""
    return f"\nread_fragment(chunk_id) gives a fragment whole {cut}with its neighbours: " + ", ".join(ids) + "\n"


def fragment(library: Library, chunk_id: str, before: int, after: int) -> Answer:
    """A chunk in full with its neighbours, as `bigos show --json` does; what they share with it is left to it.

    `chunk_id` may be a place too, as `bigos show` takes it: `path:line`, `path:pPAGE`.

    Raises BigosError, for an unknown id too.
    """
    from bigos.search import ShowRequest

    asked = _asked(library, chunk_id.strip())
    near = [
        item
        for item in library.show(ShowRequest(chunk_id=asked.chunk_id, context=max(before, after)))
        if asked.chunk.index - before <= item.chunk.index <= asked.chunk.index + after
    ]
    near = _without_overlaps(near, asked)
    wanted = len(near)
    while len(near) > 1 and _size(render.show_document(near)) > DOCUMENT_CHARS:
        # The farther end goes first: what was asked for stays.
        near.pop(0 if asked.chunk.index - near[0].chunk.index > near[-1].chunk.index - asked.chunk.index else -1)
    document, text = render.show_document(near), render.show_text(near)
    if len(near) < wanted:
        document["left_out"] = wanted - len(near)
        text += f"\n({wanted - len(near)} neighbours left out: the answer is full)\n"
    return Answer(text, document)


def _asked(library: Library, what: str) -> StoredChunk:
    """The chunk that an id or a place names. Raises UsageError when there is none."""
    from bigos.search import places

    fix = "search again and take a chunk_id from the hits"
    try:
        for request in places(what) if what else ():
            if found := library.show(request):
                return found[0]
    except UsageError as error:  # of a file without lines, say; its fix is the command line's
        raise UsageError(error.message, fix=fix) from error
    raise UsageError(
        f"there is no fragment {what!r} in the index; its file may have changed since it was found.", fix=fix
    )


def _without_overlaps(near: Sequence[StoredChunk], asked: StoredChunk) -> list[StoredChunk]:
    """Neighbouring chunks in order; the one that was asked for is whole, the others lack what a nearer one has."""
    from bigos.fragments import Span, unrepeated

    rest: dict[str, StoredChunk] = {}
    shown: list[Span] = []
    for item in sorted(near, key=lambda item: abs(item.chunk.index - asked.chunk.index)):
        chunk = unrepeated(item.chunk, shown)
        shown.append((chunk.char_start, chunk.char_end))
        rest[item.chunk_id] = replace(item, chunk=chunk)
    return [rest[item.chunk_id] for item in near]


def ingest(
    library: Library,
    path: str,
    *,
    recursive: bool,
    ocr: OcrPolicy,
    reindex: bool,
    on_event: Callable[[Event], None],
    stop: Callable[[], bool],
) -> Answer:
    """Index a file or folder; the report names at most MOST_OUTCOMES files, failed ones first.

    Raises BigosError; UsageError for a path outside of allowed_roots, which only the user may go beyond.
    """
    from bigos import allowed
    from bigos.pipeline import IngestRequest

    named = _path(path)
    outside = allowed.outside([named], library.config)
    if outside:
        fix = f"add it to allowed_roots in the configuration, or run: bigos ingest {shlex.quote(path_text(outside[0]))}"
        raise allowed.refusal(outside, library.config, fix)
    request = IngestRequest(
        paths=(named,),
        recursive=recursive,
        max_files=library.config.max_files,
        reindex=reindex,
        # "auto" is what a caller says who has no wish: the configuration's.
        ocr=None if ocr == "auto" else ocr,
    )
    report = library.ingest(request, on_event, stop)
    if {item.reason for item in report.outcomes} == {"not recursive"} and not report.files["unchanged"]:
        raise UsageError(f"{path} holds no files itself, only folders.", fix="the same call with recursive=true")
    document = render.ingest_document(report)
    outcomes, warnings = document["outcomes"], document["warnings"]
    if len(outcomes) > MOST_OUTCOMES:
        worst_first = {"failed": 0, "skipped": 1}
        outcomes = sorted(outcomes, key=lambda entry: worst_first.get(entry["outcome"], 2))
    document["outcomes"] = outcomes[:MOST_OUTCOMES]
    document["outcomes_left_out"] = max(0, len(outcomes) - MOST_OUTCOMES)
    document["warnings"] = warnings[:MOST_OUTCOMES]
    document["warnings_left_out"] = max(0, len(warnings) - MOST_OUTCOMES)
    return Answer(render.ingest_text(report, limit=MOST_OUTCOMES, most=MOST_OUTCOMES), document)


def status(library: Library) -> Answer:
    """The state of the index, as `bigos status --json` gives it; of files that drifted it names MOST_OUTCOMES a
    sort, and as many of those that failed.

    Raises BigosError.
    """
    from bigos import render_state
    from bigos import status as state

    found = state.look(library)
    document = render_state.status_document(found)
    drift = document["drift"]
    document["errors_left_out"] = max(0, len(document["errors"]) - MOST_OUTCOMES)
    document["errors"] = document["errors"][:MOST_OUTCOMES]
    drift["left_out"] = {}
    for sort in ("changed", "deleted", "unreachable"):
        drift["left_out"][sort] = max(0, len(drift[sort]) - MOST_OUTCOMES)
        drift[sort] = drift[sort][:MOST_OUTCOMES]
    return Answer(render_state.status_text(found), document)


def _path(text: str) -> Path:
    """A path as a caller writes it: absolute, with ~, or relative to where the server was started."""
    if "\0" in text:
        raise UsageError("a path cannot hold a NUL character.", fix="give the path without it")
    try:
        return given(text).expanduser()
    except RuntimeError as error:  # ~somebody whom this machine does not know
        raise UsageError(f"{text} names a home folder that does not exist.", fix="give an absolute path") from error
