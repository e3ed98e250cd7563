#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Kill ingest runs at random moments, over files that keep changing; see whether anything is lost, torn or doubled.

    .venv/bin/python scripts/crash_harness.py [--kills 100] [--seed 1] [--store embedded|server] [--json]

After every kill: each document is there in a version that its file really had, with all of its text; no chunk is there
twice. In the end, after one run that nobody disturbs: nothing is left over or hidden, and every payload and vector is
what a run over the same files gives in a home where nothing was ever killed. Exit code 1 when anything differs.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bigos.config import load_config
from bigos.library import open_library
from bigos.loaders import content_hash
from bigos.stores import Replacement, Store
from bigos.verification import LEFT_OVER, ORPHANED, verify
from restless import RestlessTree, homes

SIGNALS = [signal.SIGKILL] * 8 + [signal.SIGTERM, signal.SIGINT]
HARMLESS = {LEFT_OVER, ORPHANED}
"""What a kill may leave behind: hidden from every search, and gone after the next run of the document."""
TIMES = ("ingested_at", "stamp", "ctime_ns")
"""What may differ between two indexes of the same files: when it was, and whether a file was too fresh to tell."""
VECTOR_TOLERANCE = 1e-5


@dataclass
class Outcome:
    """What happened, and all that was wrong."""

    runs: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    compared: int = 0


def ingest(home: dict[str, str], tree: RestlessTree, *flags: str) -> subprocess.Popen[str]:
    """Begin a run over the tree."""
    command = [sys.executable, "-m", "bigos.ingest", tree.folder, "--recursive", "--json", *flags]
    return subprocess.Popen(
        [*map(str, command)],
        env=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str], killed: signal.Signals | None, outcome: Outcome) -> None:
    """Wait for a run, and judge how it ended."""
    _, errors = process.communicate(timeout=300)
    allowed = {0, 3} if killed is None else {0, 3, 130, -killed}
    if process.returncode not in allowed or "Traceback" in errors or "panicked" in errors:
        outcome.errors.append(f"exit code {process.returncode}: {errors.strip()[-400:]}")


def disturbed(home: dict[str, str], tree: RestlessTree, dice: random.Random, usual: float, outcome: Outcome) -> float:
    """One run with a signal in it, which takes `usual` seconds without; how long it went on."""
    for _ in range(dice.randint(1, 6)):
        tree.change()
    flags = ["--prune", "--yes"] if dice.random() < 0.4 else []
    begun = time.monotonic()
    process = ingest(home, tree, *flags)
    pauses = [dice.uniform(0, usual / 2) for _ in range(dice.randint(0, 2))]

    def meddle() -> None:
        for pause in pauses:
            time.sleep(pause)
            tree.change()

    restless = threading.Thread(target=meddle)
    restless.start()
    killed = dice.choice(SIGNALS)
    try:
        # Mostly past the start, where nothing is written yet.
        process.wait(dice.uniform(0.3 if dice.random() < 0.8 else 0.01, 1.0) * usual)
        ended(process, None, outcome)
    except subprocess.TimeoutExpired:
        process.send_signal(killed)
        ended(process, killed, outcome)
        outcome.kills[killed.name] += 1
    outcome.runs += 1
    took = time.monotonic() - begun
    restless.join()
    return took


def check(store: Store, tree: RestlessTree, outcome: Outcome) -> None:
    """Every document in one of its versions, whole; nothing twice."""
    versions = {path: {content_hash(text.encode()): text for text in texts} for path, texts in tree.written.items()}
    known = store.known()
    for item in store.documents(list(known)):
        _check_document(item, versions.get(item.record.source_path, {}), outcome)
    outcome.differences += [
        f"{finding.problem}: {finding.path} ({finding.detail})"
        for finding in verify(store).findings
        if finding.problem not in HARMLESS
    ]


