# SPDX-License-Identifier: GPL-2.0-only
"""What Bigos leaves on the disk is in its own folders and for the user alone, whatever it did and however it ended."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import Home
from processes import PATIENCE, until

FIXTURES = Path(__file__).parents[1] / "data" / "loaders"
READ = ("chleb.pdf", "zapiski.epub", "drying.mobi", "skan.png", "notes.md", "divider.c", "zapiski.docx", "page.html")
OWN = (".local/share/bigos", ".cache/bigos", ".local/state/bigos")


@pytest.fixture(autouse=True)
def careless_umask() -> Iterator[None]:
    """As open as it gets: what is private then is so by Bigos's own doing."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def fresh(home: Home, tmp_path: Path) -> Home:
    """A home with documents, and a folder for temporary files of its own."""
    (home.path / "docs").mkdir()
    for name in READ:
        shutil.copy(FIXTURES / name, home.path / "docs")
    question = {"query": "drying plums", "lang": "en", "target_lang": "en", "relevant": [{"path": "drying.mobi"}]}
    (home.path / "queries.jsonl").write_text(json.dumps(question) + "\n")
    (tmp_path / "tmp").mkdir()
    return Home(home.path, env={"TMPDIR": str(tmp_path / "tmp")})


def strays(home: Home, before: set[str]) -> list[str]:
    """What is new in the home or among temporary files, and in none of the folders that Bigos has for it."""
    above = {str(parent) for own in OWN for parent in Path(own).parents}
    new = set(home.everything()) - before - above
    kept = [name for name in new if not name.startswith(OWN)]
    temporary = [str(path) for path in Path(home.env["TMPDIR"]).rglob("*")]
    scratch = [str(path) for path in (home.path / ".cache" / "bigos" / "scratch").glob("*")]
    return sorted(kept + temporary + scratch)


def open_to_others(home: Home) -> list[str]:
    """Files and folders of Bigos's that others may read, write or enter."""
    ours = [path for own in OWN for path in (home.path / own, *(home.path / own).rglob("*")) if path.exists()]
    assert len(ours) > 10
    return [f"{path} {path.stat().st_mode:o}" for path in ours if path.stat().st_mode & 0o077]


def session(home: Home) -> None:
    """What an MCP client does: a search, an ingest, a look. It leaves when it has all of its answers."""
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    calls = (
        ("search_knowledge_base", {"query": "drying plums"}),
        ("ingest_document", {"path": str(home.path / "docs"), "reindex": True}),
        ("knowledge_base_status", {}),
    )
    messages = [
        {"id": 0, "method": "initialize", "params": client},
        {"method": "notifications/initialized"},
        *(
            {"id": number, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
            for number, (name, arguments) in enumerate(calls, start=1)
        ),
    ]
    waiting = {message["id"] for message in messages if "id" in message}
    command = [sys.executable, "-m", "bigos.mcp_server"]
    with subprocess.Popen(
        command, env=home.environment(), cwd=home.path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for message in messages:
            server.stdin.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
        server.stdin.flush()
        for line in server.stdout:
            waiting.discard(json.loads(line).get("id"))
            if not waiting:
                break
        server.stdin.close()
        assert server.wait(PATIENCE) == 0
    assert not waiting


def test_use_of_every_kind_leaves_files_in_bigos_own_folders_alone(fresh: Home) -> None:
    before = set(fresh.everything())
    docs = fresh.path / "docs"
    first = fresh.ingest(docs, "--json")
    assert first.json["files"]["added"] >= len(READ) - 1, first.stdout  # the scan needs tesseract
    assert fresh.bigos("search", "drying plums").code == 0
    assert fresh.bigos("show", docs / "notes.md").code == 0
    for command in (["status"], ["doctor"], ["eval", fresh.path / "queries.jsonl", "--root", docs]):
        assert fresh.bigos(*command).stdout
    session(fresh)
    assert strays(fresh, before) == []
    assert open_to_others(fresh) == []


@pytest.mark.parametrize("moment", ["when the workers have begun", "when something is written"])
def test_a_killed_ingest_leaves_nothing_that_the_next_one_does_not_tidy_up(fresh: Home, moment: str) -> None:
    (fresh.path / "docs" / "skan.png").unlink()  # takes long
    for number in range(4):
        shutil.copy(FIXTURES / "drying.mobi", fresh.path / "docs" / f"{number}.mobi")
    before = set(fresh.everything())
    running = fresh.start(fresh.path / "docs", module="bigos.ingest", BIGOS_WORKERS="1")
    awaited = ".cache/bigos/scratch" if moment.startswith("when the workers") else ".local/share/bigos/collections"
    until(lambda: any((fresh.path / awaited).glob("*")) or running.poll() is not None)
    os.killpg(running.pid, signal.SIGKILL)
    running.communicate()
    assert running.returncode == -signal.SIGKILL
    # A worker ends with its parent, but not in the same instant.
    again = fresh.ingest(fresh.path / "docs")
    assert again.code == 0, again.stderr
    assert strays(fresh, before) == []
    assert open_to_others(fresh) == []
