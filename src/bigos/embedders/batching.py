# SPDX-License-Identifier: GPL-2.0-only
"""Texts to vectors over a service that manages only so much at once, now and then fails, and cannot take every text.

Requests are filled by tokens, with texts of like length, to a size that the service answers in about a second. What
fails as a batch is cut in half until the text is found that it fails for; such a text is tried in other shapes and then
rejected by itself. A service that fails for every text is another matter: that ends the run. To tell the two apart, a
text that nobody can dislike is sent (CONTROL).
"""

from __future__ import annotations

import logging
import re
import threading
import time
import unicodedata
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bigos.embedders import Vectors
from bigos.embedders.service import Refusal, Service, Trouble
from bigos.errors import EmbedderError

_log = logging.getLogger(__name__)

FIRST_TOKENS, LEAST_TOKENS, MOST_TOKENS = 4096, 256, 32_768
MOST_TEXTS = 256
MOST_BYTES = 2_000_000
QUICK_SECONDS, LONG_SECONDS = 1.0, 10.0
"""A full request that took less asks for a larger one; one that took more, for a smaller one."""
MOST_TIMEOUTS = 3
"""In a row of one worker: each was for half of what the one before was for, so it is not the amount."""
CONTROL = "zegar"
TELLING_TOKENS = 64
"""A shorter text cannot tell truncation from a tokenizer of another kind."""
SAME_COUNT = 0.99
"""A service that counts less than this share of the tokens that are due has cut a text, or counts differently."""
SLACK_TOKENS = 4
"""What a text cut in two may have more, special tokens included."""
LEAST_UNSPACED = 64
"""Characters of a text that may be cut where it has no white space."""
SHORTEST = 1e-6
"""The length of a vector that is none: a model that failed gives zeros."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Vectors of a request's texts, shape (n, dimension), of any length and perhaps not finite; and tokens read."""

    vectors: Vectors
    tokens_read: int | None = None


Send = Callable[[Sequence[str]], Answer]
"""One request for vectors. Raises Trouble, Refusal or EmbedderError."""


class BatchSize:
    """How much to ask for at once, learnt from what the service manages. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.tokens = FIRST_TOKENS
        self.texts = MOST_TEXTS
        self._ceiling = MOST_TOKENS

    def answered(self, tokens: int, seconds: float) -> None:
        """A request was answered: ask for more if it was quick and full, for less if it took long."""
        with self._lock:
            if seconds > LONG_SECONDS:
                self.tokens = max(LEAST_TOKENS, self.tokens // 2)
            elif seconds < QUICK_SECONDS and 2 * tokens > self.tokens:
                self.tokens = min(2 * self.tokens, self._ceiling)

    def failed(self, tokens: int) -> None:
        """A request of so many tokens was too much: stay below for good."""
        with self._lock:
            self._ceiling = min(self._ceiling, max(LEAST_TOKENS, tokens // 2))
            self.tokens = min(self.tokens, self._ceiling)

    def refused(self, texts: int, words: str) -> None:
        """A request of so many texts was too many, and the service may say how many are not."""
        named = re.search(r"(?:maximum allowed batch size|at most|maximum of)\s+(\d+)", words, re.IGNORECASE)
        with self._lock:
            self.texts = max(1, min(self.texts, int(named[1]) if named else texts // 2))


class Batches:
    """Sends texts in batches, some at the same time, and puts the vectors together. Safe to share between threads."""

    def __init__(
        self, service: Service, send: Send, *, requests: int, on_truncation: Callable[[int, int], EmbedderError]
    ) -> None:
        """`on_truncation` makes the error for a text of which only so many tokens of so many were read."""
        self.service = service
        self.size = BatchSize()
        self.requests = requests
        self.on_truncation = on_truncation
        self._send = send
        self._slots = threading.BoundedSemaphore(requests)
        self._timeouts = 0
        self.count_ratio = 1.0
        """The service's count of tokens over ours, the least that turned out to be honest."""

    def embed(
        self, texts: Sequence[str], tokens: Sequence[int], dimension: int, *, whole: bool
    ) -> tuple[Vectors, dict[int, str]]:
        """Unit vectors, shape (len(texts), dimension), and the reason by index of those that have none (NaN rows).

        Args:
            texts: what to embed.
            tokens: our count of each.
            dimension: numbers in a vector.
            whole: whether a text that the service cuts short is an error.

        Raises EmbedderError when the service fails for more than single texts.
        """
        run = _Run(self, texts, tokens, dimension, whole=whole)
        run.finish()
        return run.vectors, run.reasons

    def request(self, texts: Sequence[str]) -> Answer:
        """One attempt, within the number of requests that may be under way."""
        with self._slots:
            try:
                answer = self._send(texts)
            except Trouble as trouble:
                self._timeouts = self._timeouts + 1 if trouble.kind == "slow" else 0
                raise
        self._timeouts = 0
        return answer

    def stuck(self, trouble: Trouble) -> bool:
        """Whether the service gave no answer several times in a row, however small the request."""
        return trouble.kind == "slow" and self._timeouts >= MOST_TIMEOUTS * self.requests

    def patiently(self, texts: Sequence[str]) -> Answer:
        """As `request`, again and again while the service has trouble. Raises Refusal or EmbedderError."""
        patience = self.service.patience()
        while True:
            try:
                return self.request(texts)
            except Trouble as trouble:
                patience.wait(trouble)

    def works(self) -> bool:
        """Whether the service embeds a text that it has no reason not to."""
        try:
            return bool(_lengths(self.request([CONTROL]).vectors)[0] > SHORTEST)
        except (Trouble, Refusal):
            return False


