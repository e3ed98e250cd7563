# SPDX-License-Identifier: GPL-2.0-only
"""Keep the index as the folders are: look when the file system tells of a change, take what has settled, go on.

    notices --> look --> settled? --> ingest --> forget what was deleted

One pass takes all that has settled by then, so a flood of changes is one pass. New names are ingested before old ones
are forgotten: a file that was moved finds its vectors still there.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bigos import file_system, inbox
from bigos.config import Config
from bigos.errors import BigosError, FingerprintMismatch
from bigos.forgetting import forget_documents
from bigos.gone import SOURCE_GONE
from bigos.library import Library, open_library
from bigos.notices import Notices
from bigos.ocr_cache import OcrCache
from bigos.render import one_line
from bigos.types import FileOutcome, path_text
from bigos.watched_folder import WatchedFolder, Work

POLL_SECONDS = 2.0
"""How often a folder is looked at whose file system tells nothing."""
SURE_SECONDS = 300.0
"""How often a folder is looked at though nothing was told: the kernel drops notices when there are too many."""
IDLE_SECONDS = 300.0
"""After so long without anything to do the model's memory is given back; the next file waits for it a second more."""
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 600.0
"""Seconds until a failed pass is tried again; each time twice as long."""
LONGEST_UNTIL_REBUILT = 60.0
"""The same while an index for the configuration is being made: it takes no files until that is complete."""
_LOOK_SHARE = 10
"""A look may take a tenth of the time between two."""
_LEAST_PAUSE = 0.25

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Turn:
    """A folder and when it is looked at again."""

    folder: WatchedFolder
    polled: str | None = None
    """Why the file system's notices are not enough for it."""
    dirty: bool = True
    next_look: float = 0.0
    next_sure: float = 0.0
    next_try: float = 0.0
    failures: int = 0
    away: bool = False
    known: bool = False
    """Whether it has been there since the start."""

    @property
    def name(self) -> str:
        return one_line(path_text(self.folder.root))


