#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A whole ingest against the embedder alone on the same passages, and the memory that the ingest takes.

    python scripts/benchmarks/ingest.py FOLDER [--order ingest-first|embedder-first] [--memory-only]

The ingest is the command that a user runs, in a process of its own, into a temporary index. The embedder then gets the
same passages, cut and made tokens beforehand, sorted by length as well as it can. Memory is the sum over the ingest's
processes, sampled twice a second, in millions of bytes: resident with what processes share counted once (the kernel's
"Pss"), and resident as each process sees it, shared libraries counted in each.
Prints one JSON object; `ratio` is ingest over embedder, start-up of the command included.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def process_tree(pid: int) -> list[int]:
    """The process and all below it, as far as they still live."""
    found, queue = [], [pid]
    while queue:
        one = queue.pop()
        found.append(one)
        for children in Path(f"/proc/{one}/task").glob("*/children"):
            try:
                queue += [int(child) for child in children.read_text().split()]
            except OSError:
                continue
    return found


def memory_mb(pid: int) -> tuple[float, float]:
    """Megabytes of the tree: with shared pages counted once, and as the sum of what each process sees."""
    proportional = resident = 0
    for one in process_tree(pid):
        try:
            lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()[1:]
            fields = dict(line.split(":", 1) for line in lines)
            proportional += int(fields["Pss"].split()[0])
            resident += int(fields["Rss"].split()[0])
        except (OSError, KeyError):
            continue
    return proportional * 1024 / 1e6, resident * 1024 / 1e6


def run_ingest(folder: Path, home: Path) -> dict[str, Any]:
    """The command's report with wall seconds and peak memory."""
    from bigos.config import user_environment

    environment = user_environment() | {"HOME": str(home), "BIGOS_MODELS_DIR": str(ROOT / "models")}
    command = [sys.executable, "-m", "bigos.ingest", str(folder), "--recursive", "--json", "-q"]
    command += ["--max-files", "1000000"]
    started = time.monotonic()
    peak = (0.0, 0.0)
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, env=environment)
        while process.poll() is None:
            now = memory_mb(process.pid)
            peak = (max(peak[0], now[0]), max(peak[1], now[1]))
            time.sleep(0.5)
        seconds = time.monotonic() - started
        output.seek(0)
        report: dict[str, Any] = json.loads(output.read())
    report |= {"wall_seconds": seconds, "peak_mb": peak[0], "peak_summed_mb": peak[1]}
    return report


def run_embedder(folder: Path) -> dict[str, Any]:
    """Seconds that the configured embedder needs for the folder's passages, and how many there are."""
    from bigos.config import load_config
    from bigos.files import walk
    from bigos.fingerprint import HEADER_TOKENS
    from bigos.library import open_library
    from bigos.preparation import PreparationPool, PreparationSettings, Prepared, Task

    config = load_config({"HOME": "/nonexistent", "BIGOS_MODELS_DIR": str(ROOT / "models")})
    with open_library(config) as library:
        settings = PreparationSettings(
            tokenizer_file=library.tokenizer_file,
            window=library.window,
            code_window=library.code_window,
            header_tokens=HEADER_TOKENS,
            max_file_bytes=config.max_file_bytes,
            max_document_bytes=config.max_file_bytes,
            memory_mb=config.parse_memory_mb,
            timeout=config.parse_timeout,
        )
        tasks = [Task(source) for source in walk([folder], recursive=True, on_left_out=lambda _: None)]
        with PreparationPool(settings, 0) as pool:
            prepared = [item for item in pool.run(tasks) if isinstance(item, Prepared)]
        passages = [text for item in prepared for text in item.passages]
        tokens = [ids for item in prepared for ids in item.tokens]
        library.embedder.embed_passages(passages[:1], [None])
        started = time.monotonic()
        for begin in range(0, len(passages), 4096):
            group = passages[begin : begin + 4096]
            library.embedder.embed_passages(group, [None] * len(group), tokens[begin : begin + 4096])
        return {"passages": len(passages), "seconds": time.monotonic() - started}


def main(argv: list[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--order", choices=("ingest-first", "embedder-first"), default="ingest-first")
    parser.add_argument("--memory-only", action="store_true", help="leave out the embedder alone")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="bigos-benchmark-") as scratch:
        embedder = run_embedder(arguments.folder) if arguments.order == "embedder-first" else None
        report = run_ingest(arguments.folder, Path(scratch))
        if not arguments.memory_only:
            embedder = embedder or run_embedder(arguments.folder)
    result = {
        "chunks": report["chunks"],
        "files": report["files"],
        "ingest_seconds": round(report["wall_seconds"], 2),
        "embedder_seconds": round(embedder["seconds"], 2) if embedder else None,
        "ratio": round(report["wall_seconds"] / embedder["seconds"], 3) if embedder else None,
        "chunks_per_second": round(report["embedded"] / report["wall_seconds"], 1),
        "peak_mb": round(report["peak_mb"]),
        "peak_summed_mb": round(report["peak_summed_mb"]),
    }
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
