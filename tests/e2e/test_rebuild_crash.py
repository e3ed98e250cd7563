# SPDX-License-Identifier: GPL-2.0-only
"""Promise 4 for what replaces an index as a whole: killed at each step, the old one or the new one serves, complete."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from processes import PATIENCE, python_environment
from store_documents import memory_directory

WORKER = Path(__file__).parents[1] / "kill_points.py"


@pytest.mark.parametrize("action", ["rebuild", "restore"])
def test_killed_at_any_step_one_index_serves_whole_and_the_next_run_ends_it(action: str, tmp_path: Path) -> None:
    with memory_directory(tmp_path) as base:
        done = subprocess.run(
            [sys.executable, WORKER, action, base],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=python_environment(),
        )
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    states = [state for _, state, *_ in lines]
    assert set(states) == {"old", "new"}, done.stdout
    assert states.count("old") >= 5
    assert states.count("new") >= 2  # killed when it served already, and at the end
    assert states[-1] == "new"
    # Nothing is left of the one that was superseded, nor of what was killed.
    assert "shard" not in lines[-1]
    assert len([name for name in lines[-1] if name.startswith(("rebuilt-", "restored-"))]) == 1
