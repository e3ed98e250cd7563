# SPDX-License-Identifier: GPL-2.0-only
"""Which part of the disk may be read for the index: the setting allowed_roots, or the home and the current project."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from bigos.config import Config, user_home
from bigos.errors import UsageError
from bigos.paths import canonical
from bigos.types import path_text


def allowed_roots(config: Config) -> tuple[Path, ...]:
    """The folders, without links. Unset, they are the home directory and the project that this process runs in.

    The root of the disk is never one of those two: a service that is started there, or a container without a home,
    would be allowed everything.
    """
    if config.allowed_roots is not None:
        return tuple(canonical(root) for root in config.allowed_roots)
    return tuple(dict.fromkeys(root for root in (canonical(user_home()), _project()) if root != Path("/")))


def _project() -> Path:
    """The repository that the current folder lies in, else that folder; the root of the disk when there is none."""
    try:
        here = Path(os.path.realpath(os.getcwd()))  # noqa: PTH109 - Path.cwd() is the same, and realpath wants text
    except OSError:  # it was deleted
        return Path("/")
    return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)


def outside(paths: Iterable[Path], config: Config) -> tuple[Path, ...]:
    """Those of the paths that lie in none of the allowed folders, without links. Raises UsageError as `canonical`."""
    roots = allowed_roots(config)
    return tuple(
        path for path in map(canonical, paths) if not any(path == root or root in path.parents for root in roots)
    )


def refusal(paths: tuple[Path, ...], config: Config, fix: str) -> UsageError:
    """What to raise for paths that are outside."""
    names = ", ".join(path_text(path) for path in paths)
    inside = ", ".join(path_text(root) for root in allowed_roots(config)) or "no folder at all"
    return UsageError(f"{names} is outside of what allowed_roots lets in ({inside}).", fix=fix)
