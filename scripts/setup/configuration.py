#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Makes config.toml say embedder = "ollama" and store = "server"; every other key and comment stays as it is.

    configuration.py check                what differs, exit 1; exit 0 when nothing does
    configuration.py candidate FILE       write to FILE what config.toml would be, which is not touched; prints what
                                          Bigos would take from it as qdrant_url, ollama_url and ollama_model
    configuration.py install              change config.toml; what it was is kept beside it

Each failure is one sentence and its cure, exit 1.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import tomllib
from pathlib import Path

from bigos.config import load_config, user_environment
from bigos.errors import BigosError

WANTED = {"embedder": "ollama", "store": "server"}
BY_HAND = 'write embedder = "ollama" and store = "server" into it yourself, above any [section]'
_VALUE = r"(\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'|[^#\n]*?)"


class Failure(Exception):
    """A sentence and its cure."""

    def __init__(self, sentence: str, cure: str) -> None:
        super().__init__(f"{sentence}\nhint: {cure}")


def config_file() -> Path:
    """Where Bigos reads its configuration, links followed: one that is kept elsewhere stays a link."""
    env = user_environment()
    base = Path(env.get("XDG_CONFIG_HOME") or "")
    if not base.is_absolute():
        base = Path(env.get("HOME") or Path.home()) / ".config"
    return Path(env.get("BIGOS_CONFIG") or base / "bigos" / "config.toml").resolve()


def parse(text: str, file: Path) -> dict[str, object]:
    """The text as TOML; Failure with the line when it is none."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Failure(f"{file} is not TOML: {error}.", f"mend it: ${{EDITOR:-vi}} '{file}'") from error


def read(file: Path) -> str:
    """The text, empty for a file that is not there."""
    try:
        return file.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{file} cannot be read: {error}.", f"ls -l '{file}'") from error


def differences(text: str, file: Path) -> dict[str, object]:
    """The wanted keys that the text says otherwise, with what it says; None for not at all."""
    settings = parse(text, file)
    return {key: settings.get(key) for key, value in WANTED.items() if settings.get(key) != value}


def merged(text: str, file: Path) -> str:
    """The text with the wanted keys set and all else as it was; Failure when that cannot be had."""
    new = text
    for key in differences(text, file):
        line = f'{key} = "{WANTED[key]}"'
        # Only above the first section: below it, the same words are another key.
        section = re.search(r"^[ \t]*\[", new, re.MULTILINE)
        end = section.start() if section else len(new)
        found = re.compile(rf"^([ \t]*)([\"']?){key}\2[ \t]*=[ \t]*{_VALUE}([ \t]*(?:#.*)?\r?)$", re.MULTILINE)
        match = found.search(new, 0, end)
        if match:
            new = f"{new[: match.start()]}{match[1]}{line}{match[4]}{new[match.end() :]}"
        else:
            newline = "\r\n" if "\r\n" in new else "\n"
            above = new[:end]
            if above and not above.endswith("\n"):
                above += newline
            new = above + line + newline + new[end:]
    try:
        sound = tomllib.loads(new) == {**parse(text, file), **WANTED}
    except tomllib.TOMLDecodeError:
        sound = False
    if not sound:
        raise Failure(f"{file} is written in a way that cannot be changed safely.", BY_HAND)
    return new


def install(file: Path) -> None:
    """Change the file as a whole or not at all; tell what changed."""
    text = read(file)
    different = differences(text, file)
    if not different:
        return
    new = merged(text, file)
    there = file.exists()
    kept = file.with_name(f"{file.name}.before-{time.strftime('%Y%m%d-%H%M%S')}")
    temporary = file.with_name(file.name + ".new")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary.touch(mode=0o600)
        temporary.write_bytes(new.encode())
        if there:
            temporary.chmod(file.stat().st_mode & 0o7777)
            kept.write_bytes(text.encode())
            kept.chmod(file.stat().st_mode & 0o7777)
        temporary.replace(file)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise Failure(f"{file} cannot be written: {error.strerror}.", f"ls -ld '{file.parent}'") from error
    for key, old in different.items():
        before = "" if old is None else f" (it said {old!r})"
        print(f'{file}: {key} = "{WANTED[key]}"{before}', file=sys.stderr)
    if there:
        print(f"what it was is in {kept}", file=sys.stderr)


def main(argv: list[str]) -> int:
    """Exit 0, or 1 with a sentence."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check")
    commands.add_parser("install")
    commands.add_parser("candidate").add_argument("file", type=Path)
    arguments = parser.parse_args(argv)
    file = config_file()
    try:
        if arguments.command == "check":
            different = differences(read(file), file)
            said = ", ".join(f'{key} is not "{WANTED[key]}"' for key in different)
            print(f"in {file} {said}" if different else f'{file}, embedder = "ollama", store = "server"')
            return 1 if different else 0
        if arguments.command == "candidate":
            # A copy may hold a key to a server, as the file itself may.
            arguments.file.touch(mode=0o600)
            arguments.file.write_bytes(merged(read(file), file).encode())
            config = load_config(user_environment(), config_file=arguments.file)
            print(config.qdrant_url, config.ollama_url, config.ollama_model, sep="\n")
        else:
            install(file)
    except (Failure, BigosError) as failure:
        print(f"error: {str(failure).replace(str(getattr(arguments, 'file', file)), str(file))}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
