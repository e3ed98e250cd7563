# SPDX-License-Identifier: GPL-2.0-only
"""`python -m bigos.mcp_server` and `bigos serve`: the index as tools of an MCP client, over stdin and stdout.

A thin shell: answers.py says what a tool answers, this module brings calls to it in threads, so that the event loop
goes on answering. `mcp` is imported where it is used, because worker processes import this module again.
"""
# Not `from __future__ import annotations`: the SDK reads the annotations of the tools, whose names are local here.

import argparse
import io
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, cast

from bigos import __version__, protocol_streams
from bigos.arguments import Parser, add_serving
from bigos.errors import BigosError, ExitCode
from bigos.library import SHORT_PATIENCE, Library, open_library
from bigos.terminal import Terminal, guarded, read_config, set_up_logging

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer
    from mcp.types import CallToolResult

    from bigos.answers import Answer
    from bigos.tool_calls import Calls

DESCRIPTION = "Run the MCP server on stdin and stdout."
INSTRUCTIONS = (
    "Local search over the user's own documents and source code, in Polish and English. Ask in either language: "
    "fragments in both are found by meaning. Every hit gives path:lines or page, from where read_fragment reads on."
)
SEARCH = (
    "Find fragments of the indexed documents and code by meaning. Query in Polish or English, whatever the language "
    "of the texts; a question works better than keywords. Hits carry path:lines or page; stale: the file has "
    "changed or gone since. Where one was cut ([…], text_truncated), read_fragment gives the rest. kind and path "
    "are the only filters."
)
INGEST = (
    "Put a file or folder into the index, so that search finds it. Unchanged files cost nothing, changed ones are "
    "replaced. A large folder takes minutes; its progress is reported, and what is done is kept if it is cancelled."
)
READ = "Read a found fragment in full, with its neighbours in the same file."
STATUS = "What is in the index, by kind and language, and which files have changed or gone since they were read."

_log = logging.getLogger("bigos.mcp_server")


def _serving(library: Library, calls: "Calls", *, text_only: bool) -> "MCPServer[Any]":
    """The tools over a library. Nothing is opened or loaded before the first call."""
    import anyio
    from mcp.server.mcpserver import Context
    from mcp.types import CallToolResult, ToolAnnotations
    from pydantic import Field

    from bigos.tool_calls import Progress

    server = _server_class(text_only)("bigos", version=__version__, instructions=INSTRUCTIONS, log_level="WARNING")
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    writes = ToolAnnotations(
        read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )  # fmt: skip
    # Bounds, and the few words that a name does not say: a model pays for the schema in every session.
    neighbours = Field(ge=0, le=5)

    @server.tool(description=SEARCH, annotations=reads)
    async def search_knowledge_base(
        query: str,
        top_k: Annotated[int, Field(ge=1, le=100)] = 8,
        kind: Literal["code", "document"] | None = None,
        max_chars_per_result: Annotated[int, Field(ge=80, le=20_000)] = 800,
        path: Annotated[str | None, Field(description="only below this file or folder")] = None,
    ) -> CallToolResult:
        from bigos import answers

        return _result(
            await calls.run(
                lambda: answers.search(
                    library, query, top_k=top_k, kind=kind, max_chars=max_chars_per_result, path=path
                )
            )
        )

    @server.tool(description=INGEST, annotations=writes)
    async def ingest_document(
        path: Annotated[str, Field(description="file or folder")],
        ctx: Context[Any, Any],
        recursive: Annotated[bool, Field(description="go into the folders of a folder")] = False,
        ocr: Annotated[
            Literal["auto", "never", "always"], Field(description="recognise scanned pages, none, or all pages")
        ] = "auto",
        reindex: Annotated[bool, Field(description="also what has not changed")] = False,
    ) -> CallToolResult:
        from bigos import answers

        progress, cancelled = Progress(), threading.Event()

        def stop() -> bool:
            return cancelled.is_set() or calls.leaving.is_set()

        def ingest() -> "Answer | Exception":
            try:
                with calls.one_ingest(stop):
                    return answers.ingest(
                        library, path, recursive=recursive, ocr=ocr, reindex=reindex, on_event=progress, stop=stop
                    )
            except Exception as error:  # carried out of the task group, which would wrap it
                return error

        try:
            async with anyio.create_task_group() as beside:
                beside.start_soon(progress.go_on_telling, ctx)
                outcome = await calls.run(ingest, ingests=True)
                beside.cancel_scope.cancel()
        finally:
            cancelled.set()  # the client cancelled, or left: the run ends after the file in hand
        if isinstance(outcome, Exception):
            raise outcome
        if progress.has_news:
            await progress.tell(ctx)
        return _result(outcome)

    @server.tool(description=READ, annotations=reads)
    async def read_fragment(
        chunk_id: Annotated[str, Field(description="of a hit; or its path:line, path:pPAGE")],
        before: Annotated[int, neighbours] = 1,
        after: Annotated[int, neighbours] = 1,
    ) -> CallToolResult:
        from bigos import answers

        return _result(await calls.run(lambda: answers.fragment(library, chunk_id, before, after)))

    @server.tool(description=STATUS, annotations=reads)
    async def knowledge_base_status() -> CallToolResult:
        from bigos import answers

        return _result(await calls.run(lambda: answers.status(library)))

    return server


