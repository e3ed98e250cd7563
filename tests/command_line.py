# SPDX-License-Identifier: GPL-2.0-only
"""Commands as a user runs them, in a home that is thrown away, with the models of this checkout."""

from __future__ import annotations

import importlib
import io
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bigos.timestamps import STEP_NS
from processes import PATIENCE

REPO = Path(__file__).resolve().parents[1]
MODELS = Path(os.environ.get("BIGOS_MODELS_DIR", REPO / "models"))  # noqa: TID251 - the test's own


@dataclass
class Ran:
    """How a command ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """stdout as the one JSON document that it has to be."""
        assert self.stdout.count("\n") == 1, self.stdout
        return json.loads(self.stdout)


@dataclass
class Home:
    """A user's home with nothing in it, and commands that run there."""

    path: Path
    models: Path = MODELS
    env: dict[str, str] = field(default_factory=dict)

    def environment(self, **more: str) -> dict[str, str]:
        """Nothing of ours but the PATH: a test must not depend on who runs it."""
        path = os.environ["PATH"]  # noqa: TID251 - the test's own
        base = {"PATH": path, "HOME": str(self.path), "LANG": "C.UTF-8", "BIGOS_THREADS": "2"}
        # The sources beside these tests, whatever checkout the interpreter has installed.
        here = {"PYTHONPATH": str(REPO / "src"), "BIGOS_MODELS_DIR": str(self.models)}
        return base | here | self.env | more

    def start(self, *args: str | Path, module: str = "bigos.cli", **env: str) -> subprocess.Popen[str]:
        """Begin a command and go on. It leads a process group of its own, which Ctrl-C can be sent to."""
        command = [sys.executable, "-m", module, *map(str, args)]
        return subprocess.Popen(
            command,
            env=self.environment(**env),
            cwd=self.path,
            start_new_session=True,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def bigos(self, *args: str | Path, module: str = "bigos.cli", stdin: str | None = None, **env: str) -> Ran:
        """Run a command to its end in this process, which has loaded the model already: all of it but its start."""
        out, err = _stream(), _stream()
        main: Callable[..., int] = importlib.import_module(module).main
        with _as_if_alone(self.environment(**env), self.path, stdin or ""):
            code = main([str(word) for word in args], out, err)
        return _looked_at(Ran(code, _written(out), _written(err)))

    def process(self, *args: str | Path, module: str = "bigos.cli", stdin: str | None = None, **env: str) -> Ran:
        """The same in a process of its own: for what is the process's, its streams, its locale, its umask."""
        done = subprocess.run(
            [sys.executable, "-m", module, *map(str, args)],
            env=self.environment(**env),
            cwd=self.path,
            input=(stdin or "").encode(),
            capture_output=True,
            timeout=PATIENCE,
        )
        return _looked_at(Ran(done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8")))

    def ingest(self, *args: str | Path, **env: str) -> Ran:
        """`python -m bigos.ingest`, after the step of the clock in which the test has written its files.

        What is read within it is read once more by the next run, see `timestamps`.
        """
        time.sleep(2 * STEP_NS / 1e9)
        return self.bigos(*args, module="bigos.ingest", **env)

    def everything(self) -> list[str]:
        """Every file in the home, relative."""
        return sorted(str(path.relative_to(self.path)) for path in self.path.rglob("*"))


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


def _written(stream: io.TextIOWrapper) -> str:
    binary = stream.buffer
    assert isinstance(binary, io.BytesIO)
    return binary.getvalue().decode("utf-8")


def _looked_at(ran: Ran) -> Ran:
    """Whatever a command was asked for, it must not have shown a traceback."""
    assert "Traceback" not in ran.stderr, ran.stderr
    assert "error: a bug in Bigos" not in ran.stderr, ran.stderr
    return ran


@contextmanager
def _as_if_alone(environment: dict[str, str], folder: Path, stdin: str) -> Iterator[None]:
    """Everything that a process has of its own and a command looks at or changes; then as it was."""
    variables = os.environ  # noqa: TID251 - the test's own
    before, here, keyboard, temporary = dict(variables), Path.cwd(), sys.stdin, tempfile.tempdir
    logger = logging.getLogger("bigos")
    logs = logger.handlers[:], logger.propagate, logger.level, logging.raiseExceptions
    variables.clear()
    variables.update(environment)
    os.chdir(folder)
    tempfile.tempdir = None  # TMPDIR is looked at anew
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    try:
        yield
    finally:
        logger.handlers[:], logger.propagate, level, logging.raiseExceptions = logs
        logger.setLevel(level)
        sys.stdin, tempfile.tempdir = keyboard, temporary
        os.chdir(here)
        variables.clear()
        variables.update(before)
