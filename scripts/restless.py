# SPDX-License-Identifier: GPL-2.0-only
"""What crash_harness.py and many_processes.py stand on: a home, an embedding service, and files that keep changing.

The embedding service is the tests' stand-in: words hashed into vectors, the same for the same text whatever else is
embedded with it, so that two indexes can be compared number by number, and quick, so that thousands of chunks go by.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

REPO = Path(__file__).resolve().parents[1]
DOUBLES = REPO / "tests" / "doubles"
_ENGLISH = "clock divider bus transfer watchdog reset board kernel recipe layer device tree serial parent rate driver"
_POLISH = "zegar dzielnik magistrala przerwanie rejestr plik sterownik jądro płytka żółw gęś źródło ćma świat łąka kot"
WORDS = f"{_ENGLISH} {_POLISH}".split()
SUFFIXES = (".txt", ".md", ".rst")


@contextmanager
def service(script: str, *arguments: str) -> Iterator[str]:
    """Run one of the tests' stand-ins; its address."""
    process = subprocess.Popen(
        [sys.executable, DOUBLES / script, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@contextmanager
def homes(store: Literal["embedded", "server"], count: int) -> Iterator[list[dict[str, str]]]:
    """So many homes with nothing in them, as environments of the commands. They go in the end."""
    with ExitStack() as stack:
        memory = Path("/dev/shm")
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)))
        model = stack.enter_context(service("embedding_server.py", "--dimension", "96"))
        server = stack.enter_context(service("qdrant_server.py")) if store == "server" else ""
        found = []
        for number in range(count):
            home = base / f"home-{number}"
            home.mkdir()
            found.append(
                {
                    "HOME": str(home),
                    "PATH": os.defpath,
                    "LANG": "C.UTF-8",
                    "PYTHONPATH": os.pathsep.join(sys.path),
                    "BIGOS_MODELS_DIR": str(REPO / "models"),
                    "BIGOS_EMBEDDER": "openai",
                    "BIGOS_OPENAI_URL": f"{model}/v1",
                    "BIGOS_OPENAI_MODEL": "bge-m3",
                    "BIGOS_CHUNK_TOKENS": "64",
                    "BIGOS_STORE": store,
                    "BIGOS_ALLOWED_ROOTS": str(base),
                    "BIGOS_COLLECTION": f"home-{number}",
                }
                | ({"BIGOS_QDRANT_URL": server} if server else {})
            )
        yield found


@dataclass
class RestlessTree:
    """Files that are made, changed, renamed and removed. Threads may share it.

    Args:
        folder: where they are.
        random: decides what happens.
    """

    folder: Path
    random: random.Random
    operations: int = 0
    written: dict[str, set[str]] = field(default_factory=dict)
    """Every content that was ever at a path, as its text."""
    _mutex: threading.Lock = field(default_factory=threading.Lock)

    def text(self, paragraphs: int) -> str:
        """Words; no two texts are the same."""
        lines = [" ".join(self.random.choices(WORDS, k=40)) + "." for _ in range(paragraphs)]
        return "\n\n".join([f"Note {self.random.getrandbits(64):x}", *lines]) + "\n"

    def files(self) -> list[Path]:
        """Those that are there now."""
        return sorted(path for path in self.folder.rglob("*") if path.is_file())

    def create(self, paragraphs: int | None = None) -> None:
        """A new file; one in ten is long."""
        size = paragraphs or (150 if self.random.random() < 0.1 else self.random.randint(1, 12))
        name = f"{self.random.choice('abc')}/{self.random.getrandbits(32):08x}{self.random.choice(SUFFIXES)}"
        self._write(self.folder / name, self.text(size))

    def change(self) -> None:
        """Something happens to a file."""
        with self._mutex:
            self.operations += 1
            files = self.files()
            what = self.random.choice(["create", "edit", "edit", "append", "rename", "copy", "remove", "touch"])
            if what == "create" or len(files) < 5:
                self.create()
                return
            path = self.random.choice(files)
            other = self.folder / self.random.choice("abc") / f"{self.random.getrandbits(32):08x}{path.suffix}"
            other.parent.mkdir(parents=True, exist_ok=True)
            if what == "edit":
                self._write(path, self.text(self.random.randint(1, 12)))
            elif what == "append":
                self._write(path, path.read_text("utf-8") + self.text(1))
            elif what == "touch":
                path.touch()
            elif what == "remove":
                path.unlink()
            else:
                self._remember(other, path.read_text("utf-8"))
                if what == "rename":
                    path.rename(other)
                else:
                    other.write_bytes(path.read_bytes())

    def _write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._remember(path, text)
        if self.random.random() < 0.5:
            path.write_text(text, "utf-8")
        else:  # as most editors do
            temporary = path.with_name(f".{path.name}.new")
            temporary.write_text(text, "utf-8")
            temporary.replace(path)

    def _remember(self, path: Path, text: str) -> None:
        self.written.setdefault(str(path), set()).add(text)
