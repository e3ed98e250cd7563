# SPDX-License-Identifier: GPL-2.0-only
"""Which documents of a damaged index are read again."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

from bigos.plan import IngestRequest
from bigos.repair import repair
from bigos.report import IngestReport
from bigos.stores.embedded import EmbeddedStore
from bigos.types import FileOutcome, document_id, path_text
from bigos.verification import INCOMPLETE, LEFT_OVER, Finding


def test_a_file_is_found_whatever_bytes_its_name_has(tmp_path: Path) -> None:
    there = [tmp_path / "zegar.txt", Path(os.fsdecode(os.fsencode(tmp_path) + b"/z\xbfw.txt"))]
    for file in there:
        file.write_text("zegar")
    gone = tmp_path / "gone.txt"
    findings = [Finding(INCOMPLETE, document_id(file), path_text(file), "0 of 1") for file in (*there, gone)]
    findings.append(Finding(LEFT_OVER, document_id(tmp_path), path_text(tmp_path / "whole.txt"), "1 of 0"))
    asked: list[IngestRequest] = []

    def ingest(request: IngestRequest) -> IngestReport:
        asked.append(request)
        report = IngestReport()
        report.add(FileOutcome(path_text(there[0]), "skipped", "holds a secret", "line 1: AWS key"))
        report.add(FileOutcome(path_text(there[1]), "updated", chunks=1))
        return report

    with closing(EmbeddedStore(tmp_path / "no store", None, None)) as store:
        done = repair(findings, store, ingest)
    assert [(set(request.paths), request.keep) for request in asked] == [(set(there), True)]
    assert [item.path for item in done.not_indexed] == [path_text(there[0])]
    assert done.read_again == tuple(sorted(map(path_text, there)))
