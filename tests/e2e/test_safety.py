# SPDX-License-Identifier: GPL-2.0-only
"""What may go in, from where, and what is refused: as the command line and an MCP client see it."""

from __future__ import annotations

from pathlib import Path

from command_line import Home


def write(folder: Path, **texts: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_a_whole_home_can_be_ingested_and_its_secrets_stay_out(home: Home) -> None:
    write(home.path / ".ssh", id_rsa="the heron nests in the reeds")
    write(home.path, bash__txt="a plain note", **{"__bash_history": "curl the heron"})
    first = home.ingest(home.path, "--recursive", "--json")
    assert first.code == 0, first.stderr
    denied = {item["path"]: item["detail"] for item in first.json["outcomes"] if item["reason"] == "denied"}
    assert denied == {f"{home.path}/.ssh": ".ssh", f"{home.path}/.bash_history": ".*_history"}
    assert home.bigos("search", "heron in the reeds", "--json").json["hits"][0]["source_name"] == "bash.txt"
    # By now there is an index below the home, which is not taken for documents.
    second = home.ingest(home.path, "--recursive", "--json")
    assert (second.json["files"]["unchanged"], second.json["files"]["added"]) == (1, 0)
    assert {item["path"] for item in second.json["outcomes"] if item["reason"] == "Bigos's own"} == {
        f"{home.path}/.local/share/bigos"
    }


def test_a_denied_path_given_by_hand_is_refused_with_the_setting_that_does_it(home: Home) -> None:
    write(home.path / ".ssh", config="Host heron")
    ran = home.ingest(home.path / ".ssh" / "config")
    assert ran.code == 1
    assert "denied_patterns refuses (.ssh)" in ran.stderr
    assert home.ingest(home.path / ".ssh" / "config", BIGOS_DENIED_PATTERNS="*.pem").code == 0


def test_bigos_own_folders_are_refused_as_roots(home: Home) -> None:
    (home.path / ".local" / "share" / "bigos").mkdir(parents=True)
    ran = home.ingest(home.path / ".local" / "share" / "bigos", "-r")
    assert ran.code == 2
    assert "belongs to Bigos's own data_dir, which is never indexed" in ran.stderr
