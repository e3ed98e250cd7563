# SPDX-License-Identifier: GPL-2.0-only
"""Probe every part that Bigos stands on; each failure comes with the command that fixes it.

A probe is a function that returns what it saw, or raises a BigosError. None of them creates or changes anything.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bigos import succession
from bigos.config import Config, load_config
from bigos.errors import (
    BigosError,
    ConfigError,
    DocumentError,
    EmbedderError,
    FingerprintMismatch,
    MissingDependency,
    StoreError,
)
from bigos.library import Library
from bigos.types import FileOutcome, ServiceDescription
from bigos.verification import Verification, by_problem, verify

FREE_BYTES = 1 << 30
"""Room on the disk below which the doctor warns: the store refuses to write in the last 256 MB."""
PATIENCE = 2.0
"""Seconds that a service is waited for: it is there, or it is not."""
NAMED = 5
"""Documents of a kind that a reader is told; JSON has all."""
SAMPLE = "The clock divider is programmed before the transfer starts. Dzielnik zegara ustawia się przed transmisją. "


@dataclass(frozen=True, slots=True)
class Check:
    """What a probe found. `fix` is a command, None when nothing has to be done."""

    name: str
    state: Literal["ok", "warning", "failed"]
    detail: str
    fix: str | None = None
    paths: tuple[str, ...] = ()
    """The documents it is about, where it is about some."""


class _Warn(Exception):
    """Works, but not for long."""

    def __init__(self, detail: str, fix: str) -> None:
        super().__init__(detail)
        self.detail, self.fix = detail, fix


def examine(
    env: dict[str, str], config_file: Path | None, *, warm_up: bool = False, deep: bool = False, repair: bool = False
) -> Iterator[Check]:
    """Probe one part after the other. Lets no exception of a probe out.

    With `warm_up` an embedding service is first made to load its model, which may take a minute. With `deep` every
    point of the index is looked at, and what is wrong is put right with `repair`, the only probe that changes anything.
    """
    yield _probe("python", _python)
    yield _probe("packages", _packages)
    config: list[Config] = []
    yield _probe("configuration", lambda: _configuration(env, config_file, config))
    if not config:
        return
    with Library(config[0], PATIENCE) as library:
        yield _probe("data folder", lambda: _writable(library.config.data_dir))
        yield _probe("disk space", lambda: _disk_space(library.config.data_dir))
        if library.config.embedder == "onnx":
            yield _probe("model file", library.verify_model)
        yield _probe("tokenizer", lambda: _tokenizer(library))
        answers = True
        if library.config.embedder != "onnx":
            service = _probe("embedding service", lambda: _service(library, warm_up))
            yield service
            answers = service.state != "failed"
        if answers:  # what does not answer would be waited for again by each of these
            yield _probe("language means", lambda: _means(library))
            yield _probe("embedder", lambda: _embedder(library))
        if library.config.store == "server":
            server = _probe("store server", lambda: _server(library))
            yield server
            answers = answers and server.state != "failed"
        if answers:
            if deep or repair:
                yield from _index(library.config, put_right=repair)
            yield _probe("store", lambda: _store(library))
        yield _probe("OCR", lambda: _ocr(library.config))


def _probe(name: str, look: Callable[[], str]) -> Check:
    try:
        return Check(name, "ok", look())
    except _Warn as warning:
        return Check(name, "warning", warning.detail, warning.fix)
    except BigosError as error:
        return Check(name, "failed", error.message, error.fix or None)
    except Exception as error:  # a probe that trips has found something; the others still have to run
        return Check(name, "failed", f"{type(error).__name__}: {error}", "./setup.sh")


def _python() -> str:
    # Not compared with the least version: an older Python cannot read this file.
    return f"{platform.python_version()} in {sys.prefix}"


def _packages() -> str:
    try:
        requirements = importlib.metadata.requires("bigos") or []
    except importlib.metadata.PackageNotFoundError as error:
        raise _Warn("bigos itself is not installed, it runs from a folder", "./setup.sh") from error
    seen, missing = [], []
    for requirement in requirements:
        if "extra ==" in requirement:
            continue
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
            continue
        least = re.search(r">=\s*([\d.]+)", requirement)
        if least and _numbers(version) < _numbers(least[1]):
            missing.append(f"{name} {least[1]} (there is {version})")
        seen.append(f"{name} {version}")
    if missing:
        raise MissingDependency(f"not installed: {', '.join(missing)}.", fix="./setup.sh")
    return ", ".join(seen)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _configuration(env: dict[str, str], config_file: Path | None, found: list[Config]) -> str:
    config = load_config(env, config_file=config_file)
    found.append(config)
    base = Path(env.get("XDG_CONFIG_HOME") or Path(env.get("HOME") or Path.home()) / ".config")
    file = config_file or Path(env.get("BIGOS_CONFIG") or base / "bigos" / "config.toml")
    where = str(file) if file.is_file() else f"defaults ({file} does not exist)"
    names = sorted(name for name in env if name.startswith("BIGOS_"))
    return f"{where}; {', '.join(names) or 'no BIGOS_* variables'}; {config.embedder} embedder, {config.store} store"


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())


def _writable(folder: Path) -> str:
    there = _existing(folder)
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise ConfigError(f"{there} cannot be written to.", fix=f"chown -R $USER {there}, or set BIGOS_DATA_DIR")
    return str(folder) if there == folder else f"{folder} (will be made by the first ingest)"


def _disk_space(folder: Path) -> str:
    from bigos.stores.faults import WRITE_RESERVE

    there = _existing(folder)
    free = shutil.disk_usage(there).free
    if free < WRITE_RESERVE:
        raise StoreError(f"{free >> 20} MB are free in {there}, too little to write.", fix=f"df -h {there}")
    if free < FREE_BYTES:
        raise _Warn(f"only {free >> 20} MB are free in {there}", f"df -h {there}")
    return f"{free / 1e9:,.1f} GB free in {there}"


def _tokenizer(library: Library) -> str:
    words = "zażółć gęślą jaźń"
    ids = library.tokenizer.encode_batch([words])[0]
    if len(ids) < 5 or ids[0] != 0 or ids[-1] != 2:
        raise EmbedderError(f"{library.tokenizer_file} is not XLM-R's vocabulary.", fix="./setup.sh")
    return str(library.tokenizer_file)


def _service(library: Library, warm_up: bool) -> str:
    if warm_up:
        library.embedding_service.warm_up()
    return _described(library.embedding_service.describe())


def _server(library: Library) -> str:
    server = library.open_server(None, None)
    try:
        return _described(server.describe())
    finally:
        server.close()


def _described(found: ServiceDescription) -> str:
    if found.warning:
        raise _Warn(f"{found.text}; {found.warning}", found.fix or "bigos doctor")
    return found.text


def _ocr(config: Config) -> str:
    from bigos import ocr_tools

    if config.ocr == "never":
        return "not wanted: the configuration says never"
    try:
        ocr_tools.require_tools(config.ocr_languages, drawing=True)
    except DocumentError as error:
        raise _Warn(f"{error.message}; scans stay unread", error.fix) from error
    return f"{ocr_tools.tesseract_version(None)}, {config.ocr_languages}; poppler"


def _means(library: Library) -> str:
    if library.config.embedder != "onnx" and not library.calibration_file.exists():
        raise _Warn("not computed yet; the first ingest or search does it", "bigos calibrate")
    return library.embedder.fingerprint.rpartition("/")[2]


def _embedder(library: Library) -> str:
    embedder = library.raw_embedder  # a service's language means may not be there yet
    embedder.embed_query("zegar")  # the first text loads the model
    texts = [SAMPLE * 8] * 4
    started = time.perf_counter()
    embedder.embed_passages(texts)
    elapsed = time.perf_counter() - started
    tokens = sum(len(ids) for ids in library.tokenizer.encode_batch(texts))
    return f"{embedder.dimension} dimensions, {tokens / elapsed:,.0f} tokens/s"


def _store(library: Library) -> str:
    stats = library.stats()
    if stats.fingerprint is None:
        raise _Warn("there is no index yet", "bigos ingest FOLDER --recursive")
    expected = library.expected_fingerprint()
    if stats.fingerprint != expected:
        unfinished = library.succession.under_way()
        wanted = unfinished is not None and unfinished.fingerprint in (None, expected)
        raise FingerprintMismatch(
            f"the index was made with {stats.fingerprint}, the configuration says {expected}"
            + (f"; {succession.being_made(unfinished)}." if unfinished and wanted else "."),
            fix=succession.advice(unfinished) if unfinished and wanted else library.new_index_advice,
        )
    return f"{stats.documents:,} documents, {stats.chunks:,} chunks in {library.store_place}"


def _index(config: Config, *, put_right: bool) -> Iterator[Check]:
    """Every point looked at, and put right where that is wanted."""
    from bigos import repair

    with Library(config) as library:
        try:
            found = verify(library.reading_store)
            remains = library.reading_store.compact(at_once=-1)  # only asks: there are more points than that
            done = None
            if put_right and (found.findings or remains is not None):
                done = repair.repair(found.findings, library.reading_store, library.ingest)
                found, remains = verify(library.reading_store), done.remains
        except BigosError as error:
            yield Check("index", "failed", error.message, error.fix or None)
            return
    if done is not None:
        told = f"{done.discarded:,} strays removed, {len(done.read_again):,} documents read again"
        yield Check("repair", "ok", told, paths=done.read_again)
        if done.not_indexed:
            yield _not_indexed(done.not_indexed)
    if remains is not None:
        yield Check("store files", "warning", remains.message, remains.fix)
    yield from _findings(found, "restore the files and repair again, or bigos ingest --forget them" if done else None)


def _not_indexed(outcomes: Sequence[FileOutcome]) -> Check:
    """Documents that a repair has read again, and that are none any more."""
    named = [f"{item.path} ({item.reason}: {item.detail})" for item in outcomes[:NAMED]]
    more = f" and {len(outcomes) - NAMED:,} more" if len(outcomes) > NAMED else ""
    return Check(
        "repair: not indexed",
        "warning",
        f"{len(outcomes):,} of them: {', '.join(named)}{more}",
        "bigos ingest --retry-failed them, with --allow-secrets what holds a secret",
        tuple(item.path for item in outcomes),
    )


def _findings(found: Verification, fix: str | None) -> Iterator[Check]:
    """A check for each kind of thing that is wrong; one that all is well where nothing is."""
    if not found.findings:
        others = f"; {found.others:,} files are known and not indexed" if found.others else ""
        told = f"{found.documents:,} documents and {found.chunks:,} chunks are whole{others}"
        yield Check("index", "ok", told)
    for problem, findings in by_problem(found.findings).items():
        of_documents = [item for item in findings if item.doc_id]
        strays = len(findings) - len(of_documents)
        named = [f"{item.path or 'no path'} ({item.detail})" for item in of_documents[:NAMED]]
        more = f" and {len(of_documents) - NAMED:,} more" if len(of_documents) > NAMED else ""
        parts = [f"{len(of_documents):,} documents: {', '.join(named)}{more}"] if of_documents else []
        parts += [f"{strays:,} that name no document"] if strays else []
        yield Check(
            f"index: {problem}",
            "failed",
            "; ".join(parts),
            fix or "bigos doctor --deep --repair",
            tuple(item.path for item in findings if item.path is not None),
        )
