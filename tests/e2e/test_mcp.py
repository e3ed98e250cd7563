# SPDX-License-Identifier: GPL-2.0-only
"""The MCP server as a client sees it: the SDK's own client, a real process, real stdio."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.types import CallToolResult, InitializeResult, Tool

from bigos import __version__, answers
from command_line import REPO, Home
from processes import PATIENCE

TIMEOUT = PATIENCE
POLISH = "jak obliczany jest dzielnik zegara SPI"


@asynccontextmanager
async def connected(home: Home, *options: str) -> AsyncIterator[ClientSession]:
    """A session with a server of its own, bounded in time. stderr goes to a file in the home."""
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "bigos.mcp_server", *options], env=home.environment(), cwd=home.path
    )
    with anyio.fail_after(TIMEOUT), (home.path / "stderr").open("a") as stderr:
        async with stdio_client(server, stderr) as (reading, writing), ClientSession(reading, writing) as session:
            yield session


def text_of(result: CallToolResult) -> str:
    """The one text of a result."""
    (content,) = result.content
    assert content.type == "text"
    return content.text


@dataclass
class Seen:
    """What one session saw; the tests of this module look at it."""

    home: Home
    samples: Path
    server: InitializeResult
    tools: dict[str, Tool]
    results: dict[str, CallToolResult] = field(default_factory=dict)
    progress: list[tuple[float, float | None, str | None]] = field(default_factory=list)

    def refused(self, name: str) -> str:
        """The text of a call that has to have failed."""
        result = self.results[name]
        assert result.is_error, result
        return text_of(result)

    def document(self, name: str) -> dict[str, Any]:
        """The structured content of a call that has to have worked."""
        result = self.results[name]
        assert not result.is_error, result
        assert result.structured_content is not None
        return result.structured_content


CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "english fragment": ("search_knowledge_base", {"query": POLISH}),
    "polish fragment": ("search_knowledge_base", {"query": "how long does the dough rest before making pierogi"}),
    "code": ("search_knowledge_base", {"query": "zmiana stanu diody co sekundę", "kind": "code", "top_k": 3}),
    "below a path": ("search_knowledge_base", {"query": POLISH, "path": "samples/polish"}),
    "below no path": ("search_knowledge_base", {"query": POLISH, "path": "/nowhere"}),
    "below what is new": ("search_knowledge_base", {"query": POLISH, "path": "stderr"}),
    "no code below": ("search_knowledge_base", {"query": POLISH, "path": "samples/polish", "kind": "code"}),
    "very much": ("search_knowledge_base", {"query": POLISH, "top_k": 100, "max_chars_per_result": 20_000}),
    "cut": ("search_knowledge_base", {"query": POLISH, "top_k": 2, "max_chars_per_result": 100}),
    "nothing asked": ("search_knowledge_base", {"query": " \n"}),
    "no query": ("search_knowledge_base", {}),
    "top_k of zero": ("search_knowledge_base", {"query": "x", "top_k": 0}),
    "no such kind": ("search_knowledge_base", {"query": "x", "kind": "foo"}),
    "no such argument": ("search_knowledge_base", {"query": "x", "language": "pl"}),
    "path of nobody": ("search_knowledge_base", {"query": "x", "path": "~no-such-user/x"}),
    "by line": ("read_fragment", {"chunk_id": "samples/english/spi-clock-notes.md:20-22", "before": 5, "after": 5}),
    "no lines": ("read_fragment", {"chunk_id": "samples/english/coffee-machine-manual.html:3"}),
    "nothing named": ("read_fragment", {"chunk_id": " "}),
    "no such chunk": ("read_fragment", {"chunk_id": "no such id"}),
    "no such path": ("ingest_document", {"path": "not there"}),
    "path outside": ("ingest_document", {"path": "~/../elsewhere.txt"}),
    "only folders": ("ingest_document", {"path": "samples"}),
    "again": ("ingest_document", {"path": "samples", "recursive": True, "ocr": "auto"}),
    "status": ("knowledge_base_status", {}),
    "no such tool": ("forget_everything", {}),
}


async def _look(home: Home, samples: Path) -> Seen:
    async with connected(home) as session:
        server = await session.initialize()
        seen = Seen(home, samples, server, {tool.name: tool for tool in (await session.list_tools()).tools})
        seen.results["empty index"] = await session.call_tool("search_knowledge_base", {"query": "x"})

        async def progress(done: float, total: float | None, message: str | None) -> None:
            seen.progress.append((done, total, message))

        seen.results["ingest"] = await session.call_tool(
            "ingest_document", {"path": "~/samples", "recursive": True}, progress_callback=progress
        )
        for name, (tool, arguments) in CALLS.items():
            seen.results[name] = await session.call_tool(tool, arguments)
        chunk_id = seen.document("cut")["hits"][0]["chunk_id"]
        seen.results["fragment"] = await session.call_tool("read_fragment", {"chunk_id": chunk_id, "before": 0})
        return seen


@pytest.fixture(scope="module")
def seen(make_home: Callable[[], Home]) -> Seen:
    home = make_home()
    samples = home.path / "samples"
    shutil.copytree(REPO / "data" / "samples", samples)
    return anyio.run(_look, home, samples)


def test_the_server_says_who_it_is_and_what_it_is_for(seen: Seen) -> None:
    assert (seen.server.server_info.name, seen.server.server_info.version) == ("bigos", __version__)
    assert "Polish" in (seen.server.instructions or "")


def test_the_tools_are_those_of_the_contract(seen: Seen) -> None:
    arguments = {name: list(tool.input_schema["properties"]) for name, tool in seen.tools.items()}
    assert arguments == {
        "search_knowledge_base": ["query", "top_k", "kind", "max_chars_per_result", "path"],
        "ingest_document": ["path", "recursive", "ocr", "reindex"],
        "read_fragment": ["chunk_id", "before", "after"],
        "knowledge_base_status": [],
    }
    defaults = {
        name: schema.get("default")
        for name, schema in seen.tools["search_knowledge_base"].input_schema["properties"].items()
    }
    assert defaults == {"query": None, "top_k": 8, "kind": None, "max_chars_per_result": 800, "path": None}


def test_only_the_ingest_changes_anything(seen: Seen) -> None:
    read_only = {name for name, tool in seen.tools.items() if tool.annotations and tool.annotations.read_only_hint}
    assert set(seen.tools) - read_only == {"ingest_document"}


def test_the_descriptions_cost_a_model_little(seen: Seen) -> None:
    schemas = [tool.model_dump_json(by_alias=True, exclude_none=True) for tool in seen.tools.values()]
    assert sum(map(len, schemas)) < 3000


def test_an_empty_index_says_how_to_fill_it(seen: Seen) -> None:
    assert seen.document("empty index")["hits"] == []
    assert "ingest_document" in text_of(seen.results["empty index"])


def test_an_ingest_reports_what_it_did(seen: Seen) -> None:
    document = seen.document("ingest")
    files = [path for path in seen.samples.rglob("*") if path.is_file()]
    assert document["schema"] == "bigos.ingest.v1"
    assert document["files"]["added"] == len(files)
    assert len(document["outcomes"]) == answers.MOST_OUTCOMES
    assert document["outcomes_left_out"] == len(files) - answers.MOST_OUTCOMES
    assert f"{len(files)} added" in text_of(seen.results["ingest"])


def test_an_ingest_tells_how_far_it_is(seen: Seen) -> None:
    numbers = [done for done, _, _ in seen.progress]
    assert len(numbers) >= 2
    assert numbers == sorted(set(numbers))  # the protocol: each above the last
    done, total, message = seen.progress[-1]
    assert done == total
    assert message is not None and "files" in message


def test_a_polish_question_finds_the_english_fragment(seen: Seen) -> None:
    hits = seen.document("english fragment")["hits"]
    assert (hits[0]["source_name"], hits[0]["chunk_language"]) == ("spi-clock-notes.md", "en")
    first, second = text_of(seen.results["english fragment"]).splitlines()[:2]
    place = f"{hits[0]['source_path']}:{hits[0]['line_start']}-{hits[0]['line_end']}"
    assert first.startswith(f"{hits[0]['score']:.4f} [document/en] {place}")
    assert second == hits[0]["text"].strip().splitlines()[0]


def test_an_english_question_finds_the_polish_fragment(seen: Seen) -> None:
    assert "pierogi.txt" in [hit["source_name"] for hit in seen.document("polish fragment")["hits"][:3]]


@pytest.mark.parametrize(("name", "flags"), [("english fragment", []), ("code", ["--kind", "code", "--top-k", "3"])])
def test_the_answer_is_the_one_of_the_command_line(seen: Seen, name: str, flags: list[str]) -> None:
    query = CALLS[name][1]["query"]
    printed = seen.home.bigos("search", query, "--max-chars", "800", "--json", *flags).json
    answered = dict(seen.document(name))
    del printed["seconds"], answered["seconds"]
    assert answered == printed


def test_kind_and_path_keep_everything_else_out(seen: Seen) -> None:
    assert {hit["kind"] for hit in seen.document("code")["hits"]} == {"code"}
    below = seen.document("below a path")["hits"]
    assert below
    assert {Path(hit["source_path"]).parent for hit in below} == {seen.samples / "polish"}
    for name, words in (
        ("below no path", "/nowhere does not exist, and is not in the index.\nhint: ask without path"),
        ("below what is new", "is in the index.\nhint: ingest_document"),
        ("no code below", "Nothing found.\nhint: ask without kind and path"),
    ):
        assert seen.document(name)["hits"] == []
        assert words in text_of(seen.results[name])


def test_an_answer_stays_within_what_a_context_can_take(seen: Seen) -> None:
    document = seen.document("very much")
    assert len(json.dumps(document, ensure_ascii=False)) <= answers.DOCUMENT_CHARS
    assert len(text_of(seen.results["very much"])) <= answers.TEXT_CHARS
    assert [hit["rank"] for hit in document["hits"]] == list(range(1, len(document["hits"]) + 1))
    assert any(hit["text_truncated"] for hit in document["hits"])


def test_what_was_cut_can_be_read_on(seen: Seen) -> None:
    hit = seen.document("cut")["hits"][0]
    assert hit["text_truncated"]
    assert f"1: {hit['chunk_id']}" in text_of(seen.results["cut"])
    document = seen.document("fragment")
    assert document["schema"] == "bigos.show.v1"
    whole, following = document["chunks"]
    assert whole["chunk_id"] == hit["chunk_id"]
    assert whole["text"].startswith(hit["text"])
    assert following["chunk_index"] == whole["chunk_index"] + 1


def test_a_fragment_is_found_by_its_place_and_its_neighbours_repeat_nothing(seen: Seen) -> None:
    chunks = seen.document("by line")["chunks"]
    assert len(chunks) > 1
    assert any(chunk["line_start"] <= 20 <= chunk["line_end"] for chunk in chunks)
    source = (seen.samples / "english" / "spi-clock-notes.md").read_text()
    assert [source[chunk["char_start"] : chunk["char_end"]] for chunk in chunks] == [chunk["text"] for chunk in chunks]
    assert all(one["char_end"] <= other["char_start"] for one, other in pairwise(chunks))
    assert "".join("".join(chunk["text"].split()) for chunk in chunks) == "".join(source.split())


def test_a_second_ingest_finds_nothing_to_do(seen: Seen) -> None:
    document = seen.document("again")
    assert document["chunks"]["written"] == 0
    assert document["embedded"] == 0


def test_the_status_is_the_one_of_the_command_line(seen: Seen) -> None:
    answered = seen.document("status")
    printed = seen.home.bigos("status", "--json").json
    assert (answered["schema"], answered["documents"]) == ("bigos.status.v1", printed["documents"])
    assert answered["by_kind"] == printed["by_kind"]


@pytest.mark.parametrize(
    ("name", "problem", "fix"),
    [
        ("nothing asked", "the query is empty.", "ask a question in Polish or English"),
        ("no query", "search_knowledge_base needs query.", "it takes query, top_k"),
        ("top_k of zero", "top_k must be greater than or equal to 1, not 0.", "another top_k"),
        ("no such kind", "kind must be 'code' or 'document', not 'foo'.", "another kind"),
        ("no such argument", "search_knowledge_base has no argument language.", "it takes query, top_k"),
        ("path of nobody", "~no-such-user/x names a home folder that does not exist.", "an absolute path"),
        ("no lines", "coffee-machine-manual.html has no lines.", "a chunk_id from the hits"),
        ("nothing named", "there is no fragment ''", "search again"),
        ("no such chunk", "there is no fragment 'no such id' in the index", "search again"),
        ("no such path", "not there does not exist.", "ls -la"),
        ("path outside", "elsewhere.txt is outside of what allowed_roots lets in (", "bigos ingest /"),
        ("only folders", "samples holds no files itself, only folders.", "recursive=true"),
        ("no such tool", "Unknown tool: forget_everything", "tools/list"),
    ],
)
def test_what_is_wrong_is_one_sentence_with_its_fix(seen: Seen, name: str, problem: str, fix: str) -> None:
    sentence, hint = seen.refused(name).split("\nhint: ")
    assert problem in sentence
    assert fix in hint
    assert "\n" not in sentence + hint


def test_for_a_client_that_would_show_its_model_the_document_it_can_be_left_out(seen: Seen) -> None:
    async def ask() -> list[CallToolResult]:
        async with connected(seen.home, "--text-only") as session:
            await session.initialize()
            names = ("english fragment", "below no path", "status", "no such chunk")
            return [await session.call_tool(*CALLS[name]) for name in names]

    answered = anyio.run(ask)
    assert [result.structured_content for result in answered] == [None] * 4
    assert text_of(answered[0]) == text_of(seen.results["english fragment"])
    assert "hint: ask without path" in text_of(answered[1])
    assert answered[3].is_error


def test_nothing_was_worth_a_word_on_stderr(seen: Seen) -> None:
    assert (seen.home.path / "stderr").read_text() == ""


def test_two_sessions_search_while_one_of_them_ingests(seen: Seen) -> None:
    many = seen.home.path / "many"
    many.mkdir()
    for number in range(60):
        (many / f"{number}.txt").write_text(f"Screw number {number} is tightened by hand, then a quarter turn more.\n")

    async def both() -> None:
        async with connected(seen.home) as busy, connected(seen.home) as other:
            await busy.initialize()
            await other.initialize()
            for session in (busy, other):  # the first question loads the model, which may take as long as the ingest
                await session.call_tool("search_knowledge_base", {"query": POLISH, "top_k": 1})
            done = anyio.Event()
            report: dict[str, Any] = {}

            async def ingest() -> None:
                report.update((await busy.call_tool("ingest_document", {"path": str(many)})).structured_content or {})
                done.set()

            async with anyio.create_task_group() as beside:
                beside.start_soon(ingest)
                answered = [0, 0]
                while not done.is_set():
                    for at, session in enumerate((busy, other)):
                        result = await session.call_tool("search_knowledge_base", {"query": POLISH, "top_k": 1})
                        assert (result.structured_content or {})["hits"][0]["source_name"] == "spi-clock-notes.md"
                        answered[at] += not done.is_set()
                    await anyio.sleep(0.1)
            assert report["files"]["added"] == 60
            assert min(answered) >= 1, answered

    anyio.run(both)
