# SPDX-License-Identifier: GPL-2.0-only
"""`python -m bigos.inbox DIR`: take a drop folder into the index, as the service bigos-ingest does.

Waits until nothing in the folder changes any more, ingests it, forgets what was taken out of it, and does so again
while more came in the meantime: whoever starts it may miss what happens before its end. One line on stderr for each
file that came, changed, went or failed; unchanged ones are not told.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from bigos.arguments import EXIT_CODES, Parser, add_common, seconds
from bigos.errors import ExitCode, StoreError
from bigos.files import canonical
from bigos.pruning import INBOX_MARKER
from bigos.render import duration, one_line
from bigos.settling import SETTLE_SECONDS, Settled, Settling
from bigos.terminal import StopSignal, Terminal, guarded, read_config, set_up_logging
from bigos.types import FileOutcome, Outcome, path_text

if TYPE_CHECKING:
    from bigos.config import Config
    from bigos.library import Library
    from bigos.report import Event, IngestReport

DESCRIPTION = "Take a drop folder into the index once nothing in it changes any more, and forget what has left it."
MARKER = INBOX_MARKER
"""A file that says: this folder is really there, no bare mount point. Without it nothing is forgotten."""
FAILURES_FILE = "inbox-failed.txt"
"""In state_dir: a line for each file in a drop folder that could not be indexed."""
_WORDS: dict[Outcome, str] = {
    "added": "came in",
    "updated": "changed",
    "forgotten": "went out",
    "failed": "failed",
    "skipped": "left out",
}
_log = logging.getLogger("bigos.inbox")  # __name__ is another where this is the command
_NO_NEWS = frozenset({"not recursive", "pruned directory", "ignored", "excluded", "not included"})
"""Reasons of what rules leave out."""


# --- one pass --------------------------------------------------------------------------------------------------------


def take(
    library: Library,
    folder: Path,
    exclude: Sequence[str] = (),
    *,
    say: Callable[[str], None],
    stop: Callable[[], bool] = lambda: False,
    prune: bool = False,
    forget: Callable[[], Sequence[FileOutcome]] = lambda: (),
) -> IngestReport:
    """Ingest the folder and all below it, telling each change as it becomes durable, and note what failed.

    Args:
        folder: canonical; has to be there.
        exclude: globs of what is not to be looked at yet.
        say: gets the lines.
        prune: whether what was taken out of the folder is forgotten; all of it only where the marker file is.
        forget: called when all else is done, unless the pass was interrupted; gives what else it has forgotten.

    Raises UsageError, StoreError, EmbedderError as `Library.ingest`, StoreError as `write_failures`, and as `forget`.
    """
    from bigos.gone import NOT_LOOKED_FOR
    from bigos.pipeline import IngestRequest
    from bigos.report import FileFinished

    told: set[str] = set()

    def tell(outcome: FileOutcome) -> None:
        line = change_line(outcome, folder)
        if line and outcome.path not in told:
            told.add(outcome.path)
            say(line)

    def listen(event: Event) -> None:
        if isinstance(event, FileFinished):
            tell(event.outcome)

    # Whoever drops 10,000 files means all of them: the limit is against a mistyped path.
    request = IngestRequest(
        (folder,),
        recursive=True,
        exclude=tuple(exclude),
        max_files=sys.maxsize,
        prune=prune,
        yes=(folder / MARKER).is_file(),
    )
    report = library.ingest(request, listen, stop)
    if not report.interrupted:
        for outcome in forget():
            report.add(outcome)
    # What the walk could not enter, and what had failed before anybody listed it: said once, as it is in the list then.
    listed = _listed(library.config.state_dir)
    for outcome in report.outcomes:
        if outcome.outcome == "forgotten" or (outcome.outcome == "failed" and one_line(outcome.path) not in listed):
            tell(outcome)
    for reason, count in Counter(reason for _, reason in report.kept if reason != NOT_LOOKED_FOR).items():
        say(f"gone from the folder, kept in the index: {count:,} ({reason})")
    if report.prune_refused is not None:
        say(f"hint: bigos ingest {shlex.quote(path_text(folder))} --recursive --prune --yes")
    if told:
        say(pass_line(report))
    if not report.interrupted:
        write_failures(report, library.config.state_dir, [folder])
    return report


def change_line(outcome: FileOutcome, folder: Path) -> str | None:
    """What became of a file, on one line: `came in: notes.md (3 chunks)`; None for what is no news."""
    if not _is_news(outcome):
        return None
    words = _WORDS[outcome.outcome]
    line = f"{words}: {one_line(outcome.path.removeprefix(path_text(folder).rstrip('/') + '/'))}"
    if outcome.outcome in ("added", "updated"):
        return f"{line} ({outcome.chunks:,} chunk{'s' * (outcome.chunks != 1)})"
    if outcome.outcome == "forgotten":
        return line
    return f"{line}: {_why(outcome)}"


def pass_line(report: IngestReport) -> str:
    """A pass in one line: `done in 2 s: 3 came in, 1 failed, 40 unchanged`."""
    counted = Counter(item.outcome for item in report.outcomes if _is_news(item))
    counts = [f"{counted[outcome]:,} {words}" for outcome, words in _WORDS.items() if counted[outcome]]
    counts += [f"{report.files['unchanged']:,} unchanged"] if report.files["unchanged"] else []
    begin = "interrupted after" if report.interrupted else "done in"
    return f"{begin} {duration(report.seconds)}: {', '.join(counts) or 'nothing'}"


def _is_news(outcome: FileOutcome) -> bool:
    return outcome.outcome in _WORDS and not (outcome.outcome == "skipped" and outcome.reason in _NO_NEWS)


def _why(outcome: FileOutcome) -> str:
    return one_line(": ".join(part for part in (outcome.reason, outcome.detail) if part) or "unknown")


# --- what failed -----------------------------------------------------------------------------------------------------


def write_failures(report: IngestReport, state_dir: Path, folders: Sequence[Path]) -> Path | None:
    """Rewrite the list of failures for the folders (or files) that a pass has looked at; lines of others stay.

    A line is the path, a tab and the reason. Returns the file; None when nothing is left in it and it was removed.

    Raises StoreError when it cannot be written.
    """
    roots = [one_line(path_text(folder)) for folder in folders]
    failed = {one_line(item.path): item for item in report.outcomes if item.outcome == "failed"}
    file = state_dir / FAILURES_FILE
    try:
        if not failed and not file.exists():
            return None
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _alone(state_dir):
            before = _failures(file)
            lines = {path: why for path, why in before.items() if not _is_below(path, roots)}
            for path, item in failed.items():
                # A file that is as it was is not read again: only the reason is known of it by now.
                told = before.get(path, "") if item.detail is None else ""
                lines[path] = told if told.partition(":")[0] == item.reason else _why(item)
            if not lines:
                file.unlink(missing_ok=True)
                return None
            new = file.with_name(f".{FAILURES_FILE}.new")
            new.write_text("".join(f"{path}\t{why}\n" for path, why in sorted(lines.items())), encoding="utf-8")
            new.replace(file)
    except OSError as error:
        raise _list_error(file, "written", error) from error
    return file


def _list_error(file: Path, what: str, error: OSError) -> StoreError:
    sentence = f"the list of failures {path_text(file)} cannot be {what}: {error.strerror}."
    return StoreError(sentence, fix=f"ls -la {shlex.quote(path_text(file.parent))}")


def _listed(state_dir: Path) -> dict[str, str]:
    """What is listed: why, by path. Raises StoreError when it cannot be read."""
    file = state_dir / FAILURES_FILE
    try:
        return _failures(file)
    except OSError as error:
        raise _list_error(file, "read", error) from error


def _failures(file: Path) -> dict[str, str]:
    try:
        text = file.read_text(encoding="utf-8", errors="backslashreplace")
    except FileNotFoundError:
        return {}
    lines = (line.partition("\t") for line in text.splitlines())
    return {path: why for path, _, why in lines}


def _is_below(path: str, roots: Sequence[str]) -> bool:
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time: the service and `bigos watch` may both have something to note."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


# --- the command -----------------------------------------------------------------------------------------------------


def serve(
    config: Config,
    folder: Path,
    settling: Settling,
    *,
    say: Callable[[str], None],
    stop: Callable[[], bool] = lambda: False,
) -> ExitCode:
    """Pass after pass, until the folder is as the last one has seen it, also when the index is closed.

    That takes its time, and what happens meanwhile nobody else would be told. Raises as `take`.
    """
    from bigos.library import open_library

    _log.info("waiting until nothing changes any more in %s", path_text(folder))
    code, seen = ExitCode.OK, None
    while True:
        with open_library(config) as library:
            code, seen = run(library, folder, settling, (code, seen), say=say, stop=stop)
        now = settling.look() if seen is not None else None
        if now is None or seen is None or now.seen == seen.seen:
            return code


def run(
    library: Library,
    folder: Path,
    settling: Settling,
    earlier: tuple[ExitCode, Settled | None],
    *,
    say: Callable[[str], None],
    stop: Callable[[], bool] = lambda: False,
) -> tuple[ExitCode, Settled | None]:
    """Pass after pass, until the folder is as the last one has seen it.

    Args:
        earlier: the exit code of an earlier pass, and what it has seen and taken.

    Returns: the exit code, and what the last pass has seen; None when there is nothing more to do whatever comes.
    Raises as `take`.
    """
    code, before = earlier
    while True:
        found = settling.wait(before.still if before else None, stop=stop)
        if stop():
            return ExitCode.INTERRUPTED, None
        if found is None:
            say(f"{one_line(path_text(folder))} is not there or cannot be read: nothing was forgotten.")
            return code, None
        if before is None or found.still != before.still:
            report = take(library, folder, found.exclude(folder), say=say, stop=stop, prune=True)
            if report.interrupted:
                return ExitCode.INTERRUPTED, None
            code = ExitCode.SOME_FILES_FAILED if report.files["failed"] else ExitCode.OK
        elif found.moving:
            names = ", ".join(one_line(path_text(Path(path))) for path in sorted(found.moving)[:3])
            say(f"still changing after a long time, and left for later: {names}")
            return code, None
        else:
            return code, found
        before = found


def main(argv: Sequence[str], stdout: TextIO | None, stderr: TextIO | None) -> int:
    """The command line without `sys`; the exit code."""
    terminal = Terminal(stdout, stderr)

    def command() -> int:
        parser = Parser(prog="python -m bigos.inbox", description=DESCRIPTION, epilog=EXIT_CODES)
        parser.add_argument("folder", metavar="DIR", type=Path, help="the drop folder")
        parser.add_argument(
            "--settle",
            type=seconds,
            default=SETTLE_SECONDS,
            metavar="S",
            help=f"seconds without a change before a file is taken ({SETTLE_SECONDS:g})",
        )
        add_common(parser, json=False)
        with redirect_stdout(terminal.stdout):
            args = parser.parse(argv)
        config = read_config(args.config)
        set_up_logging(terminal, quiet=args.quiet, verbose=args.verbose)
        folder = canonical(args.folder)
        with StopSignal(terminal) as stop:
            return int(serve(config, folder, Settling(folder, args.settle), say=terminal.say, stop=stop))

    return guarded(command, terminal)


if __name__ == "__main__":
    exit_code = main(sys.argv[1:], sys.stdout, sys.stderr)
    # At once: what happens in the folder while the interpreter tidies up would be told to nobody.
    os._exit(exit_code)
