# SPDX-License-Identifier: GPL-2.0-only
"""What every test may take for granted of the process that it runs in."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """Ctrl-C is heard: what a shell starts in the background ignores it, and hands that down to all it starts."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
