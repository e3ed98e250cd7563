#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Proves the main job on this machine: a Polish question finds the English text, and the other way round.

    .venv/bin/python scripts/smoke_test.py [--config FILE]

Indexes data/samples into an index of its own in a temporary folder, through the commands that a person would use, asks
one question each way and prints the hits. The user's index, configuration and BIGOS_* variables are not looked at,
unless a configuration is named: then its model and its store are what is proved, in a collection of its own that is
deleted at the end. Exit 0 when each question's file is among its first three hits, else 1 with one sentence.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import ssl
import subprocess
import sys
import tempfile
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from bigos.config import Config

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "data" / "samples"
QUESTIONS = ROOT / "data" / "samples-questions.jsonl"
ASKED = ("sample-01", "sample-07")  # Polish -> English, English -> Polish; the answers exist in one language only
FIRST = 3
TIMEOUT = 300
CONFIGURED_TIMEOUT = 1800
"""Seconds: a service's first texts load its model and compute its language means, on a slow machine without a GPU."""


class Failure(Exception):
    """One sentence."""


def environment(scratch: Path) -> dict[str, str]:
    """This process's, with every Bigos setting replaced by defaults and folders under `scratch`."""
    # The one place where a script must touch the environment: to take the user's settings out of it.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("BIGOS_")}  # noqa: TID251
    configuration = scratch / "config.toml"
    configuration.touch()
    folders = {f"BIGOS_{kind}_DIR": str(scratch / kind.lower()) for kind in ("DATA", "CACHE", "STATE")}
    return {**variables, **folders, "BIGOS_CONFIG": str(configuration), "BIGOS_COLLECTION": "smoke"}


@contextmanager
def configured(file: Path, scratch: Path) -> Iterator[dict[str, str]]:
    """This process's environment with `file` as the configuration and a collection that no one else has.

    On a server it is deleted afterwards. The folders are under `scratch`, but the data folder of a server's user: it
    holds no index, and the language means of the model, which stay useful.
    """
    from bigos.config import load_config
    from bigos.errors import BigosError

    collection = f"bigos-smoke-{uuid.uuid4().hex[:8]}"
    variables = {**os.environ, "BIGOS_CONFIG": str(file), "BIGOS_COLLECTION": collection}  # noqa: TID251 - see above
    for kind in ("CACHE", "STATE"):
        variables[f"BIGOS_{kind}_DIR"] = str(scratch / kind.lower())
    try:
        config = load_config(variables)
    except BigosError as error:
        raise Failure(str(error).replace("\n", " ").rstrip(".")) from error
    if config.store == "embedded":
        variables["BIGOS_DATA_DIR"] = str(scratch / "data")
    try:
        yield variables
    finally:
        if config.store == "server":
            delete_collection(config, collection)


def delete_collection(config: Config, collection: str) -> None:
    """Remove what was written to the server; a sentence on stderr when that fails, which proves nothing wrong."""
    address = urlsplit(config.qdrant_url)
    handlers: list[urllib.request.BaseHandler] = []
    if address.scheme == "https":
        file = str(config.qdrant_ca_file) if config.qdrant_ca_file else None
        handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=file)))
    if address.hostname in ("localhost", "127.0.0.1", "::1"):
        handlers.append(urllib.request.ProxyHandler({}))
    headers = {"api-key": config.qdrant_api_key} if config.qdrant_api_key else {}
    url = f"{config.qdrant_url.rstrip('/')}/collections/{collection}"
    try:
        request = urllib.request.Request(url, method="DELETE", headers=headers)
        urllib.request.build_opener(*handlers).open(request, timeout=config.qdrant_timeout).close()
    except (OSError, http.client.HTTPException) as error:
        print(f"warning: the collection {collection} could not be deleted: {error}", file=sys.stderr)


def run(arguments: list[str], variables: dict[str, str], timeout: int = TIMEOUT) -> dict[str, Any]:
    """The JSON document that `python -m ...` printed; Failure when it printed none."""
    command = [sys.executable, "-m", *arguments]
    shown = f"python -m {arguments[0]} {arguments[1]}"
    try:
        result = subprocess.run(
            command, env=variables, capture_output=True, text=True, encoding="utf-8", timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise Failure(f"{shown} did not finish within {timeout} seconds") from error
    try:
        document: dict[str, Any] = json.loads(result.stdout)
    except ValueError as error:
        said = " ".join((result.stderr.strip().splitlines() or ["nothing on stderr"])[-2:])
        raise Failure(f"{shown} failed with exit code {result.returncode}: {said}") from error
    if result.returncode != 0:
        raise Failure(f"{shown} ended with exit code {result.returncode}: {result.stdout[:300]}")
    return document


def show(hit: dict[str, Any]) -> None:
    """One line for where it is, one for what it says."""
    path = Path(hit["source_path"]).relative_to(SAMPLES)
    text = next((line.strip() for line in hit["text"].splitlines() if line.strip()), "")
    lines = f":{hit['line_start']}-{hit['line_end']}" if hit["line_start"] else ""  # formats of markup have none
    print(f"  {hit['score']:.4f}  {path}{lines}")
    print(f"          {text[:100]}")


def ask(question: dict[str, Any], variables: dict[str, str]) -> None:
    """Print the hits; Failure when the labelled file is not among the first."""
    print(f"{question['lang']} -> {question['target_lang']}: {question['query']}")
    found = run(["bigos.cli", "search", question["query"], "--top-k", "8", "--json"], variables)
    hits = found["hits"]
    for hit in hits[:FIRST]:
        show(hit)
    wanted = {str(SAMPLES / answer["path"]) for answer in question["relevant"]}
    if not wanted & {hit["source_path"] for hit in hits[:FIRST]}:
        names = " or ".join(sorted(answer["path"] for answer in question["relevant"]))
        raise Failure(f"{names} is not among the first {FIRST} hits for {question['query']!r}")


def prove(variables: dict[str, str], timeout: int) -> None:
    """Index, ask, compare."""
    rows = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]
    report = run(["bigos.ingest", str(SAMPLES), "--recursive", "--json"], variables, timeout)
    chunks = report["chunks"]["written"]
    if not chunks:
        raise Failure(f"nothing of {SAMPLES} was indexed: {report['files']}")
    print(f"indexed data/samples: {chunks} chunks in {report['seconds']:.1f} s")
    for question in (row for row in rows if row["id"] in ASKED):
        ask(question, variables)


def smoke_test(config: Path | None) -> None:
    """Prove Bigos with its defaults, or as a configuration file has it."""
    with tempfile.TemporaryDirectory(prefix="bigos-smoke-") as scratch:
        if config is None:
            prove(environment(Path(scratch)), TIMEOUT)
        else:
            with configured(config.absolute(), Path(scratch)) as variables:
                prove(variables, CONFIGURED_TIMEOUT)


def main(argv: list[str]) -> int:
    """Exit 0 or 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, metavar="FILE", help="prove the model and the store that FILE names")
    arguments = parser.parse_args(argv)
    try:
        smoke_test(arguments.config)
    except Failure as failure:
        print(f"error: {failure}.\nhint: {Path(sys.executable).parent / 'bigos'} doctor", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print("the answers were found in the other language")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
