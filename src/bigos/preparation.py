# SPDX-License-Identifier: GPL-2.0-only
"""From a file to chunks that wait for their vectors: read, load, detect the language, cut. One file at a time.

`prepare` runs in this process or in a worker of `PreparationPool`; what it needs (tokenizer, language detector) is
loaded once in each process. A file that crashes, hangs or eats memory costs that file and one worker.
"""

from __future__ import annotations

import multiprocessing
import shlex
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from bigos import chunking, loaders, passages, scratch, time_limit
from bigos.credentials import refuse_secrets
from bigos.embedders import TokenIds, Window
from bigos.errors import BigosError, DocumentError, WorkersUnavailable
from bigos.language import LanguageDetector
from bigos.loaders import FormatSpec, LoadOptions
from bigos.recognition import Watched
from bigos.tokenizer import Tokenizer
from bigos.types import Chunk, Document, Kind, SourceFile, path_text
from bigos.worker import end_programs_of, start_worker

INLINE_FILES = 8
INLINE_BYTES = 1_000_000
"""Up to so many files of so many bytes in all are prepared without starting workers (a start costs about a second)."""
IN_FLIGHT_FILES = 256
IN_FLIGHT_BYTES = 2_000_000
"""Files and bytes that may be prepared ahead of the embedder: enough that it never waits for small files, few enough
for the memory (a prepared file takes some four times its size). A single larger file goes alone."""
MOST_BREAKS = 3
"""A worker that is killed while it has no file breaks its whole pool. So many new ones are tried without a result."""
LIVENESS_SECONDS = 1.0
"""How often it is asked whether a pool that gives no results still lives."""
PATIENCE_SECONDS = 10.0
"""What a file in hand is given when the run is to stop: enough for a page. Recognised pages are kept in the cache."""
_INSTALLERS = ("sudo ", "brew ", "pip ")
"""How a fix begins that brings a missing program or package."""


@dataclass(frozen=True, slots=True)
class PreparationSettings:
    """What a worker has to know; it must be picklable."""

    tokenizer_file: Path
    window: Window
    code_window: Window
    header_tokens: int
    max_file_bytes: int
    max_document_bytes: int
    memory_mb: int
    timeout: float
    options: LoadOptions = field(default=loaders.DEFAULT_OPTIONS)
    allow_secrets: bool = False
    """Whether a text that holds a private key or an access token becomes a document all the same."""


@dataclass(frozen=True, slots=True)
class Task:
    """A file to prepare; with the content hash that the store knows, when it may be unchanged."""

    source: SourceFile
    known_hash: str | None = None
    let_in: str | None = None
    """The content hash with which it was taken before though it holds a secret, see versions.py."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A document in chunks. `passages[i]` is what the embedder gets for `chunks[i]`, `tokens[i]` its token ids."""

    source: SourceFile
    content_hash: str
    title: str | None
    format: str
    kind: Kind
    language: str | None
    code_language: str | None
    chunks: tuple[Chunk, ...]
    passages: tuple[str, ...]
    tokens: tuple[TokenIds, ...] = field(compare=False)  # they follow from the passages
    warnings: tuple[str, ...]
    recognised: bool = False
    """Whether pages of it went to the recogniser."""
    lacks_pages: bool = False
    """Whether they came back unread, as a program was not installed."""
    holds_secret: bool = False
    """Whether its text does, and it is taken all the same."""


@dataclass(frozen=True, slots=True)
class Same:
    """The file's content is the one that the store has."""

    source: SourceFile
    content_hash: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """The file gives no document; `skipped` when that is as it should be.

    The hash is None when it was not read, the format when it is of none that is known.
    """

    source: SourceFile
    reason: str
    message: str
    skipped: bool
    content_hash: str | None = None
    format: str | None = None
    recognised: bool = False


Preparation = Prepared | Same | Rejected


