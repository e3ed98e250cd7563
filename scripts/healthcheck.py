#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Shows the state of everything that Bigos stands on as a table, and the command that mends what is not well.

    .venv/bin/python scripts/healthcheck.py [--warmup] [--json] [--config FILE]

The parts and the exit codes are those of `bigos doctor` (0 well, 4 something failed); beside them stand the OCR tools,
the fingerprint of the index and the units that watch the inbox. Changes nothing; --warmup has an embedding service load
its model.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

try:
    from bigos import doctor
    from bigos.config import Config, load_config, user_environment
    from bigos.doctor import Check
    from bigos.errors import BigosError, ExitCode
    from bigos.library import Library
    from bigos.render import one_line
    from bigos.render_state import doctor_document
    from bigos.terminal import Terminal, guarded, leave
except ImportError as error:
    sys.exit(f"error: Bigos is not installed in this Python ({error}).\nhint: ./setup.sh")

PATIENCE = 20
"""Seconds for a program to answer."""
INBOX_UNIT = "bigos-ingest.path"


def answer(*command: str) -> tuple[int, str]:
    """Exit code and stdout of a program; 127 when it is not there, 124 when it does not come back."""
    if shutil.which(command[0]) is None:
        return 127, ""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=PATIENCE,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return 124, ""
    return done.returncode, done.stdout.strip()


def ocr(config: Config) -> Check:
    """Whether scanned pages can be recognised, in the configured languages."""
    code, said = answer("tesseract", "--version")
    missing = [name for name in ("tesseract", "pdftoppm") if shutil.which(name) is None]
    if missing:
        return Check(
            "OCR", "warning", f"not installed: {', '.join(missing)}; scans stay unread", "./setup.sh --with-ocr"
        )
    if code:
        return Check("OCR", "failed", f"tesseract --version ends with exit code {code}", "./setup.sh --with-ocr")
    _, listed = answer("tesseract", "--list-langs")
    languages = sorted(set(listed.split("\n")[1:]) - {"osd"})
    lacking = sorted(set(config.ocr_languages.split("+")) - set(languages))
    version = said.splitlines()[0] if said else "tesseract"
    if lacking:
        detail = f"{version} has no data for {', '.join(lacking)}, only {', '.join(languages) or 'nothing'}"
        return Check("OCR", "failed", detail, "./setup.sh --with-ocr")
    return Check("OCR", "ok", f"{version}, {', '.join(languages)}; pdftoppm")


def inbox(_config: Config) -> Check:
    """Whether new files in the inbox folder are indexed by themselves."""
    code, state = answer("systemctl", "--user", "is-enabled", INBOX_UNIT)
    if code == 127:
        return Check("inbox", "ok", "no systemd here, so no folder is watched")
    if state != "enabled":
        # Nothing has to be done: a folder is watched only where somebody wants it.
        return Check("inbox", "ok", f"no folder is watched ({INBOX_UNIT} is {state or 'not there'})")
    _, active = answer("systemctl", "--user", "is-active", INBOX_UNIT)
    if active != "active":
        return Check("inbox", "failed", f"{INBOX_UNIT} is {active}", f"systemctl --user restart {INBOX_UNIT}")
    return Check("inbox", "ok", f"{INBOX_UNIT} watches")


def fingerprint(config: Config) -> Check:
    """What the index was made with. `store` of the doctor compares it; this shows it."""
    with Library(config) as library:
        made_with = library.stats().fingerprint
    return Check("fingerprint", "ok", made_with or "none yet: there is no index")


def examine(config_file: Path | None, warm_up: bool) -> Iterator[Check]:
    """The doctor's parts, then ours, if it does not have them itself and the configuration can be read."""
    seen: dict[str, Check] = {}
    for check in doctor.examine(user_environment(), config_file, warm_up=warm_up):
        seen[check.name.lower()] = check
        yield check
    try:
        config = load_config(user_environment(), config_file=config_file)
    except BigosError:
        return  # the doctor has told
    own: list[tuple[str, Callable[[Config], Check]]] = [("OCR", ocr), ("inbox", inbox)]
    if "store" in seen and seen["store"].state != "failed":
        own.append(("fingerprint", fingerprint))
    for name, probe in own:
        if name.lower() not in seen:
            yield probe(config)


def table(checks: Sequence[Check]) -> str:
    """A row a part, its cure below it."""
    marks = {"ok": "ok", "warning": "WARNING", "failed": "FAILED"}
    width = max(len(check.name) for check in checks)
    indent = width + 11
    room = max(shutil.get_terminal_size((120, 24)).columns - indent, 40)
    lines = [f"{'part':{width}}  {'state':7}  what was seen", f"{'-' * width}  {'-' * 7}  {'-' * room}"]
    for check in checks:
        # A path or a command is not broken, so that it can be copied.
        wrapped = textwrap.wrap(one_line(check.detail), room, break_long_words=False, break_on_hyphens=False)
        lines.append(f"{check.name:{width}}  {marks[check.state]:7}  {wrapped[0] if wrapped else ''}")
        lines += [" " * indent + line for line in wrapped[1:]]
        if check.fix:
            lines.append(f"{'':{indent}}hint: {check.fix}")
    failed = sum(check.state == "failed" for check in checks)
    lines.append(f"{failed} of {len(checks)} parts failed" if failed else "everything works")
    return "\n".join(lines) + "\n"


def main(argv: list[str]) -> int:
    """Exit 0 or 4, as `bigos doctor`."""
    terminal = Terminal(sys.stdout, sys.stderr)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--warmup", action="store_true", help="have an embedding service load its model first")
    parser.add_argument("--json", action="store_true", help="write one JSON document to stdout (bigos.doctor.v1)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration file instead of the usual one")
    arguments = parser.parse_args(argv)

    def command() -> int:
        checks = list(examine(arguments.config, arguments.warmup))
        if arguments.json:
            terminal.result(json.dumps(doctor_document(checks), ensure_ascii=False) + "\n")
        else:
            terminal.result(table(checks))
        return int(ExitCode.UNAVAILABLE if any(check.state == "failed" for check in checks) else ExitCode.OK)

    return guarded(command, terminal)


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
