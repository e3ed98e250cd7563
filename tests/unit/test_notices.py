# SPDX-License-Identifier: GPL-2.0-only
"""What the file system tells, and where it is known to tell nothing."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bigos.notices import Notices, Told, _no_notices
from bigos.settling import look
from processes import PATIENCE, python_environment


def told(notices: Notices, until: Callable[[Told], bool]) -> Told:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = notices.wait()
        if until(found):
            return found
    raise AssertionError("nothing was told")


def test_changes_are_told_by_root_and_noise_is_not(tmp_path: Path) -> None:
    roots = [tmp_path / "a", tmp_path / "b"]
    for root in roots:
        (root / "node_modules").mkdir(parents=True)
    warned: list[str] = []
    with Notices([*roots, tmp_path / "away"], stop=lambda: False, warn=warned.append) as notices:
        assert notices.covered == set(roots)
        assert notices.wait() == Told(frozenset(roots))  # nobody knows what happened before
        (roots[0] / "film.part").write_text("x")
        (roots[0] / "node_modules" / "x.js").write_text("x")
        (roots[1] / "note.txt").write_text("x")
        assert told(notices, lambda found: bool(found.changed)) == Told(frozenset(roots[1:]))
        (roots[0] / "film.part").rename(roots[0] / "film.txt")
        assert told(notices, lambda found: bool(found.changed)).changed == {roots[0]}
        (roots[0] / "film.txt").unlink()
        assert told(notices, lambda found: bool(found.deleted)) == Told(frozenset(roots[:1]), frozenset(roots[:1]))
    assert warned == []


def test_a_name_that_is_not_utf_8_does_not_silence_it(tmp_path: Path) -> None:
    with Notices([tmp_path], stop=lambda: False, warn=pytest.fail) as notices:
        notices.wait()
        Path(os.fsdecode(bytes(tmp_path) + b"/b\xff")).write_text("x")
        told(notices, lambda found: found == Told(frozenset([tmp_path]), frozenset([tmp_path])))
        (tmp_path / "later.txt").write_text("x")
        told(notices, lambda found: found == Told(frozenset([tmp_path])))


def test_a_root_that_is_deleted_and_made_again_is_watched_again(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    with Notices([root], stop=lambda: False, warn=pytest.fail) as notices:
        notices.wait()
        shutil.rmtree(root)
        root.mkdir()
        told(notices, lambda found: bool(found.deleted))
        told(notices, lambda found: bool(found.changed))
        (root / "note.txt").write_text("x")
        told(notices, lambda found: bool(found.changed))


@pytest.mark.parametrize(
    ("error", "command"),
    [
        (OSError("OS file watch limit reached. about [...]"), "sudo sysctl fs.inotify.max_user_watches="),
        (RuntimeError("Too many open files (os error 24)"), "sudo sysctl fs.inotify.max_user_instances="),
    ],
)
def test_a_limit_is_told_with_the_command_that_raises_it(error: Exception, command: str) -> None:
    sentence, _, hint = _no_notices(error).partition("\nhint: ")
    assert "looked at every few seconds instead" in sentence
    assert hint.startswith(command)


def test_a_limit_that_is_reached_is_told_once_and_nothing_is_covered(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / str(number)).mkdir()
    script = (
        "import sys; from pathlib import Path; from bigos.notices import Notices\n"
        "with Notices([Path(sys.argv[1])], stop=lambda: False, warn=print) as notices:\n"
        "    notices.wait(), notices.wait()\n"
        "    print(sorted(notices.covered))\n"
    )
    limited = 'echo 5 > /proc/sys/user/max_inotify_watches && exec "$@"'
    assert_limit_told(script, limited, tmp_path)


def test_a_limit_that_folders_reach_later_is_told_too(tmp_path: Path) -> None:
    """The watcher leaves them out and says nothing."""
    script = (
        "import sys; from pathlib import Path; from bigos.notices import Notices; from bigos.settling import look\n"
        "root, entered = Path(sys.argv[1]), set()\n"
        "with Notices([root], stop=lambda: False, warn=print) as notices:\n"
        "    notices.wait()\n"
        "    assert notices.covered == {root}\n"
        "    for number in range(20): (root / str(number)).mkdir()\n"
        "    look(root, entered)\n"
        "    for _ in range(100):\n"
        "        notices.wait()\n"
        "        if notices.hears_all_of(root, entered): break\n"
        "    print(sorted(notices.covered))\n"
    )
    limited = 'echo 5 > /proc/sys/user/max_inotify_watches && exec "$@"'
    assert_limit_told(script, limited, tmp_path)


def assert_limit_told(script: str, limited: str, folder: Path) -> None:
    shown = in_namespaces("-U", limited, script, folder)
    assert shown.count("there are more folders than the system may watch") == 1
    assert shown.endswith("\n[]\n")


def in_namespaces(kinds: str, before: str, script: str, folder: Path) -> str:
    """What a Python script prints that runs, as root of namespaces of its own, on a folder after shell commands."""
    inside = ["unshare", "-r", kinds, "sh", "-c", before, "sh"]
    if shutil.which("unshare") is None or subprocess.run([*inside, "true", str(folder)]).returncode:
        pytest.skip("no user namespaces here")
    command = [*inside, sys.executable, "-c", script, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=python_environment(), timeout=PATIENCE)
    assert done.stderr == ""
    return done.stdout


def test_a_disk_that_is_mounted_below_is_heard(tmp_path: Path) -> None:
    """It has another inode than the folder that it is mounted on."""
    (tmp_path / "disk").mkdir()
    script = (
        "import sys; from pathlib import Path; from bigos.notices import Notices; from bigos.settling import look\n"
        "root, entered = Path(sys.argv[1]), set()\n"
        "(root / 'disk' / 'sub').mkdir()\n"
        "look(root, entered)\n"
        "with Notices([root], stop=lambda: False, warn=print) as notices:\n"
        "    notices.wait()\n"
        "    print(len(entered), notices.hears_all_of(root, entered), notices.covered == {root})\n"
    )
    mounted = f'mount -t tmpfs tmpfs {shlex.quote(str(tmp_path / "disk"))} && exec "$@"'
    assert in_namespaces("-Um", mounted, script, tmp_path) == "2 True True\n"


def test_folders_that_are_watched_are_heard_however_many_and_new_they_are(tmp_path: Path) -> None:
    with Notices([tmp_path], stop=lambda: False, warn=pytest.fail) as notices:
        notices.wait()
        (tmp_path / "a" / "b").mkdir(parents=True)
        entered: set[int] = set()
        look(tmp_path, entered)
        assert len(entered) == 2
        told(notices, lambda _: notices.hears_all_of(tmp_path, entered))
        assert not notices.hears_all_of(tmp_path, {*entered, 1 << 62})
        assert notices.hears_all_of(tmp_path / "elsewhere", {1 << 62})
