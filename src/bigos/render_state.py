# SPDX-License-Identifier: GPL-2.0-only
"""The state of the index and of the installation, for a program and for a reader. Pure, like render.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bigos.render import one_line
from bigos.succession import advice, being_made

if TYPE_CHECKING:
    from bigos.doctor import Check
    from bigos.status import FileError, IndexStatus
    from bigos.stores import Unfinished

STATUS_SCHEMA = "bigos.status.v1"
DOCTOR_SCHEMA = "bigos.doctor.v1"
NEW_FILES_NOTE = (
    "new files are not counted: the index does not remember which folders were asked for; "
    "bigos ingest FOLDER --recursive --dry-run counts them"
)
NAMED = 10
UNWANTED = "if nobody wants it any more, delete {place}; another bigos ingest --rebuild does that, too"


def status_document(status: IndexStatus) -> dict[str, Any]:
    """The state of the index as `bigos status --json` gives it (bigos.status.v1)."""
    stats = status.stats
    return {
        "schema": STATUS_SCHEMA,
        "documents": stats.documents,
        "chunks": stats.chunks,
        "by_status": dict(stats.by_status),
        "by_kind": dict(stats.by_kind),
        "by_language": dict(stats.by_language),
        "by_code_language": dict(stats.by_code_language),
        "reasons": dict(status.reasons),
        "errors": [
            {"path": error.path, "status": error.status, "reason": error.reason, "since": error.since}
            for error in status.errors
        ],
        "last_ingest": status.last_ingest,
        "store": {
            "path": str(status.store_dir) if status.store_dir else None,
            "bytes": status.store_bytes,
            "place": status.store_place,
        },
        "fingerprint": stats.fingerprint,
        "expected_fingerprint": status.expected_fingerprint,
        "fits_configuration": status.fits,
        "model_problem": status.model_problem,
        "drift": {
            "new": None,
            "changed": list(status.drift.changed),
            "deleted": list(status.drift.deleted),
            "unreachable": list(status.drift.unreachable),
            "note": NEW_FILES_NOTE,
        },
        "rebuild": None if status.rebuild is None else _rebuild_document(status.rebuild, status.expected_fingerprint),
    }


def _rebuild_document(rebuild: Unfinished, expected: str | None) -> dict[str, Any]:
    known = rebuild.fingerprint is not None and expected is not None
    return {
        "running": rebuild.running,
        "process": rebuild.process,
        "documents": rebuild.documents,
        "of": rebuild.known,
        "heard_at": rebuild.heard_at,
        "fingerprint": rebuild.fingerprint,
        "fits_configuration": rebuild.fingerprint == expected if known else None,
        "place": rebuild.place,
    }


def status_text(status: IndexStatus) -> str:
    """The state of the index for a reader."""
    stats = status.stats
    if stats.fingerprint is None:
        lines = [f"there is no index in {status.store_place} yet: bigos ingest FOLDER --recursive"]
        lines += [f"model: {_indented(status.model_problem)}"] if status.model_problem else []
        return "\n".join(lines) + "\n"
    lines = [
        f"{stats.documents:,} documents, {stats.chunks:,} chunks, last ingest {status.last_ingest or 'never'}",
        f"  files by status          {_counts(stats.by_status)}",
        f"  chunks by kind           {_counts(stats.by_kind)}",
        f"  chunks by language       {_counts(stats.by_language)}",
        f"  chunks by code language  {_counts(stats.by_code_language)}",
    ]
    if status.reasons:
        lines.append(f"  left out                 {_counts(status.reasons)}")
    if status.errors:
        lines.append(f"not indexed, and could be: {len(status.errors):,} (bigos status --errors)")
        lines += [f"  {one_line(error.path)}: {error.reason}" for error in status.errors[:NAMED]]
    size = f", {status.store_bytes / 1e6:,.1f} MB on the disk" if status.store_bytes is not None else ""
    lines.append(f"store: {status.store_place}{size}")
    lines.append(f"made with: {stats.fingerprint}")
    if status.fits is False:
        lines.append(f"  does NOT fit the configuration: {status.expected_fingerprint}")
        lines += [] if status.rebuild else [f"  hint: {status.new_index_advice}"]
    elif status.model_problem:
        lines.append(f"  the configured model cannot be looked at: {_indented(status.model_problem)}")
    else:
        lines.append("  fits the configuration")
    if status.rebuild is not None:
        lines += _rebuild_lines(status.rebuild, status.expected_fingerprint)
    for word in ("changed", "deleted", "unreachable"):
        paths: tuple[str, ...] = getattr(status.drift, word)
        if paths or word != "unreachable":
            lines.append(f"{word} since: {len(paths):,}")
        lines += [f"  {one_line(path)}" for path in paths[:NAMED]]
        if len(paths) > NAMED:
            lines.append(f"  ... and {len(paths) - NAMED:,} more")
    lines.append(NEW_FILES_NOTE)
    return "\n".join(lines) + "\n"


def _rebuild_lines(rebuild: Unfinished, expected: str | None) -> list[str]:
    """That another index is being made, and what it takes to end that."""
    if rebuild.fingerprint not in (None, expected):
        told = [f"rebuild: {being_made(rebuild, f'other settings, {rebuild.fingerprint}')}"]
        return told if rebuild.running else [*told, f"  hint: {UNWANTED.format(place=rebuild.place)}"]
    return [f"rebuild: {being_made(rebuild)}", f"  hint: {advice(rebuild)}"]


def errors_text(errors: Sequence[FileError]) -> str:
    """What failed, and what could be cured, for a reader: each reason with its files and when they were looked at."""
    if not errors:
        return "nothing failed\n"
    by_reason: dict[tuple[str, str], list[FileError]] = {}
    for error in errors:
        by_reason.setdefault((error.status, error.reason), []).append(error)
    lines = []
    for (word, reason), files in by_reason.items():
        lines.append(f"{word}, {reason}: {len(files):,}")
        lines += [f"  {error.since[:19].replace('T', ' ')}  {one_line(error.path)}" for error in files]
    lines.append("hint: bigos ingest --retry-failed PATH tries them again, and says more of each")
    return "\n".join(lines) + "\n"


def _counts(counts: Mapping[str, int]) -> str:
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {number:,}" for name, number in ranked) or "-"


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")


def doctor_document(checks: Sequence[Check]) -> dict[str, Any]:
    """What the doctor found as `bigos doctor --json` gives it (bigos.doctor.v1)."""
    return {
        "schema": DOCTOR_SCHEMA,
        "ok": all(check.state != "failed" for check in checks),
        "checks": [
            {
                "name": check.name,
                "state": check.state,
                "detail": check.detail,
                "fix": check.fix,
                "paths": list(check.paths),
            }
            for check in checks
        ],
    }


def doctor_text(checks: Sequence[Check]) -> str:
    """What the doctor found for a reader: a line a part, and the fix under what needs one."""
    lines = []
    for check in checks:
        lines.append(f"{check.state:8} {check.name}: {one_line(check.detail)}")
        if check.fix:
            lines.append(f"{'':8} hint: {check.fix}")
    failed = sum(check.state == "failed" for check in checks)
    warnings = sum(check.state == "warning" for check in checks)
    works = f"it works, with {warnings} warning{'s' if warnings > 1 else ''}" if warnings else "everything works"
    lines.append(f"{failed} of {len(checks)} parts failed" if failed else works)
    return "\n".join(lines) + "\n"