class _Run:
    """One call's texts on their way; workers take batches off the queue until it is empty or one of them fails."""

    def __init__(
        self, batches: Batches, texts: Sequence[str], tokens: Sequence[int], dimension: int, *, whole: bool
    ) -> None:
        self._batches = batches
        self._texts = texts
        self._tokens = tokens
        self._whole = whole
        self.vectors: Vectors = np.full((len(texts), dimension), np.nan, np.float32)
        self.reasons: dict[int, str] = {}
        self._queue = deque(sorted(range(len(texts)), key=lambda index: -tokens[index]))
        # Every worker gets its share even when all would fit into one request.
        self._share = max(LEAST_TOKENS, -(-sum(tokens) // batches.requests))
        self._lock = threading.Lock()
        self._error: BaseException | None = None

    def finish(self) -> None:
        """Work with as many threads as there may be requests, this one included. Raises EmbedderError."""
        total = sum(self._tokens)
        size = min(self._share, self._batches.size.tokens)
        needed = max(-(-total // size), -(-len(self._texts) // self._batches.size.texts))
        # Daemons: a service that hangs must not keep a process alive that was told to stop.
        others = [
            threading.Thread(target=self._work, name=f"bigos-embed-{number}", daemon=True)
            for number in range(1, min(self._batches.requests, needed))
        ]
        for thread in others:
            thread.start()
        self._work()
        try:
            for thread in others if self._error is None else ():
                thread.join()
        except BaseException as error:
            self._error = error
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        try:
            while self._error is None and (batch := self._take()):
                self._embed(batch)
        except BaseException as error:
            self._error = self._error or error

    def _take(self) -> list[int]:
        """The next batch, longest texts first; empty when nothing is left."""
        size = self._batches.size
        batch: list[int] = []
        tokens = length = 0
        with self._lock:
            room = min(self._share, size.tokens)
            while self._queue and len(batch) < size.texts:
                index = self._queue[0]
                tokens += self._tokens[index]
                length += len(self._texts[index].encode("utf-8", "replace"))
                if batch and (tokens > room or length > MOST_BYTES):
                    break
                batch.append(self._queue.popleft())
        return batch

    def _embed(self, batch: Sequence[int]) -> None:
        """Vectors or reasons for a batch; halves of it where it fails as a whole."""
        batches = self._batches
        patience = batches.service.patience()
        tokens = sum(self._tokens[index] for index in batch)
        failures = 0
        while self._error is None:
            started = time.monotonic()
            try:
                answer = batches.request([self._texts[index] for index in batch])
            except Refusal as refusal:
                return self._refused(batch, refusal)
            except Trouble as trouble:
                if batches.stuck(trouble):
                    raise batches.service.gave_up(trouble, 0) from trouble
                if trouble.kind == "slow":
                    batches.size.failed(tokens)
                failures += trouble.kind in ("broken", "failed")
                if len(batch) > 1 and (trouble.kind == "slow" or failures > 1):
                    return self._halved(batch)
                if failures > 1 and batches.works():
                    return self._reject(batch[0], f"the model's server {trouble.what} for this text alone")
                patience.wait(trouble)
            else:
                batches.size.answered(tokens, time.monotonic() - started)
                return self._accept(batch, answer)
        return None

    def _halved(self, batch: Sequence[int]) -> None:
        middle = len(batch) // 2
        self._embed(batch[:middle])
        self._embed(batch[middle:])

    def _refused(self, batch: Sequence[int], refusal: Refusal) -> None:
        batches = self._batches
        if len(batch) > 1:
            if refusal.about == "memory":
                batches.size.failed(sum(self._tokens[index] for index in batch))
            if refusal.about == "amount":
                batches.size.refused(len(batch), refusal.words)
            return self._halved(batch)
        said = f"the model's server answers {refusal.status} ({refusal.words or 'without a word'})"
        if refusal.about == "nan":
            return self._rescue(batch[0], "the model gives no numbers for this text")
        if refusal.about == "length":
            return self._reject(batch[0], said)
        if batches.works():
            return self._reject(batch[0], f"{said} for this text alone")
        raise EmbedderError(
            f"{batches.service.label} answers {refusal.status} ({refusal.words or 'without a word'}) to every text.",
            fix=batches.service.logs,
        )

    def _accept(self, batch: Sequence[int], answer: Answer) -> None:
        if self._whole:
            self._check_whole(batch, answer.tokens_read)
        lengths = _lengths(answer.vectors)
        sound = lengths > SHORTEST
        rows = np.asarray(batch)
        self.vectors[rows[sound]] = answer.vectors[sound] / lengths[sound, None]
        for index in rows[~sound].tolist():
            self._rescue(index, "the model gives no numbers for this text")

    def _check_whole(self, batch: Sequence[int], read: int | None) -> None:
        """Whether the service read all of each text: some versions drop the end without a word.

        Its count of tokens is compared with ours. Where it is less, the longest text decides: read whole it must count
        what its two halves count, whatever tokenizer the service has.
        """
        ours = sum(self._tokens[index] for index in batch)
        longest = max(batch, key=lambda index: self._tokens[index])
        if not read or self._tokens[longest] < TELLING_TOKENS or read >= SAME_COUNT * self._batches.count_ratio * ours:
            return
        text = self._texts[longest]
        try:
            one = self._batches.patiently([text]).tokens_read
            both = self._batches.patiently(_halves(text)).tokens_read
        except Refusal:
            return  # a model that stumbles over a half has not cut the whole
        if one and both and one < SAME_COUNT * both - SLACK_TOKENS:
            raise self._batches.on_truncation(one, self._tokens[longest])
        self._batches.count_ratio = min(self._batches.count_ratio, read / ours)

    def _rescue(self, index: int, why: str) -> None:
        """Try a text that the model stumbles over in other shapes; one of them mostly goes through.

        The stumbling depends on the exact tokens. The same words with plain white space mean the same, and the mean of
        the halves' vectors nearly so.
        """
        plain = " ".join(unicodedata.normalize("NFC", self._texts[index]).split())
        shapes = [[plain], _halves(plain)]
        for shape in shapes:
            if shape in ([""], [self._texts[index]]):
                continue
            try:
                vectors = self._batches.patiently(shape).vectors
            except Refusal:
                continue
            lengths = _lengths(vectors)
            if (lengths > SHORTEST).all():
                mean = (vectors / lengths[:, None]).mean(axis=0)
                if np.linalg.norm(mean) > SHORTEST:
                    _log.info("%s: %s; embedded it in %d part(s)", self._batches.service.label, why, len(shape))
                    self.vectors[index] = mean / np.linalg.norm(mean)
                    return
        self._reject(index, f"{why}, and not for its halves either")

    def _reject(self, index: int, why: str) -> None:
        self.reasons[index] = why


def _lengths(vectors: Vectors) -> Vectors:
    """The Euclidean length of each row; 0 where it is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        lengths: Vectors = np.linalg.norm(vectors, axis=1)
    return np.where(np.isfinite(lengths), lengths, np.float32(0))


def _halves(text: str) -> list[str]:
    """The text in two parts of about the same length, cut at white space if there is any; else the text alone.

    A long text without any (Chinese, Japanese) is cut in its middle, a short one is a word and has no halves.
    """
    middle = len(text) // 2
    spaces = [at for at in range(len(text) // 4, len(text) * 3 // 4) if text[at].isspace()]
    if not spaces and len(text) < LEAST_UNSPACED:
        return [text]
    cut = min(spaces, key=lambda at: abs(at - middle)) if spaces else middle
    return [text[:cut], text[cut:]]
