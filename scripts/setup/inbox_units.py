#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The drop folder and its systemd user units, made of the templates in systemd/.

    inbox_units.py plan [--timer | --watch] [--no-namespaces] [--] FOLDER      write nothing; exit 1 when install would
    inbox_units.py install [--timer | --watch] [--no-namespaces] [--] FOLDER   make folder, marker and units
    inbox_units.py probe [--] FOLDER    print a unit that starts only where users may make namespaces

The first two print a line of units to enable, a line of units to drop, and a sentence. Each failure is one sentence
and its cure, exit 2.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bigos import file_system
from bigos.config import Config, load_config, user_environment
from bigos.errors import BigosError, UsageError
from bigos.files import canonical
from bigos.inbox import MARKER
from bigos.render import one_line
from bigos.types import path_text

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / "systemd"
SERVICE, PATH, TIMER, WATCH = "bigos-ingest.service", "bigos-ingest.path", "bigos-ingest.timer", "bigos-watch.service"
CATCH_UP, POLL = "10min", "1min"
"""How often the timer looks: beside the path unit, and alone."""
XDG = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")
MARKER_TEXT = """\
This file tells Bigos that the folder is really there and no bare mount point: what is taken out of it is forgotten.
Without the file nothing is.
"""
LOOPBACK = re.compile(r"localhost|127(\.\d+){3}|::1")


# --- how systemd wants it written ------------------------------------------------------------------------------------


def word(text: str) -> str:
    """One argument of ExecStart= or Environment=: quoted, C escapes for what is no plain letter, %% for %."""
    escaped = []
    for character in text:
        if character in '"\\':
            escaped.append("\\" + character)
        elif character == "%":
            escaped.append("%%")
        elif character.isprintable():
            escaped.append(character)
        else:  # a control character, or a byte that is not UTF-8
            escaped += [f"\\x{byte:02x}" for byte in os.fsencode(character)]
    return '"' + "".join(escaped) + '"'


def plain_path(path: Path) -> str | None:
    """A path as PathChanged= takes it, which knows no quotes and no escapes; None when it cannot be written."""
    text = os.fspath(path)
    if not text.isprintable() or text != text.strip() or text.endswith("\\"):
        return None
    return text.replace("%", "%%")


def listed_path(path: Path) -> str:
    """One of ReadWritePaths=, which knows quotes, but no escapes for control characters. Raises UsageError."""
    text = os.fspath(path)
    if not text.isprintable():
        raise UsageError(f"systemd cannot be told of {one_line(path_text(path))}.", fix="give that folder another name")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%") + '"'


# --- what is wanted --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wanted:
    """Units by name and what is to be said about them."""

    units: Mapping[str, str]
    enabled: tuple[str, ...]
    sentence: str


def wanted(folder: Path, config: Config, env: Mapping[str, str], options: argparse.Namespace) -> Wanted:
    """The units for this folder, configuration and machine."""
    shown = one_line(path_text(folder))
    silent = file_system.tells_nothing(folder if folder.exists() else folder.parent)
    watched = plain_path(folder)
    values = {
        "PYTHON": word(str(ROOT / ".venv" / "bin" / "python")),
        "FOLDER": word(os.fspath(folder)),
        "WATCHED": watched or "",
        "WRITABLE": " ".join(listed_path(path) for path in (config.data_dir, config.cache_dir, config.state_dir)),
        "ENVIRONMENT": "\n".join(f"Environment={word(f'{name}={env[name]}')}" for name in XDG if env.get(name)),
    }
    places = [folder, ROOT, config.data_dir, config.cache_dir, config.state_dir, config.models_dir]
    in_temporary = any(str(place.resolve()).startswith(("/tmp/", "/var/tmp/")) for place in places)
    network = _network(config)
    holds = {
        "the model and the store are in the process": network == "none",
        "they are services on this machine": network == "loopback",
        "they are services elsewhere": network == "any",
        "users may make namespaces": not options.no_namespaces,
        "nothing needed is in /tmp": not options.no_namespaces and not in_temporary,
    }

    def unit(name: str, **more: str) -> str:
        return _filled((TEMPLATES / name).read_text(encoding="utf-8"), values | more, holds)

    if options.watch:
        return Wanted({WATCH: unit(WATCH)}, (WATCH,), f"{WATCH} watches {shown} and the folders in it.")
    units = {SERVICE: unit(SERVICE)}
    reason = None
    if options.timer:
        reason = "as asked for"
    elif silent:
        reason = f"it is on {silent}, where changes may go unnoticed"
    elif watched is None:
        reason = "a path unit cannot be told its name"
    if reason:
        units[TIMER] = unit(TIMER, EVERY=POLL)
        return Wanted(units, (TIMER,), f"{TIMER} looks into {shown} once a minute: {reason}.")
    units |= {PATH: unit(PATH), TIMER: unit(TIMER, EVERY=CATCH_UP)}
    return Wanted(units, (PATH, TIMER), f"{PATH} watches {shown}; {TIMER} looks there after login, too.")


