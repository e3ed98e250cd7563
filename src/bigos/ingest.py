# SPDX-License-Identifier: GPL-2.0-only
"""`python -m bigos.ingest` and `bigos ingest`: put files and folders into the index, tell what became of each."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from bigos import rebuild_command
from bigos.arguments import EXIT_CODES, Parser, add_common, count
from bigos.errors import ExitCode, UsageError
from bigos.paths import given
from bigos.terminal import StopSignal, Terminal, guarded, leave, read_config, set_up_logging

if TYPE_CHECKING:
    from bigos.config import Config
    from bigos.pipeline import IngestReport, IngestRequest

DESCRIPTION = (
    "Put files and folders into the index. Unchanged files cost a look; what was left out is told with a reason."
)
NOT_LOOKED_FOR = frozenset(
    {"not recursive", "pruned directory", "ignored", "excluded", "not included", "denied", "Bigos's own"}
)
"""Reasons of names that the command itself leaves out: a run that saw nothing else has found no files."""

NOT_WITH_FORGET = (
    "reindex", "retry_failed", "include", "exclude", "no_ignore", "allow_secrets", "max_files", "ocr", "prune",
    "rebuild",
)  # fmt: skip
"""Arguments that say what is read, and how."""


def add_arguments(parser: Parser) -> None:
    """Describe the command's arguments."""
    parser.epilog = EXIT_CODES
    parser.add_argument("paths", nargs="*", metavar="PATH", help="a file or a folder")
    parser.add_argument("-r", "--recursive", action="store_true", help="go into the folders of a folder")
    parser.add_argument(
        "--include", action="append", default=[], metavar="GLOB", help="only files whose name or path matches"
    )
    parser.add_argument(
        "--exclude", action="append", default=[], metavar="NAME|GLOB", help="leave out files and folders that match"
    )
    parser.add_argument(
        "--no-ignore", action="store_true", help="take what .gitignore, .git/info/exclude and .bigosignore leave out"
    )
    parser.add_argument("--max-files", type=count, metavar="N", help="refuse to start on more files (5000)")
    parser.add_argument(
        "--dry-run", action="store_true", help="count files and chunks, estimate the time, write nothing"
    )
    parser.add_argument(
        "--ocr", choices=("auto", "never", "always"), help="recognise pages without text, none, or all (auto)"
    )
    parser.add_argument("--reindex", action="store_true", help="read and embed unchanged files again")
    parser.add_argument("--retry-failed", action="store_true", help="try what failed or was left out again")
    parser.add_argument(
        "--prune", action="store_true", help="then forget what was in the folders and is gone from the disk"
    )
    parser.add_argument(
        "--forget", action="store_true", help="remove the files, and all below the folders, from the index instead"
    )
    parser.add_argument(
        "--allow-secrets", action="store_true", help="take files that hold private keys or access tokens, too"
    )
    parser.add_argument("--yes", action="store_true", help="do what would be asked first")
    parser.add_argument(
        "--rebuild",
        action="store_true",
        help="read and embed everything known anew, after a change of the model or the windows; PATHs are added to it",
    )
    add_common(parser)


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    """Ingest what parsed arguments ask for; the exit code."""
    config = read_config(args.config)
    set_up_logging(terminal, quiet=args.quiet, verbose=args.verbose)
    for path in args.paths:
        given(path)
    if not args.paths and not args.rebuild:
        raise UsageError("no PATH was given.", fix="bigos ingest FOLDER --recursive, or bigos ingest --help")
    if args.forget:
        return _forget(args, config, terminal)
    _admit(args, config, terminal)
    request = _request(args, config)
    if args.rebuild:
        return rebuild_command.run(args, request, config, terminal)
    with StopSignal(terminal) as stop:
        from bigos.library import open_library
        from bigos.progress import watching
        from bigos.render import ingest_document, ingest_text

        def ingest(request: IngestRequest) -> tuple[IngestReport, ExitCode]:
            with watching(terminal, quiet=args.quiet, verbose=args.verbose) as listener:
                report = library.ingest(request, listener, stop)
            found = bool(report.files["unchanged"]) or any(
                item.reason not in NOT_LOOKED_FOR for item in report.outcomes
            )
            if args.json:
                terminal.document(ingest_document(report))
            elif found or report.outcomes or report.kept or report.interrupted:
                terminal.result(ingest_text(report))
            if not found and not report.interrupted:
                terminal.say(_nothing_found(args.paths, report))
            return report, _exit_code(report, found)

        with open_library(config) as library:
            report, code = ingest(request)
            if _agrees_to_prune(report, args, terminal):
                _, code = ingest(replace(request, yes=True, reindex=False, retry_failed=False))
        return int(code)


def _agrees_to_prune(report: IngestReport, args: argparse.Namespace, terminal: Terminal) -> bool:
    """Whether what --prune has left to be agreed to is agreed to now. Raises UsageError where nobody can be asked."""
    if report.prune_refused is None or report.dry_run:
        return False
    missing, known = report.prune_refused
    told = f"{missing:,} of the {known:,} documents known there are gone from the disk"
    if terminal.can_ask and not args.json:
        return terminal.agrees(f"{told}. Forget them?")
    raise UsageError(
        f"{told}, which is more than half: they were kept.",
        fix="look whether a disk is away; if they are really gone, the same command with --yes",
    )


