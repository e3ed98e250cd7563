#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Says whether the virtual environment that runs this is whole, from what is on disk; changes nothing.

    .venv/bin/python scripts/check_environment.py EXTRA[,EXTRA...]

Exit 0: everything that pyproject.toml asks for is installed. Exit 1: pip can mend it. Exit 3: an installation was
interrupted or the checkout was moved, and only a new environment helps. One line on stdout says what was found.
"""

from __future__ import annotations

import json
import re
import sys
import sysconfig
import tomllib
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

try:
    from packaging.requirements import Requirement
except ImportError:  # not installed yet; pip carries its own
    from pip._vendor.packaging.requirements import Requirement  # type: ignore[assignment]

ROOT = Path(__file__).resolve().parents[1]


class Stale(Exception):
    """Something is missing or too old."""


class Broken(Exception):
    """Something is there but not whole."""


def canonical(name: str) -> str:
    """A project's name as registries compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def installed() -> dict[str, Distribution]:
    """What is in this environment, by canonical name; Broken for a package that was not unpacked to its end."""
    found: dict[str, Distribution] = {}
    places = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    for distribution in distributions(path=sorted(places)):
        name = distribution.metadata["Name"] if distribution.metadata else None
        if not name or distribution.files is None:  # pip writes RECORD last
            raise Broken(f"a package in {places.pop()} was only partly installed")
        for file in distribution.files:
            path = Path(str(distribution.locate_file(file)))
            if path.suffix == ".pyc":
                continue
            if not path.exists() or (file.size is not None and path.stat().st_size != file.size):
                raise Broken(f"the package {name} was only partly installed, or changed ({file})")
        found[canonical(name)] = distribution
    return found


def check_dependencies(project: dict[str, Any], extras: list[str], found: dict[str, Distribution]) -> None:
    """Stale for the first requirement, direct or not, that is not met."""
    texts = list(project["dependencies"])
    for extra in extras:
        texts += project["optional-dependencies"][extra]
    waiting = [(text, "") for text in texts]
    seen: set[tuple[str, str]] = set()
    while waiting:
        text, extra = waiting.pop()
        requirement = Requirement(text)
        name = canonical(requirement.name)
        if (text, extra) in seen or (requirement.marker and not requirement.marker.evaluate({"extra": extra})):
            continue
        seen.add((text, extra))
        if name == canonical(project["name"]):
            waiting += [(more, "") for extra in requirement.extras for more in project["optional-dependencies"][extra]]
            continue
        if name not in found:
            raise Stale(f"the package {requirement.name} is not installed")
        if not requirement.specifier.contains(found[name].version, prereleases=True):
            raise Stale(f"{requirement.name} {found[name].version} is installed and {requirement.specifier} is needed")
        waiting += [(more, sub) for more in found[name].requires or [] for sub in ("", *requirement.extras)]


def check_bigos(project: dict[str, Any], found: dict[str, Distribution]) -> None:
    """Stale when Bigos itself is not installed from this checkout as pyproject.toml has it now."""
    distribution = found.get(canonical(project["name"]))
    if distribution is None:
        raise Stale("the package bigos is not installed")
    origin = json.loads(distribution.read_text("direct_url.json") or "{}").get("url", "")
    if origin != ROOT.as_uri():
        raise Broken("bigos was installed from another folder")
    if distribution.version != project["version"]:
        raise Stale(f"bigos is installed as {distribution.version} and pyproject.toml says {project['version']}")
    scripts = {entry.name: entry.value for entry in distribution.entry_points if entry.group == "console_scripts"}
    if scripts != project.get("scripts", {}):
        raise Stale("the commands in pyproject.toml have changed")
    try:
        import bigos
    except ImportError as error:
        raise Broken(f"bigos cannot be imported: {error}") from error
    if bigos.__version__ != project["version"]:
        raise Stale(f"import bigos gives {bigos.__version__} and pyproject.toml says {project['version']}")


def main(argv: list[str]) -> int:
    """Exit 0, 1 or 3 as above."""
    extras = [extra for extra in (argv[0] if argv else "").split(",") if extra]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    try:
        found = installed()
        check_bigos(project, found)
        check_dependencies(project, extras, found)
    except Stale as error:
        print(error)
        return 1
    except Broken as error:
        print(error)
        return 3
    print(f"bigos {project['version']}, {len(found)} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
