# SPDX-License-Identifier: GPL-2.0-only
"""What a second run over a tree costs: nothing where nothing changed, no model where only names did."""

from __future__ import annotations

from command_line import Home


def test_a_second_run_reads_and_embeds_nothing_and_a_renamed_directory_of_500_files_embeds_nothing(home: Home) -> None:
    old = home.path / "notes" / "old name"
    for number in range(500):
        folder = old / f"part{number // 100}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.txt").write_text(f"Bread number {number} needs flour.\n")
    first = home.ingest(old.parent, "--recursive", "--json").json
    assert (first["files"]["added"], first["embedded"], first["files_read"]) == (500, 500, 500)

    again = home.ingest(old.parent, "--recursive", "--json").json
    assert again["files"] == {"added": 0, "updated": 0, "unchanged": 500, "skipped": 0, "failed": 0}
    assert (again["embedded"], again["files_read"], again["chunks"]["written"]) == (0, 0, 0)
    assert again["chunks"]["unchanged"] == 500

    old.rename(old.parent / "nowa nazwa")
    moved = home.ingest(old.parent, "--recursive", "--json").json
    assert (moved["files"]["added"], moved["embedded"], moved["reused"]) == (500, 0, 500)
    hits = home.bigos("search", "bread number 77", "--path", old.parent / "nowa nazwa", "--json").json["hits"]
    assert hits[0]["text"] == "Bread number 77 needs flour."
    assert home.ingest(old.parent, "--recursive", "--json").json["files_read"] == 0