def _check_document(item: Replacement, versions: dict[str, str], outcome: Outcome) -> None:
    record = item.record
    text = versions.get(record.content_hash)
    if text is None:
        outcome.differences.append(f"{record.source_path}: a version that it never had")
        return
    covered = np.zeros(len(text), bool)
    for chunk in item.chunks:
        covered[chunk.char_start : chunk.char_end] = True
        if text[chunk.char_start : chunk.char_end] != chunk.text:
            outcome.differences.append(f"{record.source_path}: chunk {chunk.index} is not its text")
    lost = [letter for letter, there in zip(text, covered, strict=True) if not there and not letter.isspace()]
    if record.status == "indexed" and (len(item.chunks) != record.chunk_count or "".join(lost).strip("#")):
        outcome.differences.append(
            f"{record.source_path}: {len(item.chunks)} of {record.chunk_count} chunks, {lost[:5]}"
        )


def compare(one: Store, other: Store, outcome: Outcome) -> int:
    """All points of two stores; how many there are."""
    left, right = ({point.point_id: point for point in store.points()} for store in (one, other))
    for point_id in left.keys() | right.keys():
        a, b = left.get(point_id), right.get(point_id)
        if a is None or b is None:
            there: Any = a or b
            outcome.differences.append(f"{'only' if a else 'not'} in the disturbed index: {_name(there.payload)}")
            continue
        keys = {key for key in a.payload.keys() | b.payload.keys() if a.payload.get(key) != b.payload.get(key)}
        if keys - set(TIMES):
            outcome.differences.append(f"{_name(a.payload)}: {', '.join(sorted(keys - set(TIMES)))} differ")
        if (a.vector is None) != (b.vector is None) or (
            a.vector is not None and b.vector is not None and np.abs(a.vector - b.vector).max() > VECTOR_TOLERANCE
        ):
            outcome.differences.append(f"{_name(a.payload)}: the vectors differ")
    return len(left)


def _name(payload: Any) -> str:
    what = f"{payload['point']} {payload.get('chunk_index', '')}"
    return f"{what} of {payload['source_path']} ({payload['content_hash'][:8]})"


def trial(home: dict[str, str], calm: dict[str, str], dice: random.Random, tree: RestlessTree, kills: int) -> Outcome:
    """So many kills, then the comparison of the home that had them with one that had none."""
    outcome = Outcome()
    begun = time.monotonic()
    ended(ingest(calm, tree, "--dry-run"), None, outcome)  # the service's language means, once
    usual = min(time.monotonic() - begun, 10.0)
    with open_library(load_config(home, config_file=None)) as library:
        while outcome.kills.total() < kills:
            before = outcome.kills.total()
            took = disturbed(home, tree, dice, usual, outcome)
            # Longer where a run was cut off early enough, else as long as the run was.
            usual = min(usual * 1.05, 20.0) if outcome.kills.total() > before else 0.7 * usual + 0.3 * took
            check(library.reading_store, tree, outcome)
            library.close()
        time.sleep(0.1)  # past the clock's grain
        for _ in range(2):
            ended(ingest(home, tree, "--prune", "--yes"), None, outcome)
        ended(ingest(calm, tree), None, outcome)
        check(library.reading_store, tree, outcome)
        outcome.differences += [
            f"still there: {finding.problem}: {finding.path} ({finding.detail})"
            for finding in verify(library.reading_store).findings
        ]
        with open_library(load_config(calm, config_file=None)) as other:
            outcome.compared = compare(library.reading_store, other.reading_store, outcome)
    return outcome


def main() -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--files", type=int, default=25, help="in the beginning")
    parser.add_argument("--store", choices=("embedded", "server"), default="embedded")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    dice = random.Random(arguments.seed)
    with homes(arguments.store, 2) as (home, calm):
        tree = RestlessTree(Path(home["HOME"]).parent / "files", random.Random(arguments.seed + 1))
        for number in range(arguments.files):
            tree.create(paragraphs=200 if number == 0 else None)
        outcome = trial(home, calm, dice, tree, arguments.kills)
    told = {
        "store": arguments.store,
        "seed": arguments.seed,
        "kills": outcome.kills.total(),
        "signals": dict(outcome.kills),
        "runs": outcome.runs,
        "operations": tree.operations,
        "points_compared": outcome.compared,
        "errors": len(outcome.errors),
        "differences": len(outcome.differences),
    }
    print(json.dumps(told) if arguments.json else "\n".join(f"{name}: {value}" for name, value in told.items()))
    for text in [*outcome.errors, *outcome.differences][:50]:
        print(text, file=sys.stderr)
    return 1 if outcome.errors or outcome.differences else 0


if __name__ == "__main__":
    sys.exit(main())
