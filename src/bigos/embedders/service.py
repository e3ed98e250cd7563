# SPDX-License-Identifier: GPL-2.0-only
"""One question to an embedding service over HTTP, and how long to go on asking it.

The only module that knows httpx: its exceptions and the statuses of an answer end here, as one of

    Trouble         may pass: ask again, later or for less
    Refusal         the service understood the request and will not
    EmbedderError   only the user can cure it

Nothing here shows the API key or a password in the URL, not even when a server repeats it.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import random
import re
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit, urlunsplit

from bigos.errors import ConfigError, EmbedderError

if TYPE_CHECKING:
    import httpx

_log = logging.getLogger(__name__)

CONNECT_SECONDS = 5.0
MOST_BYTES = 1 << 28
"""Of an answer: the vectors of our largest request are a tenth of it, and another server may never stop sending."""
FIRST_WAIT, LONGEST_WAIT = 0.25, 8.0
QUESTION_SECONDS = 30.0
"""For an answer that takes no model."""
QUIET_SECONDS = 1.5
"""A pause that is longer is worth a line to whoever waits."""

_NOT_A_NUMBER = re.compile(r"\bNaN\b|\bInf\b|not finite", re.IGNORECASE)
_TOO_LONG = re.compile(
    r"(context|input|prompt|sequence) (length|size|window)|too large to process|too long|too many tokens"
    r"|maximum context|max_model_len|must have less than|context_length_exceeded",
    re.IGNORECASE,
)
_NO_MEMORY = re.compile(r"out of memory|failed to allocate|unable to allocate|cudaMalloc|OOM", re.IGNORECASE)
_TOO_MANY = re.compile(r"batch size|too many (inputs|texts)|at most \d+ items", re.IGNORECASE)


TroubleKind = Literal["absent", "broken", "slow", "busy", "failed"]


class Trouble(Exception):
    """A request failed in a way that may pass; `what` goes on after the service's name.

    absent: nobody listens. broken: the answer broke off. slow: none came in time. busy: it says to come later.
    failed: it answers with an internal error.
    """

    def __init__(self, kind: TroubleKind, what: str, retry_after: float | None = None) -> None:
        super().__init__(what)
        self.kind: TroubleKind = kind
        self.what = what
        self.retry_after = retry_after


class Refusal(Exception):
    """The service will not do this, and says so: vectors of no numbers, a text too long, or what else."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(f"{status}: {words}")
        self.status = status
        self.words = words

    @property
    def about(self) -> Literal["nan", "memory", "length", "amount", "other"]:
        """What the service does not like, as far as its words and status tell."""
        if _NOT_A_NUMBER.search(self.words):
            return "nan"
        if _NO_MEMORY.search(self.words):
            return "memory"
        # Before the amount: llama.cpp advises another batch size when it is one text that is too long.
        if _TOO_LONG.search(self.words):
            return "length"
        return "amount" if self.status == 413 or _TOO_MANY.search(self.words) else "other"


