# SPDX-License-Identifier: GPL-2.0-only
"""`bigos`: ingest | watch | search | show | status | doctor | migrate | calibrate | backup | restore | eval | serve.

Parsing is light on purpose: what a command needs is imported when it runs.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn, TextIO

from bigos import __version__, backup_command, calibrate_command, ingest, migrate_command, status_command, watch_command
from bigos.arguments import EXIT_CODES, Parser, add_common, add_serving, count, count_or_zero, seconds
from bigos.errors import ExitCode, StoreError, UsageError
from bigos.paths import given
from bigos.terminal import Terminal, guarded, leave, read_config, set_up_logging

if TYPE_CHECKING:
    from bigos.library import Library
    from bigos.search import FoundHit, SearchRequest, ShowRequest
    from bigos.stores import StoredChunk

FRAGMENTS_A_FILE = 10
LONGEST_QUERY = 1 << 20
"""Bytes of a query that are read from stdin."""


def build_parser() -> Parser:
    """The whole command line."""
    parser = Parser(
        prog="bigos",
        description="Search your documents and source code by meaning, across Polish and English, on this machine.",
        epilog=EXIT_CODES,
    )
    parser.add_argument("--version", action="version", version=f"bigos {__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND", parser_class=Parser)

    def command(name: str, help_text: str) -> Parser:
        found: Parser = commands.add_parser(name, help=help_text, description=help_text, epilog=EXIT_CODES)
        found.set_defaults(parser=found)
        return found

    ingest.add_arguments(command("ingest", ingest.DESCRIPTION))
    watch_command.add_arguments(command("watch", watch_command.DESCRIPTION))
    _add_search(command("search", "Find the fragments nearest in meaning, whatever their language."))
    _add_show(command("show", "Read a chunk, or a document at a line or a page."))
    status_command.add_arguments(command("status", status_command.DESCRIPTION))
    doctor = command("doctor", "Probe every part; each failure comes with the command that fixes it.")
    doctor.add_argument("--warmup", action="store_true", help="have an embedding service load its model first")
    doctor.add_argument("--deep", action="store_true", help="look at every document and chunk of the index as well")
    doctor.add_argument("--repair", action="store_true", help="and put right what is wrong there (means --deep)")
    add_common(doctor)
    migrate_command.add_arguments(command("migrate", migrate_command.DESCRIPTION))
    calibrate_command.add_arguments(command("calibrate", calibrate_command.DESCRIPTION))
    backup_command.add_arguments(command("backup", backup_command.BACKUP))
    backup_command.add_arguments(command("restore", backup_command.RESTORE))
    evaluate = command("eval", "Measure recall on labelled queries.")
    evaluate.add_argument("queries", type=Path, metavar="QUERIES.jsonl")
    evaluate.add_argument("--root", type=Path, metavar="DIR", help="folder that the labels' paths are relative to")
    add_common(evaluate)
    add_serving(command("serve", "Run the MCP server on stdin and stdout."))
    return parser


def _add_search(parser: Parser) -> None:
    parser.add_argument("query", nargs="+", metavar="QUERY", help="the question; - reads it from stdin")
    parser.add_argument("--top-k", type=count, default=8, metavar="N", help="hits at most (8)")
    parser.add_argument("--kind", choices=("code", "document"), help="only this kind")
    parser.add_argument("--path", action="append", default=[], metavar="PREFIX", help="only below this file or folder")
    parser.add_argument("--max-chars", type=count, metavar="N", help="characters of each fragment at most")
    parser.add_argument(
        "--context", type=count_or_zero, default=0, metavar="N", help="join N neighbouring chunks on either side"
    )
    parser.add_argument("--files-only", action="store_true", help="paths alone, best first, each once")
    parser.add_argument("--explain", action="store_true", help="ranks and scores of each hit")
    parser.add_argument("--timeout", type=seconds, metavar="S", help="give up after so many seconds")
    add_common(parser)


def _add_show(parser: Parser) -> None:
    parser.add_argument("what", metavar="CHUNK_ID|PATH[:LINE|:pPAGE]")
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--context", type=count_or_zero, default=0, metavar="N", help="N chunks more on either side")
    extent.add_argument("--all", action="store_true", help="every chunk of the document, in order")
    add_common(parser)


# --- search ----------------------------------------------------------------------------------------------------------


def _search(args: argparse.Namespace, terminal: Terminal) -> int:
    config = read_config(args.config)
    query = _query(args.query)
    with _time_limit(args.timeout):
        from bigos.library import SHORT_PATIENCE, open_library
        from bigos.render import search_document, search_text
        from bigos.search import MOST_HITS, SearchRequest

        request = SearchRequest(
            query=query,
            # Several fragments of a file count once there, so more are looked at.
            top_k=min(MOST_HITS, FRAGMENTS_A_FILE * args.top_k) if args.files_only else args.top_k,
            kind=args.kind,
            paths=tuple(given(path) for path in args.path),
            max_chars=args.max_chars,
            context=args.context,
        )
        with open_library(config, SHORT_PATIENCE) as library:
            result = library.search(request)
            if args.files_only:
                result = replace(result, hits=_one_a_file(result.hits)[: args.top_k])
            why = None if result.hits else _why_nothing(library, request)
    if args.json:
        terminal.document(search_document(result, args.explain, args.files_only))
    else:
        terminal.result(search_text(result, explain=args.explain, files_only=args.files_only))
    for line in (result.notice, why):
        if line:
            terminal.say(line)
    return int(ExitCode.OK if result.hits else ExitCode.NOTHING_FOUND)


def _one_a_file(hits: Sequence[FoundHit]) -> tuple[FoundHit, ...]:
    """The best fragment of each file, best first."""
    best: dict[str, FoundHit] = {}
    for found in hits:
        best.setdefault(found.hit.source_path, found)
    return tuple(best.values())


def _query(words: Sequence[str]) -> str:
    """The question as the command line or stdin gives it; bytes that are not UTF-8 become question marks."""
    if list(words) != ["-"]:
        return " ".join(words).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if sys.stdin is None:
        raise UsageError("stdin is closed.", fix='bigos search "your question"')
    return sys.stdin.buffer.read(LONGEST_QUERY).decode("utf-8", "replace")


@contextmanager
def _time_limit(limit: float | None) -> Iterator[None]:
    """Raises StoreError inside when `limit` seconds are over, whatever is being waited for."""
    if limit is None:
        yield
        return

    def over(_number: int, _frame: FrameType | None) -> NoReturn:
        raise StoreError(f"no answer within {limit:g} s.", fix="try again, or with a longer --timeout")

    before = signal.signal(signal.SIGALRM, over)
    # Again every half second: an exception may be lost where none can be raised, as in a destructor.
    signal.setitimer(signal.ITIMER_REAL, limit, 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _why_nothing(library: Library, request: SearchRequest) -> str:
    if not library.stats().documents:
        return "nothing found: the index is empty.\nhint: bigos ingest FOLDER --recursive"
    from bigos.files import canonical

    paths = [canonical(path) for path in request.paths]
    if paths and not any(library.reading_store.known(path) for path in paths):
        names = ", ".join(str(path) for path in paths)
        if not os.path.exists(paths[0]):  # noqa: PTH110 - Path.exists raises for a name that is too long
            return f"nothing found: {names} is not indexed, and does not exist.\nhint: the same question without --path"
        return f"nothing found: nothing is indexed under {names}.\nhint: bigos ingest {paths[0]} --recursive"
    filters = " and ".join(["--kind"] * bool(request.kind) + ["--path"] * bool(paths))
    return f"nothing found: no chunk passes {filters or 'the filters'}.\nhint: the same question without {filters}"


# --- show ------------------------------------------------------------------------------------------------------------


def _show(args: argparse.Namespace, terminal: Terminal) -> int:
    from bigos.library import SHORT_PATIENCE, open_library
    from bigos.render import show_document, show_text
    from bigos.search import places

    with open_library(read_config(args.config), SHORT_PATIENCE) as library:
        chunks: list[StoredChunk] = []
        for request in places(args.what):
            chunks = library.show(replace(request, context=args.context, every=args.all))
            if chunks:
                break
        why = _beyond(request, chunks) if chunks else _why_not_shown(library, args.what)
    if args.json:
        terminal.document(show_document(chunks))
    else:
        terminal.result(show_text(chunks))
    if why:
        terminal.say(why)
    return int(ExitCode.OK if chunks else ExitCode.NOTHING_FOUND)


def _beyond(request: ShowRequest, chunks: Sequence[StoredChunk]) -> str | None:
    """What to say when the text has no such line or page, and so the nearest is shown."""
    place, wanted = ("line", request.line) if request.page is None else ("page", request.page)
    ends = [(item.chunk.line_end if place == "line" else item.chunk.page_end) or 0 for item in chunks]
    if wanted is None or 1 <= wanted <= max(ends, default=0):
        return None
    if wanted < 1:
        return f"the text has no {place} {wanted}; {place}s count from 1."
    return f"the text has no {place} {wanted}; it ends at {place} {max(ends, default=0)}."


def _why_not_shown(library: Library, what: str) -> str:
    from bigos.search import places
    from bigos.types import document_id

    request = places(what)[0]
    if request.path is None:
        return f"no chunk has the id {what}; its document may have changed since.\nhint: bigos search, for its new id"
    path = request.path
    record = library.reading_store.record(document_id(path))
    if record is not None:
        return f"{path} has no text in the index: {record.status} ({record.reason}).\nhint: bigos ingest {path}"
    if os.path.isdir(path):  # noqa: PTH112 - as for Path.exists above
        return f"{path} is a folder.\nhint: bigos search QUERY --path {path}"
    if not os.path.exists(path):  # noqa: PTH110
        return f"{path} is not indexed, and does not exist.\nhint: bigos search, for a path that is"
    return f"{path} is not indexed.\nhint: bigos ingest {path}"


# --- the others ------------------------------------------------------------------------------------------------------


def _doctor(args: argparse.Namespace, terminal: Terminal) -> int:
    from bigos import doctor
    from bigos.config import user_environment
    from bigos.render_state import doctor_document, doctor_text

    checks = list(
        doctor.examine(user_environment(), args.config, warm_up=args.warmup, deep=args.deep, repair=args.repair)
    )
    if args.json:
        terminal.document(doctor_document(checks))
    else:
        terminal.result(doctor_text(checks))
    failed = any(check.state == "failed" for check in checks)
    return int(ExitCode.UNAVAILABLE if failed else ExitCode.OK)


def _run(args: argparse.Namespace, terminal: Terminal) -> int:
    set_up_logging(terminal, quiet=args.quiet, verbose=args.verbose)
    commands = {
        "ingest": ingest.run,
        "search": _search,
        "show": _show,
        "status": status_command.run,
        "watch": watch_command.run,
        "doctor": _doctor,
        "migrate": migrate_command.run,
        "calibrate": calibrate_command.run,
        "backup": backup_command.run_backup,
        "restore": backup_command.run_restore,
    }
    if args.command in commands:
        return commands[args.command](args, terminal)
    if args.command == "serve":
        from bigos import mcp_server

        return mcp_server.run(args, terminal)
    from bigos import evaluate

    config = read_config(args.config)
    return evaluate.main(config, args.queries, args.root, args.json, terminal.stdout, terminal.stderr)


def main(argv: Sequence[str], stdout: TextIO | None, stderr: TextIO | None) -> int:
    """The command line without `sys`; the exit code."""
    terminal = Terminal(stdout, stderr)

    def command() -> int:
        parser = build_parser()
        if not argv:
            parser.print_help(terminal.stderr)
            return int(ExitCode.USAGE)
        with redirect_stdout(terminal.stdout):
            args = parser.parse(argv)
        if args.command is None:
            raise UsageError("no command was given.", fix="bigos --help")
        return _run(args, terminal)

    return guarded(command, terminal)


def entry_point() -> NoReturn:
    """`bigos`, as installed."""
    leave(main(sys.argv[1:], sys.stdout, sys.stderr))


if __name__ == "__main__":
    entry_point()