def prepare(task: Task, settings: PreparationSettings) -> Preparation:
    """Read, load and cut one file. Raises nothing that belongs to the file; a bug of ours costs its file, not the run.

    Raises EmbedderError when the tokenizer is missing or damaged.
    """
    digest: str | None = None
    form: str | None = None
    options, watched = settings.options, None
    if options.recogniser is not None:
        watched = Watched(options.recogniser)
        options = replace(options, recogniser=watched)

    def rejected(reason: str, message: str, *, skipped: bool = False) -> Rejected:
        recognised = watched is not None and watched.asked
        return Rejected(task.source, reason, message, skipped, digest, form, recognised)

    try:
        found = loaders.detect(task.source.path, loaders.read_head(task.source), options.code_names)
        form = found.spec.name
        if found.spec.images:
            data = loaders.read_source(task.source, settings.max_document_bytes, "max_document_bytes")
        else:
            data = loaders.read_source(task.source, settings.max_file_bytes)
        digest = loaders.content_hash(data)
        if digest == task.known_hash:
            return Same(task.source, digest)
        document = loaders.load_document(task.source, data, digest, options)
        del data
        holds_secret = _holds_secret(document, allowed=settings.allow_secrets or digest == task.let_in)
        prepared = replace(_cut(document, settings), holds_secret=holds_secret)
        if watched is None:
            return prepared
        return replace(prepared, recognised=watched.asked, lacks_pages=watched.lacked_programs)
    except DocumentError as error:
        return rejected(error.reason, _with_cure(error, task.source.path), skipped=error.skipped)
    except MemoryError:
        return rejected("out of memory", f"needs more than {settings.memory_mb} MiB")
    except BigosError:
        raise
    except Exception as error:
        return rejected("loader error", f"{type(error).__name__}: {error}")


def _holds_secret(document: Document, *, allowed: bool) -> bool:
    """Whether the text holds a secret; raises DocumentError when it does and that is not allowed."""
    try:
        refuse_secrets(document)
    except DocumentError:
        if not allowed:
            raise
        return True
    return False


def _with_cure(error: DocumentError, path: Path) -> str:
    """The message and the command that helps. A file is not read again as long as it is the same, unless told to."""
    fix = error.fix
    if fix.startswith(_INSTALLERS) and "bigos ingest" not in fix:
        fix += " && bigos ingest --reindex ..."
    if fix.endswith("..."):
        fix = fix.removesuffix("...") + shlex.quote(path_text(path))
    return f"{error.message}: {fix}" if fix else error.message


def _prepare_in_worker(task: Task, settings: PreparationSettings) -> Preparation:
    """`prepare`, for no longer than `settings.timeout` of work, or than a loader that gets on asks for."""
    time_limit.start(settings.timeout)
    try:
        return prepare(task, settings)
    finally:
        time_limit.stop()


def _needs_worker(task: Task, settings: PreparationSettings) -> bool:
    """Whether the file is of a binary format: their parsers may hang, crash and eat memory on what is damaged."""
    spec = _format_of(task.source, settings)
    return spec is not None and spec.binary


def _format_of(source: SourceFile, settings: PreparationSettings) -> FormatSpec | None:
    try:
        return loaders.detect(source.path, loaders.read_head(source), settings.options.code_names).spec
    except DocumentError:
        return None


def _cut(document: Document, settings: PreparationSettings) -> Prepared:
    tokenizer, detector = Tokenizer.load(settings.tokenizer_file), _detector()
    if document.kind == "document":
        document = replace(document, language=detector.detect(document.text))
    window = settings.code_window if document.kind == "code" else settings.window
    chunks = tuple(chunking.chunk_document(document, tokenizer, window, language_of=detector.detect))
    texts = tuple(passages.passage_text(document, chunk, tokenizer, settings.header_tokens) for chunk in chunks)
    return Prepared(
        source=document.source,
        content_hash=document.content_hash,
        title=document.title,
        format=document.format,
        kind=document.kind,
        language=document.language,
        code_language=document.code_language,
        chunks=chunks,
        passages=texts,
        tokens=tuple(np.array(ids, np.int32) for ids in tokenizer.encode_batch(texts)),
        warnings=document.warnings,
    )


@lru_cache(maxsize=1)
def _detector() -> LanguageDetector:
    return LanguageDetector()


