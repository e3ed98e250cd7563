# SPDX-License-Identifier: GPL-2.0-only
"""What a path that a user gives names: `~` put in, absolute, without links."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from bigos.errors import UsageError
from bigos.types import path_text


def given(text: str) -> Path:
    """A path as a user or a client wrote it. Raises UsageError for an empty one.

    That is what an unset variable gives; as a Path it would be the current folder.
    """
    if not text:
        raise UsageError("a path is empty.", fix="name the file or folder; the current folder is .")
    return Path(text)


def expanded(path: Path) -> Path:
    """`~` and `~name` put in. A name that the system does not know stays as it stands, as a shell leaves it."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - Path.expanduser raises for an unknown name


def canonical(path: Path) -> Path:
    """What a user's path names: absolute, without links as far as they lead somewhere, whether or not it exists.

    Not Path.resolve(), which raises RuntimeError for a loop of links. Raises UsageError when it cannot name anything.
    """
    try:
        return Path(os.path.realpath(expanded(path)))
    except ValueError as error:
        raise UsageError("a path cannot hold a NUL character.", fix="give the path without it") from error
    except OSError as error:  # from os.getcwd: realpath itself takes what cannot be reached as it stands
        raise UsageError(
            f"the current folder has been deleted, so {path_text(path)} names nothing.", fix="cd to another folder"
        ) from error


def named(path: Path) -> list[Path]:
    """Every place that a user's path may mean: where it leads, and the name itself, which may have become a link."""
    canon = canonical(path)  # raises for what names nothing
    plain = Path(os.path.abspath(expanded(path)))  # noqa: PTH100 - `..` as a reader takes it, and no link followed
    return list(dict.fromkeys((canon, canonical(plain.parent) / plain.name, plain)))


def resolved_root(root: Path) -> str:
    """The canonical path of a file or folder that has to be there. Raises UsageError when it is not."""
    absolute = canonical(root)
    try:
        return os.path.realpath(root, strict=True)
    except OSError as error:
        shown = path_text(Path(root))
        look = f"ls -la {shlex.quote(path_text(absolute.parent))}"
        if isinstance(error, FileNotFoundError):
            raise UsageError(f"{shown} does not exist.", fix=look) from error
        raise UsageError(f"{shown} cannot be reached: {error.strerror}.", fix=look) from error