def _network(config: Config) -> str:
    urls = []
    if config.store == "server":
        urls.append(config.qdrant_url)
    if config.embedder != "onnx":
        urls.append(config.ollama_url if config.embedder == "ollama" else config.openai_url)
    if not urls:
        return "none"
    return "loopback" if all(LOOPBACK.fullmatch(urlsplit(url).hostname or "") for url in urls) else "any"


def _filled(template: str, values: Mapping[str, str], holds: Mapping[str, bool]) -> str:
    """The template with its values, without the blocks whose condition does not hold."""
    lines: list[str] = []
    keep = True
    for line in template.splitlines():
        if line == "# end":
            keep = True
        elif line.startswith("# if "):
            keep = holds[line.removeprefix("# if ")]
        elif keep:
            filled = re.sub("@([A-Z]+)@", lambda name: values[name[1]], line)
            lines += [filled] if filled or not line else []
    return "\n".join(lines) + "\n"


def probe(service: str) -> str:
    """A unit that does nothing, in the service's namespaces."""
    names = ("PrivateUsers=", "Protect", "PrivateTmp=")
    lines = [line for line in service.splitlines() if line.startswith(names)]
    return "\n".join(["[Service]", "Type=oneshot", "ExecStart=/usr/bin/env true", *lines]) + "\n"


# --- the folder ------------------------------------------------------------------------------------------------------


def check_folder(folder: Path, config: Config) -> None:
    """Raises UsageError for a folder that cannot be a drop folder."""
    shown = one_line(path_text(folder))
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{shown} is not a folder.", fix="name another one with --inbox")
    if not folder.parent.is_dir():
        raise UsageError(f"{one_line(path_text(folder.parent))} is not there.", fix=f"make it, or mount it: {shown}")
    for own in (config.data_dir, config.cache_dir, config.state_dir, ROOT):
        place = own.resolve()
        # What Bigos writes there would be a change of the folder, which starts Bigos, which writes.
        if folder in (place, *place.parents) or place in folder.parents:
            raise UsageError(
                f"{shown} cannot be the drop folder: Bigos has {one_line(path_text(place))} for itself.",
                fix="name a folder of its own with --inbox",
            )
    for mount in map(Path, file_system.unmounted()):
        if mount == folder or mount in folder.parents:
            raise UsageError(f"{path_text(mount)} is not mounted.", fix=f"mount {path_text(mount)}")


# --- the commands ----------------------------------------------------------------------------------------------------


def units_folder(env: Mapping[str, str]) -> Path:
    """Where the user's own units are."""
    base = Path(env.get("XDG_CONFIG_HOME") or "")
    return (base if base.is_absolute() else Path(env["HOME"]) / ".config") / "systemd" / "user"


def stale(folder: Path, units: Path, want: Wanted) -> list[str]:
    """Files that are not as they should be, and units of ours that should not be."""
    found = [name for name, text in want.units.items() if _text(units / name) != text]
    found += [name for name in (SERVICE, PATH, TIMER, WATCH) if name not in want.units and (units / name).exists()]
    return found if (folder / MARKER).is_file() else [*found, MARKER]


def _text(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except (FileNotFoundError, UnicodeDecodeError):
        return None


def install(folder: Path, units: Path, want: Wanted, config: Config) -> None:
    """Make folder and marker, the folders that the service writes to, and the units."""
    folder.mkdir(mode=0o700, exist_ok=True)
    marker = folder / MARKER
    if not marker.exists():
        marker.write_text(MARKER_TEXT, encoding="utf-8")
    for place in (config.data_dir, config.cache_dir, config.state_dir):
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    units.mkdir(parents=True, exist_ok=True)
    for name, text in want.units.items():
        if _text(units / name) != text:
            new = units / f".{name}.new"
            new.write_text(text, encoding="utf-8")
            new.replace(units / name)


def main() -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("plan", "install", "probe"))
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--timer", action="store_true")
    how.add_argument("--watch", action="store_true")
    parser.add_argument("--no-namespaces", action="store_true")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    return _told(lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    env = user_environment()
    # Services do not see the variables of this shell, so neither does what is written for them.
    config = load_config({name: value for name, value in env.items() if not name.startswith("BIGOS_")})
    folder = canonical(options.folder)
    check_folder(folder, config)
    want = wanted(folder, config, env, options)
    if options.command == "probe":
        print(probe(want.units[SERVICE]), end="")
        return 0
    units = units_folder(env)
    changes = stale(folder, units, want)
    disabled = [name for name in (PATH, TIMER, WATCH, SERVICE) if name not in want.units and (units / name).exists()]
    if options.command == "install":
        install(folder, units, want, config)
    print(" ".join(want.enabled))
    print(" ".join(disabled))
    key = f" Services do not see {config.openai_api_key_env}: environment.d." if config.openai_api_key_env else ""
    print(want.sentence + key)
    return 1 if changes and options.command == "plan" else 0


def _told(act: Callable[[], int]) -> int:
    try:
        return act()
    except BigosError as error:
        print(f"error: {error}", file=sys.stderr)
    except OSError as error:
        name = one_line(path_text(Path(error.filename or "")))
        print(f"error: {name}: {error.strerror}.\nhint: ls -la {name}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