def _result(answer: "Answer") -> "CallToolResult":
    from mcp.types import CallToolResult, TextContent

    return CallToolResult(
        content=[TextContent(type="text", text=answer.text)], structured_content=answer.document, is_error=False
    )


def _server_class(text_only: bool) -> "type[MCPServer[Any]]":
    """MCPServer, but whatever goes wrong reaches the client as a sentence with its fix, and nothing else does.

    `text_only` leaves the documents out of the results: some clients show their model those instead of the text where
    an answer has both, which is the same in twice as many tokens and without the hints.
    """
    from mcp.server.mcpserver import Context, MCPServer
    from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
    from mcp.types import CallToolResult, InputRequiredResult

    class BigosServer(MCPServer[Any]):
        async def call_tool(
            self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
        ) -> CallToolResult | InputRequiredResult:
            _log.debug("called: %s", name)
            tool = next((tool for tool in await self.list_tools() if tool.name == name), None)
            known = list(tool.input_schema["properties"]) if tool else []
            unknown = sorted(set(arguments) - set(known))
            if known and unknown:
                raise ToolError(f"{name} has no argument {unknown[0]}.\nhint: it takes {', '.join(known)}")
            try:
                result = await super().call_tool(name, arguments, context)
            except UnexpectedToolError as error:
                cause = error.__cause__ or error
                if isinstance(cause, BigosError):
                    raise ToolError(str(cause)) from cause
                raise ToolError(_bug(cause)) from cause
            except ToolError as error:
                raise ToolError(_refusal(name, error, known)) from None
            if text_only and isinstance(result, CallToolResult):
                result.structured_content = None
            return result

    return BigosServer


def _refusal(name: str, error: Exception, known: Sequence[str]) -> str:
    """What is wrong with a call, in one sentence: the SDK's own takes a paragraph and a link."""
    from pydantic import ValidationError

    if not isinstance(error.__cause__, ValidationError):
        return f"{error}.\nhint: tools/list names the tools there are"
    first = error.__cause__.errors()[0]
    argument = str(first["loc"][0]) if first["loc"] else "an argument"
    if first["type"] == "missing":
        return f"{name} needs {argument}.\nhint: it takes {', '.join(known)}"
    wanted = first["msg"].replace("Input should be", "must be")
    return f"{argument} {wanted}, not {first['input']!r:.100}.\nhint: call {name} again with another {argument}"


def _bug(error: BaseException) -> str:
    """Log what nobody foresaw; the sentence that the command line would end with, crash log and all."""
    _log.error("a tool failed", exc_info=error)

    def fail() -> NoReturn:
        raise error

    told = io.StringIO()
    guarded(fail, Terminal(None, told))
    return told.getvalue().strip()


async def _serve(
    library: Library, calls: "Calls", descriptors: protocol_streams.ProtocolDescriptors, text_only: bool
) -> None:
    import anyio
    from mcp.server.stdio import stdio_server

    server = _serving(library, calls, text_only=text_only)
    lines = protocol_streams.ProtocolLines(descriptors.reading, calls.wind_down)
    output = io.TextIOWrapper(os.fdopen(descriptors.writing, "wb", closefd=False), encoding="utf-8")

    async def end_on_signal() -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for _ in signals:
                calls.hurry()
                lines.end()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(end_on_signal)
        async with stdio_server(cast("anyio.AsyncFile[str]", lines), anyio.wrap_file(output)) as (reading, writing):
            # The SDK's own run_stdio_async takes no streams; this is its body.
            protocol = server._lowlevel_server
            await protocol.run(reading, writing, protocol.create_initialization_options())
        tasks.cancel_scope.cancel()


def main(argv: Sequence[str]) -> int:
    """Serve until the client closes stdin; the exit code."""
    terminal = Terminal(None, sys.stderr)

    def serve() -> int:
        parser = Parser(prog="python -m bigos.mcp_server", description=DESCRIPTION)
        add_serving(parser)
        args = parser.parse(argv)
        set_up_logging(terminal, quiet=args.quiet, verbose=args.verbose)
        return run(args, terminal)

    return guarded(serve, terminal)


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    """Serve as the options say, until the client closes stdin; the exit code. Raises BigosError before it serves."""
    # For what the SDK has to tell; our own log is set up already.
    level = logging.ERROR if args.quiet else logging.WARNING
    logging.basicConfig(stream=sys.stderr, level=level, format="bigos: %(levelname)s %(name)s: %(message)s")
    library = open_library(read_config(args.config), SHORT_PATIENCE)
    return _serve_until_left(library, protocol_streams.claim(), terminal, args.text_only)


def _serve_until_left(
    library: Library, descriptors: protocol_streams.ProtocolDescriptors, terminal: Terminal, text_only: bool
) -> int:
    import anyio

    from bigos import tool_calls

    calls = tool_calls.Calls()

    def serve() -> int:
        try:
            anyio.run(_serve, library, calls, descriptors, text_only)
        except* (BrokenPipeError, ConnectionError):
            _log.info("nobody reads our stdout any more")
        return int(ExitCode.OK)

    code = guarded(serve, terminal)
    if calls.running:
        tool_calls.leave_at_once(code)
    library.close()
    calls.ended()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
