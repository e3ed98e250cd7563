# SPDX-License-Identifier: GPL-2.0-only
"""Which file system a path is on, by the kernel's table."""

from __future__ import annotations

from pathlib import Path

import pytest

from bigos import file_system

TABLE = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:5 / /mnt rw - autofs systemd-1 rw
31 30 0:50 / /mnt/my\040disk rw,relatime shared:7 master:3 - cifs //nas/share rw
32 22 0:51 / /mnt/my\040disk/stick rw - exfat /dev/sdb1 rw
33 22 0:52 / /media rw - ext4 /dev/sdc1 rw
34 33 0:53 / /media rw - fuse.sshfs anna@host: rw
a line that is none
"""


@pytest.mark.parametrize(
    ("path", "kind", "told"),
    [
        ("/home/anna/bigos-inbox", "ext4", True),
        ("/mnt/my disk/in", "cifs", False),
        ("/mnt/my disk", "cifs", False),
        ("/mnt/my disk 2", "autofs", True),
        ("/mnt/my disk/stick/a/b", "exfat", False),
        ("/media/x", "fuse.sshfs", False),
    ],
)
def test_the_deepest_and_uppermost_mount_counts(
    path: str, kind: str, told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(TABLE, encoding="utf-8")
    monkeypatch.setattr(file_system, "MOUNTS", table)
    assert file_system.kind(Path(path)) == kind
    assert file_system.tells_nothing(Path(path)) == (None if told else kind)


def test_where_nothing_tells_an_ordinary_disk_is_assumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_system, "MOUNTS", tmp_path / "none")
    assert file_system.kind(tmp_path) is None
    assert file_system.tells_nothing(tmp_path) is None
