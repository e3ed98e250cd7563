# SPDX-License-Identifier: GPL-2.0-only
"""Foreign programs that convert a file (Calibre, LibreOffice): a folder of their own, a time limit, nothing left."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bigos.errors import DocumentError
from bigos.scratch import temporary_folder

CONVERT_SECONDS = 100.0
"""Less than `parse_timeout`, so that the program ends with its reason and before its worker."""
_CPU_PER_SECOND = 4  # of processor time, in all threads, for each second that a program may take
_LAST_BYTES = 2000  # of what a program printed


@contextlib.contextmanager
def scratch_folder(scratch: Path | None) -> Iterator[Path]:
    """A new folder below `scratch` (None: the system's), removed at the end.

    Raises:
        DocumentError: "no scratch space" when it cannot be made, or the disk is full while it is used.
    """
    place = scratch or Path(tempfile.gettempdir())
    try:
        with temporary_folder(scratch) as folder:
            yield folder
    except OSError as error:
        raise DocumentError(
            "no scratch space", f"temporary files cannot be written to {place}: {error.strerror}", fix=f"df -h {place}"
        ) from error


def run_converter(
    command: Sequence[str], folder: Path, variables: Mapping[str, str], *, name: str, seconds: float = CONVERT_SECONDS
) -> str:
    """Run a program in `folder`, which is also its home and its place for temporary files.

    Args:
        command: the program, found on PATH, and its arguments.
        folder: from `scratch_folder`.
        variables: environment variables on top of the inherited ones.
        name: what it is called in a message.
        seconds: until it is killed with all that it started.

    Returns:
        The last line that it printed, for a message.

    Raises:
        DocumentError: "timed out" or "damaged" (it could not be started, or failed), in the program's last words.
    """
    own = {"HOME": str(folder), "TMPDIR": str(folder), "XDG_CONFIG_HOME": str(folder), **variables}
    settings = [f"{name}={value}" for name, value in own.items()]
    # A file and not a pipe: a child that goes on would keep a pipe open, and us waiting for its end.
    with tempfile.TemporaryFile(dir=folder) as printed:
        try:
            program = subprocess.Popen(
                ["env", *settings, *command],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise DocumentError("damaged", f"{name} cannot be started: {error.strerror}") from error
        # For the case that nobody is left to end it: we may be killed ourselves.
        most = int(_CPU_PER_SECOND * seconds) + 1
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(program.pid, resource.RLIMIT_CPU, (most, most))
        try:
            program.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise DocumentError("timed out", f"{name} did not finish within {seconds:.0f} seconds") from error
        finally:
            # Also what it left running: LibreOffice's launcher may be gone before its child.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(program.pid, signal.SIGKILL)
            program.wait()
        printed.seek(max(printed.seek(0, os.SEEK_END) - _LAST_BYTES, 0))
        lines = [" ".join(line.split()) for line in printed.read().decode("utf-8", "replace").splitlines()]
        words = next((line for line in reversed(lines) if line), "")[-200:]
    if program.returncode != 0:
        raise DocumentError("damaged", f"{name} failed: {words or f'exit code {program.returncode}'}")
    return words