@dataclass(slots=True)
class Watcher:
    """Watches until it is asked to stop.

    Args:
        config: of the index.
        reread: the configuration as it is now; asked where the index does not fit the old one any more.
        roots: absolute folders, none within another; a link is followed wherever it leads at the time.
        settle: seconds without a change after which a file is taken.
        poll: do not rely on the file system's notices.
        say: gets a line a change; `warn` gets what somebody has to look after.
    """

    config: Config
    reread: Callable[[], Config]
    roots: Sequence[Path]
    settle: float
    poll: bool
    say: Callable[[str], None]
    warn: Callable[[str], None]
    stop: Callable[[], bool]
    _library: Library | None = None
    _last_pass: float = 0.0
    _turns: list[_Turn] = field(default_factory=list)

    def run(self) -> None:
        """Watch. Failures of a pass are told and tried again; nothing of that ends it."""
        apart = [self.config.data_dir, self.config.cache_dir, self.config.state_dir, self.config.models_dir]
        self._turns = [_Turn(WatchedFolder(root, self.settle, apart=apart)) for root in self.roots]
        try:
            with Notices(() if self.poll else self.roots, stop=self.stop, warn=self.warn) as notices:
                while not self.stop():
                    self._round(notices)
        finally:
            self._give_back()

    def _round(self, notices: Notices) -> None:
        told = notices.wait()
        now = time.monotonic()
        for turn in self._turns:
            folder = turn.folder
            turn.dirty |= folder.root in told.changed
            folder.saw_deletions |= turn.polled is None and folder.root in told.deleted
            moved = not folder.is_same()
            polled = turn.polled is not None or folder.root not in notices.covered
            due = turn.dirty or folder.restless or polled or now >= turn.next_sure
            if moved or (due and now >= max(turn.next_look, turn.next_try)):
                self._look(turn, polled)
                if moved and turn.known:
                    notices.renew()
                elif not polled and not notices.hears_all_of(folder.root, folder.entered):
                    turn.dirty = True
                if moved and folder.there:
                    self._begin(turn)
        for turn in self._turns:
            if self.stop():
                return
            work = turn.folder.work() if time.monotonic() >= turn.next_try else None
            if work is not None:
                self._pass(turn, work)
        if self._library is not None and time.monotonic() - self._last_pass > IDLE_SECONDS:
            self._give_back()

    def _begin(self, turn: _Turn) -> None:
        """The folder is there for the first time, or again: what it is on may be something else now."""
        turn.polled = "--poll" if self.poll else file_system.tells_nothing(turn.folder.root)
        how = f"every {POLL_SECONDS:g} s: {turn.polled} tells of no changes" if turn.polled else "as changes are told"
        if self.poll:
            how = f"every {POLL_SECONDS:g} s"
        self.say(f"{turn.name} is there again" if turn.known else f"watching {turn.name}, looking {how}")
        turn.known = True

    def _look(self, turn: _Turn, polled: bool) -> None:
        folder = turn.folder
        started = time.monotonic()
        folder.look()
        now = time.monotonic()
        cost = now - started
        turn.dirty = False
        turn.next_look = now + max(POLL_SECONDS if polled else _LEAST_PAUSE, _LOOK_SHARE * cost)
        turn.next_sure = now + SURE_SECONDS
        _log.debug("looked at %s in %.3f s", turn.name, cost)
        if not folder.there and not turn.away:
            self.warn(f"{turn.name} is not there: nothing is forgotten, and it is waited for.")
        turn.away = not folder.there

    def _pass(self, turn: _Turn, work: Work) -> None:
        """Take what has settled. An error leaves it to be taken after a pause that grows."""
        folder = turn.folder
        try:
            self._library = self._library or open_library(self.config)
            library = self._library
            report = inbox.take(
                library,
                work.place,
                work.exclude,
                prune=work.compare,
                say=self.say,
                stop=self.stop,
                forget=lambda: self._forget(library, folder, work),
            )
            if report.interrupted:
                return
            # Nobody has to wait for us: the next pass opens the store again.
            library.reading_store.close()
        except (BigosError, OSError, MemoryError) as error:
            self._give_back()
            if not folder.is_same():
                return  # it went away in the middle: the next look tells
            fits = not isinstance(error, FingerprintMismatch)
            if not fits and self._has_new_settings():
                return  # the next round begins with them
            pause = min(FIRST_PAUSE * 2**turn.failures, LONGEST_PAUSE if fits else LONGEST_UNTIL_REBUILT)
            turn.failures += 1
            turn.next_try = time.monotonic() + pause
            words = str(error) or type(error).__name__
            self.warn(f"error: {words}\n{turn.name} is tried again in {pause:g} s.")
            return
        folder.done(work)
        turn.failures = 0
        self._last_pass = time.monotonic()
        if work.compare:
            self.say(f"{turn.name} is up to date; waiting for changes")

    def _has_new_settings(self) -> bool:
        """Take over what the configuration says by now: the index was rebuilt for it, or is about to be."""
        try:
            config = self.reread()
        except BigosError as error:
            self.warn(f"error: {error}")
            return False
        if config == self.config:
            return False
        self.config = config
        self.say("the index and the configuration are others by now: going on with them")
        return True

    def _forget(self, library: Library, folder: WatchedFolder, work: Work) -> list[FileOutcome]:
        found = folder.deletions(work)
        if found.unsure:
            self.warn(
                f"{found.unsure:,} files of {one_line(path_text(folder.root))} are not to be seen, but nothing says "
                "that they were deleted: they stay in the index."
            )
        if not found.real:
            return []
        store = library.reading_store
        with store.hold():
            going = {doc_id: record for path in found.real for doc_id, record in store.known(path).items()}
            forget_documents(going, store, OcrCache(self.config.cache_dir / "ocr"))
        paths = sorted(record.source_path for record in going.values())
        return [FileOutcome(path, "forgotten", SOURCE_GONE) for path in paths]

    def _give_back(self) -> None:
        """Let the store and the model's memory go."""
        library, self._library = self._library, None
        if library is not None:
            library.close()
            del library
            gc.collect()
