# SPDX-License-Identifier: GPL-2.0-only
"""What a rebuild did, for a program and for a reader: as of an ingest, and what became of the collection. Pure."""

from __future__ import annotations

from typing import Any

from bigos.rebuild import RebuildReport
from bigos.render import ingest_document, ingest_text, one_line

NAMED = 10


def rebuild_document(report: RebuildReport) -> dict[str, Any]:
    """The run as `bigos ingest --rebuild --json` gives it: bigos.ingest.v1, with `rebuild` filled in."""
    return ingest_document(report.ingest) | {
        "rebuild": {
            "from": report.made_with,
            "to": report.fingerprint,
            "documents": report.documents,
            "chunks": report.chunks,
            "resumed": report.resumed,
            "from_stored_text": report.from_stored_text,
            "losses": [
                {"path": loss.path, "chunks": loss.chunks, "source": loss.source, "reason": loss.reason}
                for loss in report.losses
            ],
            "swapped": report.swapped,
        }
    }


def rebuild_text(report: RebuildReport) -> str:
    """The run for a reader."""
    lines = [
        f"{report.documents:,} documents, {report.chunks:,} chunks were made with {report.made_with}",
        f"  {_what_became(report)}",
    ]
    if report.from_stored_text:
        lines += _named("without a source that can be read; made of their stored text", report.from_stored_text)
    what = "lost" if report.swapped else "would be lost"
    for reason in dict.fromkeys(loss.reason for loss in report.losses):
        names = [f"{loss.path}: {loss.source}" for loss in report.losses if loss.reason == reason]
        lines += _named(f"{what} ({reason})", names)
    return "\n".join(lines) + "\n" + ingest_text(report.ingest)


def _what_became(report: RebuildReport) -> str:
    if report.swapped:
        return f"the index is now made with {report.fingerprint}"
    if report.ingest.dry_run:
        return f"to be made anew with {report.fingerprint}"
    if report.ingest.interrupted:
        return "stopped; the old index serves as before, the same command goes on from there"
    return "the new index is built; the old one serves as before"


def _named(what: str, names: list[str]) -> list[str]:
    shown = [f"    {one_line(name)}" for name in names[:NAMED]]
    more = [f"    ... and {len(names) - NAMED:,} more (--json names all)"] if len(names) > NAMED else []
    return [f"  {what}: {len(names):,}", *shown, *more]
