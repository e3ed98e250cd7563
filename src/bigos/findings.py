# SPDX-License-Identifier: GPL-2.0-only
"""What a walk finds, and what it leaves out."""

from __future__ import annotations

import stat
from dataclasses import dataclass, field
from pathlib import Path

from bigos.types import SourceFile


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A path that was seen and not yielded; a directory stands for all that is in it.

    `reason` is one of: "denied", "Bigos's own", "pruned directory", "ignored", "excluded", "not included", "not
    recursive", "link outside root", "broken link", "special file", "unreadable directory", "unreadable", "unreadable
    ignore file", "vanished". `detail` says more: the pattern or rule, the link's target, the system's words.
    """

    path: Path
    reason: str
    detail: str = ""


Found = tuple[str, int, int, int, int]
"""A regular file as stat saw it: path, size, mtime_ns, inode, ctime_ns. No class, as a tree has very many."""

ReadFolders = dict[str, tuple[int, int]]
"""Folders whose names were all read, by path, with the device and inode that they were then."""


@dataclass(slots=True)
class Walked:
    """What a walk says of what is not there."""

    roots: list[str] = field(default_factory=list)
    """Canonical; folders and files."""
    seen: set[str] = field(default_factory=set)
    """Every file that it found."""
    read: ReadFolders = field(default_factory=dict)


def source_file(found: Found) -> SourceFile:
    """The same as a value of ours, for what is going to be read."""
    path, size, mtime_ns, inode, ctime_ns = found
    return SourceFile(Path(path), size, mtime_ns, inode, ctime_ns)


def special_kind(mode: int) -> str:
    """What a file is that is neither a regular one nor a folder nor a link."""
    names = {
        stat.S_IFIFO: "FIFO",
        stat.S_IFSOCK: "socket",
        stat.S_IFBLK: "block device",
        stat.S_IFCHR: "character device",
    }
    return names.get(stat.S_IFMT(mode), "not a file")