class PreparationPool:
    """Prepares files in `workers` processes. A context manager.

    With 0 of them text is prepared in this process; files of binary formats get a worker all the same. When `stop`
    turns true, what is in hand has PATIENCE_SECONDS to get ready; a scan of many pages is left for the next run.
    """

    def __init__(self, settings: PreparationSettings, workers: int, stop: Callable[[], bool] = lambda: False) -> None:
        self._settings = settings
        self._workers = workers
        self._stop = stop
        self._last_moment: float | None = None  # to wait until, once the run is to stop
        self._pool: Any = None  # pebble has no types

    def __enter__(self) -> PreparationPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        if self._pool is not None:
            workers = [child.pid for child in multiprocessing.active_children()]
            self._pool.stop()
            self._pool.join()
            self._pool = None
            for worker in workers:
                end_programs_of(worker)
            if self._settings.options.scratch:
                scratch.remove_left_over(self._settings.options.scratch)  # of workers that were stopped over a file

    def run(self, tasks: Iterable[Task]) -> Iterator[Preparation]:
        """The preparations of `tasks` as they get ready. Takes new tasks only as fast as the caller takes results."""
        if self._workers:
            yield from self._run_in_workers(tasks)
            return
        for task in tasks:
            if _needs_worker(task, self._settings):
                yield from self._run_in_workers([task])
            else:
                yield prepare(task, self._settings)

    def _run_in_workers(self, tasks: Iterable[Task]) -> Iterator[Preparation]:
        waiting = iter(tasks)
        again: list[Task] = []  # given to a pool that broke under them
        under_way: dict[Future[Preparation], Task] = {}
        breaks = 0
        while True:
            try:
                while self._has_room(under_way) and (task := again.pop() if again else next(waiting, None)):
                    again.append(task)  # until the pool has it
                    under_way[self._schedule(task)] = again.pop()
                if not under_way:
                    return
                if not (done := self._done(under_way)):
                    return
                ready = [(future, self._result(future, under_way[future].source)) for future in done]
            except BrokenProcessPool as error:
                breaks += 1
                if breaks > MOST_BREAKS:
                    raise WorkersUnavailable(
                        "the processes that read files are killed before they have read one.",
                        fix="free some memory, then run the same command again",
                    ) from error
                again += under_way.values()
                under_way.clear()
                self._end()
                continue
            for future, preparation in ready:
                breaks = 0
                del under_way[future]
                yield preparation

    def _done(self, under_way: Mapping[Future[Preparation], Task]) -> set[Future[Preparation]]:
        """Futures that are done, or none when it is time to stop. Raises BrokenProcessPool when none ever will be."""
        while True:
            done, _ = wait(under_way, timeout=LIVENESS_SECONDS, return_when=FIRST_COMPLETED)
            if done:
                return done
            if not self._pool.active:
                raise BrokenProcessPool
            if self._stop():
                self._last_moment = self._last_moment or time.monotonic() + PATIENCE_SECONDS
                if time.monotonic() >= self._last_moment:
                    return done

    def _has_room(self, under_way: Mapping[Future[Preparation], Task]) -> bool:
        size = sum(task.source.size for task in under_way.values())
        return not under_way or (len(under_way) < IN_FLIGHT_FILES and size < IN_FLIGHT_BYTES)

    def _schedule(self, task: Task) -> Future[Preparation]:
        if self._pool is None:
            from multiprocessing import resource_tracker

            from pebble import ProcessPool

            # Now, because it unblocks SIGINT when it has started: the mask below would be gone.
            resource_tracker.ensure_running()
            # Not fork: the model's threads run in this process by the time a worker has to be replaced.
            self._pool = ProcessPool(
                max_workers=max(1, self._workers),
                initializer=start_worker,
                initargs=[self._settings.memory_mb],
                context=multiprocessing.get_context("spawn"),
            )
        # Ctrl-C goes to every process of the terminal. A worker's threads and processes inherit this mask, so none can
        # be hit by it in the second before `start_worker` runs, and be counted as a file that crashed its loader.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            future: Future[Preparation] = self._pool.schedule(_prepare_in_worker, args=[task, self._settings])
        except RuntimeError as error:  # how the pool says that it broke before
            raise BrokenProcessPool from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return future

    def _result(self, future: Future[Preparation], source: SourceFile) -> Preparation:
        from pebble import ProcessExpired

        def rejected(reason: str, message: str) -> Rejected:
            spec = _format_of(source, self._settings)
            name, images = (spec.name, spec.images) if spec else (None, False)
            return Rejected(source, reason, message, False, None, name, images)

        try:
            return future.result()
        except ProcessExpired as error:
            end_programs_of(error.pid)
            if error.exitcode in time_limit.EXIT_CODES:
                return rejected("timed out", f"took more than {self._settings.timeout:g} s")
            return rejected("crashed", f"the loader died with exit code {error.exitcode}")
        except (BigosError, BrokenProcessPool):
            raise
        except MemoryError:
            return rejected("out of memory", f"needs more than {self._settings.memory_mb} MiB")
        except Exception as error:  # what could not cross from the worker to here
            return rejected("loader error", f"{type(error).__name__}: {error}")
