#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Many processes at one embedded store for some minutes: does any fail, wait long, or lose or double a chunk?

    .venv/bin/python scripts/many_processes.py [--seconds 300] [--servers 4] [--seed 1] [--json]

Four MCP servers, each asked again and again by a client of the SDK; two ingests in a loop over trees that overlap; one
with --prune over a drop folder; searches on the command line; files that change all the while; and now and then the
process that has the store's lock is killed, if it is an ingest. Then everything is brought up to date and compared with
the files. Exit code 1 when anything was wrong. Times are of whole tool calls, the question's embedding included.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bigos.config import load_config
from bigos.library import open_library
from bigos.loaders import content_hash
from bigos.verification import verify
from crash_harness import Outcome, check
from restless import WORDS, RestlessTree, homes


@dataclass
class Load:
    """What happened."""

    until: float
    counts: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    searches: list[float] = field(default_factory=list)
    """Seconds of each call to an MCP server."""
    ingests: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    killed: set[int] = field(default_factory=set)

    @property
    def over(self) -> bool:
        """Whether it has gone on long enough."""
        return time.monotonic() >= self.until


def question(dice: random.Random) -> str:
    """Some words."""
    return " ".join(dice.sample(WORDS, 4))


async def ask(home: dict[str, str], load: Load, dice: random.Random) -> None:
    """One MCP server and its client."""
    from mcp import ClientSession, StdioServerParameters, stdio_client

    server = StdioServerParameters(command=sys.executable, args=["-m", "bigos.mcp_server"], env=home)
    with Path(os.devnull).open("w") as silence:
        async with stdio_client(server, silence) as streams, ClientSession(*streams) as session:
            await session.initialize()
            while not load.over:
                begun = time.monotonic()
                result = await session.call_tool("search_knowledge_base", {"query": question(dice)})
                took = time.monotonic() - begun
                load.counts["MCP searches"] += 1
                load.searches.append(took)
                if result.is_error:
                    load.errors.append(f"search_knowledge_base: {result.content}")
                await asyncio.sleep(dice.uniform(0.05, 0.5))


def clients(homes_of: list[dict[str, str]], load: Load, seed: int) -> None:
    """All servers, at once."""

    async def together() -> None:
        await asyncio.gather(*(ask(home, load, random.Random(seed + n)) for n, home in enumerate(homes_of)))

    try:
        asyncio.run(together())
    except BaseException as error:
        load.errors.append(f"an MCP client ended: {error!r}")