class Service:
    """An HTTP service that speaks JSON. Safe to share between threads; connections are kept and used again."""

    def __init__(
        self,
        name: str,
        url: str,
        *,
        start: str,
        logs: str,
        probe: str,
        key_setting: str,
        api_key: str | None = None,
        timeout: float,
        load_timeout: float,
        patience: float,
        connections: int,
    ) -> None:
        """Nothing is asked yet.

        Args:
            name: what to call it in messages.
            url: its base; a question's path is appended.
            start, logs: commands that start it and show its log.
            probe: the path of a question that it answers without a model.
            key_setting: what to do when it wants another key.
            api_key: sent as a bearer token.
            timeout, load_timeout: seconds for an answer, and for the first one, before which it loads the model.
            patience: seconds that an outage may last.
            connections: how many to keep open.

        Raises ConfigError for a key that fits in no HTTP header.
        """
        self._base = url.rstrip("/")
        self._key = api_key.strip() if api_key else None
        if self._key and not (self._key.isascii() and self._key.isprintable()):
            raise ConfigError(
                f"the API key for {name} has characters that do not belong into one.", fix="correct the API key"
            )
        shown = _without_password(self._base)
        self._label = f"{name} at {shown}"
        self.start, self.logs, self.inspect, self._key_setting = start, logs, f"curl {shown}{probe}", key_setting
        self._timeout, self._load_timeout = timeout, load_timeout
        self._patience, self._connections = patience, connections
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None
        self._loaded = False
        self.outages = 0
        """How often it went away so far: what comes back may be another one."""

    @property
    def label(self) -> str:
        """Its name and address, as messages show them."""
        return self._label

    def patience(self) -> Patience:
        """The waiting of one request, which begins with its first trouble."""
        return Patience(self, self._patience)

    def ask(self, method: str, path: str, payload: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """A question about the service; it is asked until answered or the patience is used up.

        Raises Refusal or EmbedderError.
        """
        patience = self.patience()
        while True:
            try:
                return self.once(method, path, payload)
            except Trouble as trouble:
                patience.wait(trouble)

    def once(
        self, method: str, path: str, payload: Mapping[str, Any] | None = None, *, loads_model: bool = False
    ) -> dict[str, Any]:
        """The answer's JSON object. Raises Trouble, Refusal or EmbedderError."""
        timeout = self._timeout if loads_model else min(self._timeout, QUESTION_SECONDS)
        if loads_model and not self._loaded:
            timeout = max(self._timeout, self._load_timeout)
            _log.info("%s may have to load the model first; waiting for up to %.0f s", self.label, timeout)
        try:
            answer = self._understood(*self._exchange(method, path, payload, timeout))
        except Trouble as trouble:
            with self._lock:
                self.outages += trouble.kind in ("absent", "broken")
                # What went away loads the model again when it is back; what had its long time gets no second one.
                if trouble.kind == "slow":
                    self._loaded = self._loaded or loads_model
                elif trouble.kind != "failed":
                    self._loaded = False
            raise
        self._loaded = self._loaded or loads_model
        return answer

    def close(self) -> None:
        """Close the connections; the next question opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def gave_up(self, trouble: Trouble, waited: float) -> EmbedderError:
        """What the user is told when a trouble did not pass."""
        fixes: dict[TroubleKind, str] = {"absent": self.start, "slow": "set embed_timeout higher in config.toml"}
        long = f", for {waited:.0f} s now" if waited >= 1 else ""
        return EmbedderError(f"{self.label} {trouble.what}{long}.", fix=fixes.get(trouble.kind, self.logs))

    def is_another(self, what: str) -> EmbedderError:
        """Whatever answers is not the service that was expected."""
        return EmbedderError(f"{self.label} {what}: a proxy or another server listens there.", fix=self.inspect)

    def _open(self) -> httpx.Client:
        import httpx

        with self._lock:
            if self._client is None:
                # At the level at which we tell about pauses, httpx tells about every request.
                logging.getLogger("httpx").setLevel(logging.WARNING)
                headers = {"Content-Type": "application/json", "Accept": "application/json"}
                if self._key:
                    headers["Authorization"] = f"Bearer {self._key}"
                try:
                    self._client = httpx.Client(
                        headers=headers,
                        # A proxy variable must not send what is on this machine to another one and back.
                        trust_env=not is_loopback(self._base),
                        limits=httpx.Limits(max_connections=None, max_keepalive_connections=self._connections),
                    )
                except (ImportError, ValueError, OSError) as error:  # a SOCKS proxy, or no such SSL_CERT_FILE
                    raise EmbedderError(
                        f"{self._label} cannot be asked by way of this session's proxy or certificates: "
                        f"{_one_line(str(error))}.",
                        fix="unset SSL_CERT_FILE SSL_CERT_DIR"
                        if isinstance(error, OSError)
                        else "unset ALL_PROXY all_proxy",
                    ) from error
            return self._client

    def _exchange(
        self, method: str, path: str, payload: Mapping[str, Any] | None, timeout: float
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and body, within `timeout` seconds from the first byte to the last."""
        import httpx

        client = self._open()
        content = None if payload is None else json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace")
        waits = httpx.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS), pool=None)
        deadline = time.monotonic() + timeout
        late = f"gave no whole answer within {timeout:.3g} s"
        try:
            with client.stream(method, self._base + path, content=content, timeout=waits) as response:
                parts, size = [], 0
                for part in response.iter_bytes():
                    parts.append(part)
                    size += len(part)
                    if size > MOST_BYTES:
                        raise self.is_another("does not stop sending")
                    if time.monotonic() > deadline:
                        raise Trouble("slow", late)
                return response.status_code, response.headers, b"".join(parts)
        except httpx.ConnectTimeout as error:
            raise Trouble("absent", "does not answer (no connection in time)") from error
        except httpx.TimeoutException as error:
            raise Trouble("slow", late) from error
        except httpx.ConnectError as error:
            if "SSL" in str(error) or "CERTIFICATE" in str(error):
                raise EmbedderError(
                    f"{self.label} has no TLS connection for us: {_one_line(str(error))}.", fix=self.inspect
                ) from error
            reason = re.sub(r"\[Errno -?\d+\] ", "", _one_line(str(error))).lower() or "no connection"
            raise Trouble("absent", f"does not answer ({reason})") from error
        except httpx.ProxyError as error:
            raise EmbedderError(
                f"the proxy on the way to {self.label} refuses: {_one_line(str(error))}.", fix="unset ALL_PROXY"
            ) from error
        except (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL) as error:
            # Without the library's words, which may repeat a header.
            raise EmbedderError(
                f"{self.label} is no address to ask at.", fix="correct the URL in config.toml"
            ) from error
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise Trouble("broken", "broke off in the middle of an answer") from error
        except RuntimeError as error:
            if client.is_closed:
                raise Trouble("broken", "was closed by another thread") from error
            raise

    def _understood(self, status: int, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
        if status < 300:
            return self._parsed(headers, body)
        words = self._words(body)
        told = f"answers {status}{_phrase(status)}" + (f" ({words})" if words else "")
        if status < 400:
            raise self.is_another(f"{told} and sends us elsewhere")
        if status in (401, 403):
            raise EmbedderError(
                f"{self.label} {told}: it wants an API key" + (" other than ours." if self._key else "."),
                fix=self._key_setting,
            )
        if status in (408, 425, 429, 502, 503, 504):
            raise Trouble("busy", told, _retry_after(headers))
        refusal = Refusal(status, words)
        if status == 501 or status < 500 or refusal.about != "other":
            raise refusal
        raise Trouble("failed", told)

    def _parsed(self, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError) as error:
            if "html" in headers.get("content-type", "") or body.lstrip()[:1] == b"<":
                raise self.is_another("answers with a web page where JSON was due") from error
            raise Trouble("broken", f"sent half an answer ({len(body)} bytes that are no whole JSON)") from error
        if not isinstance(answer, dict):
            raise self.is_another("answers with something else than was asked for")
        return answer

    def _words(self, body: bytes) -> str:
        """What an error's body says, in whichever of the usual shapes."""
        found: Any = None
        with suppress(ValueError, RecursionError):
            found = json.loads(body)
        for key in ("error", "message", "detail", "msg"):
            if isinstance(found, list) and found:
                found = found[0]
            if isinstance(found, dict) and key in found:
                found = found[key]
        words = _one_line(found) if isinstance(found, str) else ""
        return words.replace(self._key, "***") if self._key else words


class Patience:
    """How long one request goes on being asked; the clock starts at its first trouble."""

    def __init__(self, service: Service, seconds: float) -> None:
        self._service = service
        self._seconds = seconds
        self._began: float | None = None
        self._attempts = 0
        self._told = False

    def wait(self, trouble: Trouble) -> None:
        """Sleep before the next attempt. Raises EmbedderError when there is to be none."""
        now = time.monotonic()
        if self._began is None:
            self._began = now
            _log.info("%s %s; asking again for up to %.0f s", self._service.label, trouble.what, self._seconds)
        waited = now - self._began
        left = self._seconds - waited
        # Half of each wait is drawn by lot, so that those who were turned away together do not come back together.
        pause = min(LONGEST_WAIT, FIRST_WAIT * 2**self._attempts) * random.uniform(0.5, 1.0)
        self._attempts += 1
        if trouble.retry_after is not None:
            pause = max(pause, trouble.retry_after)
            if pause > left:
                raise self._service.gave_up(
                    Trouble(trouble.kind, f"{trouble.what} and asks us to wait {trouble.retry_after:.0f} s"), waited
                )
        if left <= 0:
            raise self._service.gave_up(trouble, waited)
        if waited > QUIET_SECONDS and not self._told:
            self._told = True
            _log.warning(
                "%s %s; waiting up to %.0f s more for it (%s)",
                *(self._service.label, trouble.what, left, self._service.gave_up(trouble, 0).fix),
            )
        time.sleep(min(pause, left))


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds of a Retry-After header, which may be a number or a date."""
    value = headers.get("retry-after", "").strip()
    if value.replace(".", "", 1).isdigit():
        return float(value)
    if not value:
        return None
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None


def _phrase(status: int) -> str:
    from http import HTTPStatus

    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""


def is_loopback(url: str) -> bool:
    """Whether the URL's host is this machine."""
    host = urlsplit(url).hostname or ""
    try:
        address = ipaddress.ip_address(host)
        return address.is_loopback or address.is_unspecified  # 0.0.0.0 is where a server listens, and so this machine
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300].rstrip(". ")
