# SPDX-License-Identifier: GPL-2.0-only
"""Which index a program works with: the one made as its configuration says, or an older one that still answers.

Not two of them open at once, if it can be helped: two in one process would take the lock from each other at every turn.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from bigos import fingerprint, succession
from bigos.errors import FingerprintMismatch
from bigos.succession import Succession

if TYPE_CHECKING:
    from bigos.stores import MadeWith, Store

_T = TypeVar("_T")


class Serving:
    """The stores of one library, each made when it is first wanted. Threads may share it.

    Args:
        open_store: by the fingerprint and dimension of the vectors in it; None takes any collection for a look.
        wanted: what the configuration says an index is made with; it may have to load the model to tell.
        successor: what may take the place of the index that serves.
    """

    def __init__(
        self,
        open_store: Callable[[str | None, int | None], Store],
        wanted: Callable[[], MadeWith],
        successor: Succession,
    ) -> None:
        self._open_store = open_store
        self._wanted = wanted
        self._successor = successor
        self._mutex = threading.RLock()
        self._fitting: Store | None = None
        self._older: Store | None = None
        self._any: Store | None = None
        self._has_fitted = False

    @property
    def fitting(self) -> Store:
        """The store, guarded by the fingerprint. Nothing is opened or created before it is used."""
        with self._mutex:
            if self._fitting is None:
                wanted = self._wanted()
                self._fitting = self._open_store(wanted.fingerprint, wanted.dimension)
            return self._fitting

    @property
    def reading(self) -> Store:
        """For what only reads and compares no vectors: what is open already, else a store without that guard."""
        with self._mutex:
            return self._fitting or self._older or self._unguarded()

    def close(self) -> None:
        """Give back what is open, the lock first of all."""
        with self._mutex:
            stores = (self._fitting, self._older, self._any)
            self._fitting = self._older = self._any = None
        for store in stores:
            if store is not None:
                store.close()

    def answer(self, ask: Callable[[Store], _T]) -> tuple[_T, str | None]:
        """Ask the store that fits or, while that is being made, the one that serves, if it has vectors of this model.

        Returns the answer and what has to be said with it. Raises FingerprintMismatch where neither can answer, and
        whatever `ask` does.
        """
        with self._mutex:
            older = self._older
        notice = None if older is None else self._notice()
        if older is not None and notice is not None:
            try:
                return ask(older), notice
            except FingerprintMismatch:
                self._set_aside()  # another one has taken its place
        elif older is not None:
            self._set_aside()
        try:
            return self.use(ask), None
        except FingerprintMismatch as mismatch:
            made_with = self._unguarded().made_with()
            notice = self._notice()
            if made_with is None or notice is None or not self._understands(made_with):
                raise
            with self._mutex:
                older = self._older = self._older or self._open_store(made_with.fingerprint, made_with.dimension)
            try:
                return ask(older), notice
            except FingerprintMismatch:
                raise mismatch from None

    def use(self, work: Callable[[Store], _T]) -> _T:
        """Work with the store that fits. Raises FingerprintMismatch in words that know of an index in the making."""
        try:
            result = work(self.fitting)
        except FingerprintMismatch as mismatch:
            self._set_aside()
            raise self._explained(mismatch) from mismatch
        self._has_fitted = True
        return result

    def _unguarded(self) -> Store:
        with self._mutex:
            if self._any is None:
                self._any = self._open_store(None, None)
            return self._any

    def _set_aside(self) -> None:
        """Close what does not fit, so that whoever only reads is not refused for it."""
        with self._mutex:
            stores = (self._fitting, self._older)
            self._fitting = self._older = None
        for store in stores:
            if store is not None:
                store.close()

    def _understands(self, made_with: MadeWith) -> bool:
        return fingerprint.same_model(made_with.fingerprint, self._wanted().fingerprint)

    def _notice(self) -> str | None:
        """What is said with an answer of the older index; None when it is not to answer."""
        unfinished = self._successor.under_way()
        if unfinished is not None and unfinished.fingerprint in (None, self._wanted().fingerprint):
            return succession.notice(unfinished)
        return str(succession.superseded(other_model=False)) if self._has_fitted else None

    def _explained(self, mismatch: FingerprintMismatch) -> FingerprintMismatch:
        made_with = self._unguarded().made_with()
        other_model = made_with is not None and not self._understands(made_with)
        unfinished = self._successor.under_way()
        if unfinished is not None and unfinished.fingerprint in (None, self._wanted().fingerprint):
            return succession.refusal(unfinished, other_model=other_model)
        return succession.superseded(other_model=other_model) if self._has_fitted else mismatch