def _admit(args: argparse.Namespace, config: Config, terminal: Terminal) -> None:
    """Have paths outside of allowed_roots agreed to, or told where nobody can be asked. Raises UsageError."""
    from bigos import allowed
    from bigos.files import expanded
    from bigos.types import path_text

    # os.path.exists: what cannot be looked at or named is told by the walk, in its words.
    there = [path for path in map(expanded, map(Path, args.paths)) if os.path.exists(path)]  # noqa: PTH110
    outside = allowed.outside(there, config)
    if not outside or args.yes:
        return
    fix = "the same command with --yes, or add it to allowed_roots in the configuration"
    if config.allowed_roots is not None:
        raise allowed.refusal(outside, config, fix)
    names = ", ".join(map(path_text, outside))
    if not terminal.can_ask:
        if not args.quiet:
            terminal.say(f"{names} is outside of your home and of this project; allowed_roots can forbid that.")
    elif not terminal.agrees(f"{names} is outside of your home and of this project. Read it?"):
        raise allowed.refusal(outside, config, fix)


def _request(args: argparse.Namespace, config: Config) -> IngestRequest:
    from bigos.files import expanded
    from bigos.pipeline import IngestRequest

    return IngestRequest(
        paths=tuple(expanded(Path(path)) for path in args.paths),
        recursive=args.recursive,
        include=tuple(args.include),
        exclude=tuple(args.exclude),
        ignore_files=not args.no_ignore,
        max_files=args.max_files or config.max_files,
        reindex=args.reindex,
        retry_failed=args.retry_failed,
        ocr=args.ocr,
        allow_secrets=args.allow_secrets,
        dry_run=args.dry_run,
        prune=args.prune,
        yes=args.yes,
    )


def _forget(args: argparse.Namespace, config: Config, terminal: Terminal) -> int:
    from bigos.library import SHORT_PATIENCE, open_library
    from bigos.render import forget_text, ingest_document

    if others := [name for name in NOT_WITH_FORGET if getattr(args, name) not in (None, False, [])]:
        raise UsageError(
            "--forget takes whole files and folders, and reads none.",
            fix=f"the same command without {' and '.join('--' + name.replace('_', '-') for name in others)}",
        )
    with open_library(config, SHORT_PATIENCE) as library:
        report = library.forget([Path(path) for path in args.paths], dry_run=args.dry_run)
    if args.json:
        terminal.document(ingest_document(report))
    elif report.outcomes:
        terminal.result(forget_text(report))
    if report.outcomes:
        return int(ExitCode.OK)
    terminal.say(f"nothing is indexed under {_names(args.paths)}.\nhint: bigos status")
    return int(ExitCode.NOTHING_FOUND)


def _names(paths: Sequence[str]) -> str:
    """Paths as arguments came, on one line whatever is in them."""
    from bigos.render import one_line
    from bigos.types import path_text

    return ", ".join(one_line(path_text(Path(path))) for path in paths)


def _exit_code(report: IngestReport, found: bool) -> ExitCode:
    if report.interrupted:
        return ExitCode.INTERRUPTED
    if report.files["failed"]:
        return ExitCode.SOME_FILES_FAILED
    return ExitCode.OK if found else ExitCode.NOTHING_FOUND


def _nothing_found(paths: Sequence[str], report: IngestReport) -> str:
    """Why there was no file, and what to do about it."""
    reasons = {outcome.reason for outcome in report.outcomes}
    names = _names(paths)
    if "not recursive" in reasons:
        return f"no files in {names} itself, only folders.\nhint: the same command with --recursive"
    if "denied" in reasons and "not included" not in reasons:
        patterns = sorted({outcome.detail or "" for outcome in report.outcomes if outcome.reason == "denied"})
        told = f"no files in {names} but what denied_patterns refuses ({patterns[0]})."
        return f"{told}\nhint: set denied_patterns in the configuration, without that pattern, if it may be read"
    if "ignored" in reasons and "not included" not in reasons:
        rules = sorted({outcome.detail or "" for outcome in report.outcomes if outcome.reason == "ignored"})
        told = f"no files in {names} but what ignore files leave out ({rules[0]})."
        return f"{told}\nhint: the same command with --no-ignore"
    if "not included" in reasons:
        return f"no file in {names} matches --include.\nhint: --include '*.md' matches names at any depth"
    if reasons:
        return f"no files in {names} but what is always left out or --exclude names.\nhint: ls -A {names}"
    return f"there are no files in {names}.\nhint: ls -A {names}"


def main(argv: Sequence[str], stdout: TextIO | None, stderr: TextIO | None) -> int:
    """The command line without `sys`; the exit code."""
    terminal = Terminal(stdout, stderr)

    def command() -> int:
        parser = Parser(prog="python -m bigos.ingest", description=DESCRIPTION)
        add_arguments(parser)
        with redirect_stdout(terminal.stdout):
            args = parser.parse(argv)
        return run(args, terminal)

    return guarded(command, terminal)


if __name__ == "__main__":
    leave(main(sys.argv[1:], sys.stdout, sys.stderr))
