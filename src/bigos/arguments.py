# SPDX-License-Identifier: GPL-2.0-only
"""Command lines: argparse whose refusals are UsageErrors with a suggestion, and the options every command shares."""

from __future__ import annotations

import argparse
import difflib
import math
import re
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from bigos.errors import UsageError

EXIT_CODES = """\
exit codes: 0 done, 1 nothing found, 2 usage or configuration, 3 some files failed, 4 model or store unavailable,
5 the index was made with another model, 70 a bug in Bigos, 130 interrupted. With --json, stdout is one JSON document
when there is a result and empty when there is an error; errors, progress and logs go to stderr."""


HELP_WIDTH = 100


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises UsageError instead of ending the process. Abbreviated options are refused, so that
    a new option never changes what an old command line means. A description is wrapped, an epilog stands as it is.
    """

    def __init__(self, *, description: str | None = None, **options: Any) -> None:
        wide = argparse.RawDescriptionHelpFormatter
        described = {"description": textwrap.fill(description, HELP_WIDTH)} if description else {}
        super().__init__(**{"formatter_class": wide, "allow_abbrev": False, **described, **options})

    def error(self, message: str) -> NoReturn:
        """Raises UsageError with the nearest right word, or the command that lists them."""
        choice = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        near = closest(choice[1], re.findall(r"[\w-]+", choice[2])) if choice else None
        raise UsageError(message.rstrip(".") + ".", fix=f"did you mean {near}?" if near else f"{self.prog} --help")

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parse a whole command line. Raises UsageError; SystemExit after --help or --version."""
        args, unknown = self.parse_known_args(list(argv))
        if unknown:
            chosen: Parser = getattr(args, "parser", self)
            word = unknown[0].partition("=")[0]
            near = closest(word, chosen.option_strings) if word.startswith("-") else None
            what = "option" if word.startswith("-") else "argument"
            raise UsageError(
                f"{chosen.prog} has no {what} {word}." if what == "option" else f"unexpected argument {word!r}.",
                fix=f"did you mean {near}?" if near else f"{chosen.prog} --help",
            )
        return args

    @property
    def option_strings(self) -> list[str]:
        """Every option's spellings."""
        return [spelling for action in self._actions for spelling in action.option_strings]


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` is most likely meant to be."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return near[0] if near else None


def add_common(parser: Parser, *, json: bool = True) -> None:
    """Add the options that every command has."""
    if json:
        parser.add_argument("--json", action="store_true", help="write one JSON document to stdout")
    loudness = parser.add_mutually_exclusive_group()
    loudness.add_argument("-q", "--quiet", action="store_true", help="only errors on stderr")
    loudness.add_argument("-v", "--verbose", action="store_true", help="tell each step on stderr, lock waits too")
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration file instead of the usual one")


def add_serving(parser: Parser) -> None:
    """Add the options of the MCP server."""
    add_common(parser, json=False)
    parser.add_argument(
        "--text-only",
        action="store_true",
        help="answer without the JSON document, for a client that would show its model that instead of the text",
    )


def count(text: str) -> int:
    """A whole number from 1, as an argparse type."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {text}")
    return number


def count_or_zero(text: str) -> int:
    """A whole number from 0, as an argparse type."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"must be 0 or more, not {text}")
    return number


def seconds(text: str) -> float:
    """A time above zero, as an argparse type."""
    number = float(text)
    if not (number > 0 and math.isfinite(number)):
        raise argparse.ArgumentTypeError(f"must be above zero, not {text}")
    return number
