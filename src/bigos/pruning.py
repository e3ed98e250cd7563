# SPDX-License-Identifier: GPL-2.0-only
"""Which directories hold history, caches, downloads or built things, and nothing that anybody wrote.

Some names say it by themselves. Yocto's do not (`downloads`, `tmp` and `deploy` are words): there the directory has to
look like what BitBake makes, or lie in a BitBake build directory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice

_PRUNED = """
    .git .hg .svn .bzr CVS __pycache__ node_modules bower_components .venv venv .tox .nox .mypy_cache .pytest_cache
    .ruff_cache .hypothesis .eggs .ipynb_checkpoints .gradle .terraform .cargo .idea .vs dist build target
"""
PRUNED_DIRECTORIES = frozenset(_PRUNED.split())
"""Names that are never entered, except as a root, or where an ignore file takes them back (`!build/`)."""

HISTORY = frozenset((".git", ".hg", ".svn", ".bzr", "CVS"))
"""Those of them that no ignore file can take back: they hold no file that a reader would know."""

INBOX_MARKER = ".bigos-inbox"
"""A file that says "this folder is a drop folder, and it is really there": all that was in it may go (see gone.py)."""

_LOOKED_AT = 2000
"""Entries of a directory that are enough to tell what it is; an sstate-cache may have a million."""
_HEX = frozenset("0123456789abcdef")
_WORK = frozenset(("work", "work-shared", "stamps", "sysroots-components", "sstate-control", "buildstats", "pkgdata"))
_DEPLOYED = frozenset(("images", "rpm", "ipk", "deb", "licenses", "sdk", "spdx"))
_HISTORY_KINDS = frozenset(("images", "packages", "sdk", "task"))


def yocto_evidence(directory: str, name: str) -> str | None:
    """Why a directory with one of Yocto's names is build output of Yocto's; None when nothing shows that it is.

    Args:
        directory: its path.
        name: its last part.
    """
    looks = _LOOKS.get("tmp" if name.startswith("tmp-") else name)
    if looks is None:
        return None
    parent = directory[: -len(name)]
    if all(os.path.isfile(f"{parent}conf/{file}") for file in ("local.conf", "bblayers.conf")):  # noqa: PTH113
        return "Yocto build output: conf/bblayers.conf is beside it"
    return "Yocto build output by its content" if looks(directory) else None


def _names(directory: str) -> Iterator[str]:
    """Some of a directory's entries; none when it cannot be read, which the walk will tell."""
    try:
        with os.scandir(directory) as scan:
            yield from (entry.name for entry in islice(scan, _LOOKED_AT))
    except OSError:
        return


def _temporary(directory: str) -> bool:
    names = set(_names(directory))
    return (bool(names & {"abi_version", "saved_tmpdir"}) and bool(names & _WORK)) or len(names & _WORK) > 2


def _shared_state(directory: str) -> bool:
    """00 to ff, in each 00 to ff again or the objects themselves; the host's name may be a level above."""
    names = list(_names(directory))
    folders = [f"{directory}/{name}" for name in names if _is_hex(name)][:4]
    if not folders:
        hosts = [f"{directory}/{name}" for name in names[:4]]
        folders = [f"{host}/{name}" for host in hosts for name in islice(filter(_is_hex, _names(host)), 4)]
    below = (name for folder in folders for name in islice(_names(folder), 16))
    return any(name.startswith(("sstate:", "sstate-")) or _is_hex(name) for name in below)


def _is_hex(name: str) -> bool:
    return len(name) == 2 and _HEX.issuperset(name)


def _downloads(directory: str) -> bool:
    """BitBake leaves an empty NAME.done beside what it has fetched, and keeps bare clones in git2."""
    names = set(_names(directory))
    return "git2" in names or any(name.endswith(".done") and name[:-5] in names for name in names)


def _deployed(directory: str) -> bool:
    names = set(_names(directory))
    return "images" in names and len(names & _DEPLOYED) > 1


def _build_history(directory: str) -> bool:
    names = set(_names(directory))
    return "metadata-revs" in names or (".git" in names and len(names & _HISTORY_KINDS) > 1)


_LOOKS: dict[str, Callable[[str], bool]] = {
    "tmp": _temporary,
    "sstate-cache": _shared_state,
    "downloads": _downloads,
    "deploy": _deployed,
    "buildhistory": _build_history,
}
