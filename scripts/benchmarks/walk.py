#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""What a second, unchanged run costs before it knows that there is nothing to do, against what `find` takes.

    python scripts/benchmarks/walk.py [--files 80000] [--rounds 5]

Builds a tree in a temporary folder and an embedded store that knows every file of it, then takes turns:
`find . -type f -printf '%s %T@ %p\\n'`, and the ingest's own walk, `store.stamps()` and comparison. Best of the rounds
each. Prints one JSON object. `ratio` is ours over find's, by the clock; `cpu_ratio` by the processor, which a busy
machine blurs less; `..._with_rules` the same with a kernel's .gitignore at the top of the tree; `cpu_parts` says where
the time goes; `open_seconds` is what it takes to open the store, once a run, and in none of the others; `opened` is
which of the tree's files were opened on the way.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bigos import files, pipeline
from bigos.pipeline import IngestRequest
from bigos.stores import Replacement
from bigos.stores.embedded import EmbeddedStore
from bigos.types import Chunk, Record, SourceFile, path_text
from bigos.versions import Versions

FINGERPRINT = "benchmark"
DIMENSION = 8
VERSIONS = Versions(FINGERPRINT, None)
PER_FOLDER = 100
RULES = """
.*
*.a *.asn1.[ch] *.bin *.bz2 *.c.[012]*.* *.dt.yaml *.dtb *.dtbo *.dtb.S *.dwo *.elf *.gcno *.gz *.i *.ko *.lex.c *.ll
*.lst *.lz4 *.lzma *.lzo *.mod *.mod.c *.o *.o.* *.patch *.rmeta *.rsi *.s *.so *.so.dbg *.su *.symtypes *.tab.[ch]
*.tar *.xz *.zst Module.symvers modules.order
/linux /modules-only.symvers /vmlinux /vmlinux.32 /vmlinux.map /vmlinux.symvers /vmlinux-gdb.py /vmlinuz /System.map
/Module.markers /modules.builtin /modules.builtin.modinfo /modules.nsdeps /rpmbuild/ /debian/ /tar-install/ /snap/
!.clang-format !.cocciconfig !.get_maintainer.ignore !.gitattributes !.gitignore !.kunitconfig !.mailmap !.rustfmt.toml
/include/config/ /include/generated/ /include/ksym/ /arch/*/include/generated/ patches/ series *.bundle GPATH
"""


def build_tree(top: Path, count: int) -> None:
    """`count` small source files, a hundred to a folder, three folders deep."""
    for number in range(count):
        folder = top / f"drivers{number // 10_000}" / f"bus{number // 1000 % 10}" / f"device{number // PER_FOLDER % 10}"
        if number % PER_FOLDER == 0:
            folder.mkdir(parents=True)
        (folder / f"driver_{number:06}.c").write_bytes(b"int probe;\n")


def known_document(source: SourceFile) -> Replacement:
    """The file as a store has it that has indexed it, with one chunk."""
    record = Record(
        doc_id=source.doc_id,
        source_path=path_text(source.path),
        content_hash="0" * 32,
        size=source.size,
        mtime_ns=source.mtime_ns,
        inode=source.inode,
        fingerprint=VERSIONS.fingerprint("code", recognised=False),
        chunk_count=1,
        status="indexed",
        reason=None,
        title=None,
        kind="code",
        format="code",
        language=None,
        code_language="c",
        ingested_at="2026-11-30T12:00:00+00:00",
        ctime_ns=source.ctime_ns,
    )
    chunk = Chunk(
        doc_id=source.doc_id,
        index=0,
        text="int probe;",
        char_start=0,
        char_end=10,
        line_start=1,
        line_end=1,
        page=None,
        page_end=None,
        heading_path=(),
        token_count=3,
        language=None,
        chunk_language=None,
        kind="code",
        code_language="c",
    )
    return Replacement(record, (chunk,), np.eye(1, DIMENSION, dtype=np.float32))


def fill(store: EmbeddedStore, top: Path) -> None:
    """Put every file of the tree into the store."""
    sources = list(files.walk([top], recursive=True, on_left_out=lambda _: None))
    for start in range(0, len(sources), 4000):
        store.replace([known_document(source) for source in sources[start : start + 4000]])


