# SPDX-License-Identifier: GPL-2.0-only
"""Commands as a user runs them: own processes, a home that is thrown away, the models of this checkout."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bigos import cli

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
        """Run a command to its end. Whatever it was, it must not have shown a traceback."""
        done = subprocess.run(
            [sys.executable, "-m", module, *map(str, args)],
            env=self.environment(**env),
            cwd=self.path,
            input=(stdin or "").encode(),
            capture_output=True,
            timeout=180,
        )
        ran = Ran(done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8"))
        assert "Traceback" not in ran.stderr, ran.stderr
        return ran

    def ingest(self, *args: str | Path, **env: str) -> Ran:
        """`python -m bigos.ingest`."""
        return self.bigos(*args, module="bigos.ingest", **env)

    def everything(self) -> list[str]:
        """Every file in the home, relative."""
        return sorted(str(path.relative_to(self.path)) for path in self.path.rglob("*"))


class HomeHere(Home):
    """A home whose commands run in this process."""

    def bigos(self, *args: str | Path, **env: str) -> Ran:  # type: ignore[override]
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch:
            for name in list(os.environ):  # noqa: TID251 - the test's own
                if name.startswith(("BIGOS_", "XDG_")):
                    patch.delenv(name)
            for name, value in self.environment(**env).items():
                patch.setenv(name, value)
            code = cli.main([str(word) for word in args], out, err)
        assert "a bug in Bigos" not in err.getvalue(), err.getvalue()
        return Ran(code, out.getvalue(), err.getvalue())
