# SPDX-License-Identifier: GPL-2.0-only
"""Promise 4 with real commands: scripts/crash_harness.py, small. The script alone kills a hundred times."""

from __future__ import annotations

import json
import subprocess
import sys

from command_line import REPO
from processes import PATIENCE


def test_ingests_that_are_killed_at_random_lose_tear_and_double_nothing() -> None:
    script = REPO / "scripts" / "crash_harness.py"
    done = subprocess.run(
        [sys.executable, script, "--kills", "8", "--files", "8", "--json"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["errors"], told["differences"]) == (0, 0)
    assert told["kills"] == 8
    assert told["points_compared"] > 8