def seconds(action: Callable[[], object]) -> tuple[float, float]:
    """What the action takes by the clock, and of the processor, the programs that it starts included."""
    started, used = time.perf_counter(), processor()
    action()
    return time.perf_counter() - started, processor() - used


def processor() -> float:
    """Seconds of the processor so far, of this process and of the programs that it ran."""
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)


def find(top: Path) -> None:
    """What is to be compared with."""
    subprocess.run(
        ["find", ".", "-type", "f", "-printf", r"%s %T@ %p\n"], cwd=top, stdout=subprocess.DEVNULL, check=True
    )


def opened_below(top: Path, action: Callable[[], object]) -> list[str]:
    """The files below `top` that were opened while the action ran."""
    opened: list[str] = []
    watching = True

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if not watching or event != "open" or arguments[2] & os.O_DIRECTORY:
            return
        if str(arguments[0]).startswith(f"{top}/"):
            opened.append(str(arguments[0]).removeprefix(f"{top}/"))

    sys.addaudithook(hook)
    action()
    watching = False
    return opened


def measure(top: Path, store: EmbeddedStore, rounds: int) -> dict[str, Any]:
    """Best times of both, in turns, so that a busy machine is as unfair to one as to the other."""
    request = IngestRequest((top,), recursive=True, max_files=1 << 40)
    clock: dict[str, float] = {}
    cpu: dict[str, float] = {}
    actions: dict[str, Callable[[], object]] = {
        "find": lambda: find(top),
        "ours": lambda: pipeline.plan(request, store, VERSIONS),
        "walk": lambda: list(files.scan([top], recursive=True, on_left_out=lambda _: None)),
        "stamps": lambda: store.stamps(top),
    }
    for _ in range(rounds):
        for name, action in actions.items():
            wall, used = seconds(action)
            clock[name] = min(clock.get(name, wall), wall)
            cpu[name] = min(cpu.get(name, used), used)
    plan = pipeline.plan(request, store, VERSIONS)
    if plan.tasks or not plan.files_unchanged:
        raise SystemExit(f"the run is not an unchanged one: {len(plan.tasks)} files to read")
    return {"clock": clock, "cpu": cpu, "unchanged": plan.files_unchanged}


def main(argv: list[str]) -> int:
    """Build, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=80_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="bigos-benchmark-") as scratch:
        top = Path(scratch).resolve() / "tree"
        build_tree(top, arguments.files)
        store = EmbeddedStore(Path(scratch) / "store", FINGERPRINT, DIMENSION)
        fill(store, top)
        store.close()
        with store.hold():
            open_seconds, _ = seconds(lambda: store.record("the first call opens it"))
            plain = measure(top, store, arguments.rounds)
            (top / ".gitignore").write_text("\n".join(RULES.split()) + "\n")
            store.replace(
                [
                    known_document(source)
                    for source in files.walk([top / ".gitignore"], recursive=False, on_left_out=lambda _: None)
                ]
            )
            ruled = measure(top, store, arguments.rounds)
            request = IngestRequest((top,), recursive=True, max_files=1 << 40)
            opened = opened_below(top, lambda: pipeline.plan(request, store, VERSIONS))
        store.close()
    clock, cpu = plain["clock"], plain["cpu"]
    result = {
        "files": plain["unchanged"],
        "find_seconds": round(clock["find"], 3),
        "our_seconds": round(clock["ours"], 3),
        "open_seconds": round(open_seconds, 3),
        "ratio": round(clock["ours"] / clock["find"], 2),
        "ratio_with_rules": round(ruled["clock"]["ours"] / ruled["clock"]["find"], 2),
        "cpu_ratio": round(cpu["ours"] / cpu["find"], 2),
        "cpu_ratio_with_rules": round(ruled["cpu"]["ours"] / ruled["cpu"]["find"], 2),
        "cpu_parts": {
            "find": round(cpu["find"], 3),
            "walk": round(cpu["walk"], 3),
            "stamps": round(cpu["stamps"], 3),
            "compare": round(cpu["ours"] - cpu["walk"] - cpu["stamps"], 3),
            "rules": round(ruled["cpu"]["walk"] - cpu["walk"], 3),
        },
        "opened": opened,
    }
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