def command(name: str, home: dict[str, str], load: Load, *words: str | Path) -> None:
    """Run a command again and again."""
    while not load.over:
        process = subprocess.Popen(
            [sys.executable, "-m", *map(str, words)], env=home, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        if name != "CLI searches":
            load.ingests[process.pid] = process
        _, errors = process.communicate()
        load.ingests.pop(process.pid, None)
        load.counts[name] += 1
        if process.pid in load.killed and process.returncode == -signal.SIGKILL:
            continue
        # 1: the drop folder is empty at the moment; 3: a file was removed between the walk and its turn.
        if process.returncode not in (0, 1, 3):
            load.errors.append(f"{name}, exit code {process.returncode}: {errors.decode(errors='replace')[-400:]}")
        time.sleep(0.2)


def meddle(trees: list[RestlessTree], load: Load, dice: random.Random) -> None:
    """Change files."""
    while not load.over:
        dice.choice(trees).change()
        time.sleep(dice.uniform(0.1, 0.6))


def kill_holders(store: Path, load: Load, dice: random.Random) -> None:
    """Now and then kill who has the lock."""
    while not load.over:
        time.sleep(dice.uniform(1, 4))
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and not load.over:
            with contextlib.suppress(OSError, ValueError):
                holder = int((store / "lock").read_text().split()[0])
                if holder in load.ingests:
                    load.killed.add(holder)
                    load.ingests[holder].kill()
                    load.counts["lock holders killed"] += 1
                    break
            time.sleep(0.005)


def settle(home: dict[str, str], trees: list[RestlessTree], load: Load) -> Outcome:
    """Bring all up to date, then compare with the files."""
    outcome = Outcome()
    everything = [str(tree.folder) for tree in trees]
    for _ in range(2):
        time.sleep(0.1)
        words = [sys.executable, "-m", "bigos.ingest", *everything, "-r", "--prune", "--yes"]
        done = subprocess.run(words, env=home, capture_output=True, text=True, check=False)
        if done.returncode:
            load.errors.append(f"the last ingest, exit code {done.returncode}: {done.stderr[-400:]}")
    both = RestlessTree(
        trees[0].folder, random.Random(0), written={k: v for tree in trees for k, v in tree.written.items()}
    )
    with open_library(load_config(home, config_file=None)) as library:
        store = library.reading_store
        check(store, both, outcome)
        outcome.differences += [
            f"{finding.problem}: {finding.path} ({finding.detail})" for finding in verify(store).findings
        ]
        there = {record.source_path: record.content_hash for record in store.known().values()}
        load.counts["documents in the end"], load.counts["chunks in the end"] = len(there), store.stats().chunks
    now = {str(path): content_hash(path.read_bytes()) for tree in trees for path in tree.files()}
    now = {path: digest for path, digest in now.items() if not Path(path).name.startswith(".")}
    outcome.differences += [f"not as on the disk: {path}" for path in now if there.get(path) != now[path]]
    outcome.differences += [f"gone from the disk: {path}" for path in there if path not in now]
    return outcome


def main() -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--servers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--files", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    dice = random.Random(arguments.seed)
    with homes("embedded", 1) as (home,):
        base = Path(home["HOME"]).parent
        trees = [
            RestlessTree(base / name, random.Random(arguments.seed + n)) for n, name in enumerate(("files", "drop"), 1)
        ]
        for tree in trees:
            for _ in range(arguments.files // (1 if tree is trees[0] else 6)):
                tree.create()
        (trees[1].folder / ".bigos-inbox").touch()
        first = subprocess.run(
            [sys.executable, "-m", "bigos.ingest", trees[0].folder, "-r"],
            env=home,
            capture_output=True,
            text=True,
            check=False,
        )
        if first.returncode:
            print(first.stderr, file=sys.stderr)
            return 1
        store = next(base.rglob("collection.json")).parent
        load = Load(time.monotonic() + arguments.seconds)
        jobs: list[tuple[Any, ...]] = [
            (clients, [home] * arguments.servers, load, arguments.seed),
            (command, "ingests", home, load, "bigos.ingest", trees[0].folder, "-r"),
            (command, "ingests", home, load, "bigos.ingest", trees[0].folder / "a", trees[0].folder / "b", "-r"),
            (
                command,
                "ingests of the drop folder",
                home,
                load,
                "bigos.ingest",
                trees[1].folder,
                "-r",
                "--prune",
                "--yes",
            ),
            (command, "CLI searches", home, load, "bigos.cli", "search", question(dice)),
            (meddle, trees, load, random.Random(arguments.seed + 7)),
            (kill_holders, store, load, random.Random(arguments.seed + 8)),
        ]
        threads = [threading.Thread(target=job, args=rest) for job, *rest in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        outcome = settle(home, trees, load)
    errors, times = [*load.errors, *outcome.errors], sorted(load.searches)
    told: dict[str, Any] = {
        "seconds": arguments.seconds,
        **load.counts,
        "changes of files": sum(tree.operations for tree in trees),
        "search median ms": round(1000 * statistics.median(times)) if times else None,
        "search 95% ms": round(1000 * times[int(0.95 * len(times))]) if times else None,
        "search worst ms": round(1000 * times[-1]) if times else None,
        "load average": round(os.getloadavg()[0], 1),
        "errors": len(errors),
        "lost or doubled": len(outcome.differences),
    }
    print(json.dumps(told) if arguments.json else "\n".join(f"{name}: {value}" for name, value in told.items()))
    for text in [*errors, *outcome.differences][:50]:
        print(text, file=sys.stderr)
    return 1 if errors or outcome.differences else 0


if __name__ == "__main__":
    sys.exit(main())
