# SPDX-License-Identifier: GPL-2.0-only
"""What a migration and a calibration did, for a program and for a reader. Pure, like render.py."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bigos.render import duration, one_line

if TYPE_CHECKING:
    from bigos.migrate import Finding, MigrationReport

MIGRATE_SCHEMA = "bigos.migrate.v1"
CALIBRATE_SCHEMA = "bigos.calibrate.v1"
NAMED = 10
StoreKind = Literal["embedded", "server"]


@dataclass(frozen=True, slots=True)
class Route:
    """From which kind of store to which, where each is, and what the configuration says to use."""

    source: StoreKind
    source_place: str
    target: StoreKind
    target_place: str
    configured: StoreKind


def migrate_document(report: MigrationReport, route: Route) -> dict[str, Any]:
    """The run as `bigos migrate --json` gives it (bigos.migrate.v1)."""
    return {
        "schema": MIGRATE_SCHEMA,
        "from": {"store": route.source, "place": route.source_place},
        "to": {"store": route.target, "place": route.target_place},
        "fingerprint": report.fingerprint,
        "documents": report.documents,
        "chunks": report.chunks,
        "to_copy": {"documents": report.to_copy, "chunks": report.chunks_to_copy},
        "copied": {"documents": report.copied, "chunks": report.chunks_copied},
        "already_there": report.already_there,
        "verified": {"counted": report.counted, "compared": report.compared},
        "only_in_target": list(report.only_in_target),
        "newer_in_target": list(report.newer_in_target),
        "damaged": _finding_documents(report.damaged),
        "differences": _finding_documents(report.differences),
        "configured_store": route.configured,
        "dry_run": report.dry_run,
        "interrupted": report.interrupted,
        "seconds": round(report.seconds, 3),
    }


def _finding_documents(findings: Iterable[Finding]) -> list[dict[str, str]]:
    return [{"path": finding.path, "reason": finding.reason} for finding in findings]


def migrate_text(report: MigrationReport, route: Route) -> str:
    """The run for a reader; its last line says what to change in the configuration."""
    lines = [
        f"from {route.source}: {route.source_place}",
        f"  {report.documents:,} documents, {report.chunks:,} chunks, made with {report.fingerprint}",
        f"to {route.target}: {route.target_place}",
        f"  {_done(report)}",
    ]
    if report.counted:
        lines.append(f"  verified: {report.counted:,} by count of chunks, {report.compared:,} by text and vectors")
    lines += _named("only there, and kept", report.only_in_target)
    lines += _named("ingested later there, and kept", report.newer_in_target)
    lines += _named("not whole in the source, and not copied", map(_finding_text, report.damaged))
    lines += _named("DIFFER from the source", map(_finding_text, report.differences))
    if not (report.dry_run or report.interrupted or report.differences):
        lines.append(_what_next(route))
    return "\n".join(lines) + "\n"


def _done(report: MigrationReport) -> str:
    there = f"{report.already_there:,} there already"
    if report.dry_run:
        return f"would copy {report.to_copy:,} documents ({report.chunks_to_copy:,} chunks), {there}"
    if report.interrupted:
        left = report.to_copy - report.copied
        rest = f"{left:,} are left" if left else "they were not verified"
        return f"stopped: copied {report.copied:,} documents, {rest}; the same command goes on from there"
    time = duration(report.seconds)
    return f"copied {report.copied:,} documents ({report.chunks_copied:,} chunks) in {time}, {there}"


def _what_next(route: Route) -> str:
    if route.configured == route.target:
        return f'the configuration uses it already: store = "{route.target}"'
    return f'to use it, set this in config.toml: store = "{route.target}"'


def _named(what: str, names: Iterable[str]) -> list[str]:
    every = list(names)
    if not every:
        return []
    shown = [f"    {one_line(name)}" for name in every[:NAMED]]
    more = [f"    ... and {len(every) - NAMED:,} more (--json names all)"] if len(every) > NAMED else []
    return [f"  {what}: {len(every):,}", *shown, *more]


def _finding_text(finding: Finding) -> str:
    return f"{finding.path} {finding.reason}"


@dataclass(frozen=True, slots=True)
class CalibrationResult:
    """Language means that are there now. `changed` compares with those before; None when there were none."""

    embedder: str
    file: Path
    checksum: str
    languages: Sequence[str]
    computed: bool
    changed: bool | None
    seconds: float


def calibrate_document(result: CalibrationResult) -> dict[str, Any]:
    """The means as `bigos calibrate --json` gives them (bigos.calibrate.v1)."""
    return {
        "schema": CALIBRATE_SCHEMA,
        "embedder": result.embedder,
        "file": str(result.file),
        "checksum": result.checksum,
        "languages": list(result.languages),
        "computed": result.computed,
        "changed": result.changed,
        "seconds": round(result.seconds, 3),
    }


def calibrate_text(result: CalibrationResult) -> str:
    """The means for a reader."""
    how = f"computed in {duration(result.seconds)}" if result.computed else "there already; --again computes them anew"
    lines = [
        f"language means of {result.embedder}: {how}",
        f"  {', '.join(result.languages)}; checksum {result.checksum}",
        f"  {result.file}",
    ]
    if result.changed:
        lines.append(
            "  they are others than before: an index made with the old ones has to be made anew (bigos status)"
        )
    elif result.changed is False:
        lines.append("  they are the same as before")
    return "\n".join(lines) + "\n"
