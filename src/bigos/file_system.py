# SPDX-License-Identifier: GPL-2.0-only
"""On which file system a path is, and whether the kernel hears of every change there.

inotify tells of what this machine's own kernel does. What another machine writes to a shared folder, or a program
behind FUSE, it does not; there only looking helps.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
FSTAB = Path("/etc/fstab")
_SHARED = frozenset((
    "9p", "afs", "ceph", "cifs", "coda", "davfs", "davfs2", "drvfs", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4",
    "prl_fs", "smb2", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs",
))  # fmt: skip
_REMOVABLE = frozenset(("exfat", "fuseblk", "msdos", "ntfs", "ntfs3", "vfat"))
"""Of sticks and cards, which are pulled out and were written to elsewhere when they come back."""


def kind(path: Path) -> str | None:
    """The type of the file system, as mount names it (`ext4`, `nfs4`, `fuse.sshfs`); None where nothing tells."""
    place = os.path.realpath(path)
    found: tuple[int, str] | None = None
    for mounted, name in mounts():
        below = place == mounted or place.startswith(mounted.rstrip("/") + "/")
        # Of two at one place the later one lies on top.
        if below and (found is None or len(mounted) >= found[0]):
            found = len(mounted), name
    return found[1] if found else None


def mounts() -> list[tuple[str, str]]:
    """Where something is mounted, and the type of its file system, in the order of mounting; [] where nothing tells."""
    try:
        lines = MOUNTS.read_bytes().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        before, _, after = line.partition(b" - ")
        fields = before.split(b" ")
        if len(fields) > 4 and after:
            found.append((os.fsdecode(_plain(fields[4])), after.split(b" ")[0].decode("ascii", "replace")))
    return found


def tells_nothing(path: Path) -> str | None:
    """The type of a file system where inotify cannot be relied on; None for an ordinary disk, or an unknown one."""
    name = kind(path) or ""
    return name if name in _SHARED | _REMOVABLE or name.startswith("fuse.") else None


def unmounted() -> list[str]:
    """Where /etc/fstab has a disk whose place is there and which is not mounted on it now; canonical paths."""
    try:
        wanted = [line.split() for line in FSTAB.read_bytes().splitlines()]
        mounted = {_plain(line.split(b" ")[4]) for line in MOUNTS.read_bytes().splitlines()}
    except (OSError, IndexError):
        return []
    places = [_plain(fields[1]) for fields in wanted if len(fields) > 2 and not fields[0].startswith(b"#")]
    found = [os.path.realpath(place) for place in places if place.startswith(b"/")]
    return [os.fsdecode(place) for place in found if place not in mounted]


def _plain(place: bytes) -> bytes:
    """A path as mountinfo and fstab write it: blanks and the like are \\NNN there."""
    return re.sub(rb"\\([0-7]{3})", lambda octal: bytes([int(octal[1], 8)]), place)
