# SPDX-License-Identifier: GPL-2.0-only
"""What can go wrong between us and a Qdrant server -> one sentence, what cures it, and whether waiting may help.

Three libraries speak here (httpx under REST, gRPC, and the client's own exceptions), besides the server itself, whose
errors are a status code and a text. No message holds the API key, whatever it was made of.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import re
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from bigos.errors import FingerprintMismatch, StoreError


class Patience(Enum):
    """What trying the same request again is worth. Every request of the store may be sent twice."""

    NONE = "none"
    BRIEF = "brief"
    """A few times within two seconds: the server is up but stumbled."""
    LONG = "long"
    """As long as one waits for a server to come up."""


class NoCollection(StoreError):
    """The server has no collection of this name."""


class CollectionExists(StoreError):
    """The server has a collection of this name already."""


class Fault(NamedTuple):
    """A failed request. `retry_after` is in seconds, where the server named it."""

    error: StoreError
    patience: Patience = Patience.NONE
    retry_after: float | None = None


@dataclass(frozen=True)
class Address:
    """Where the collection is, as messages name it."""

    url: str
    collection: str
    timeout: float
    secret: str | None = field(default=None, repr=False)

    @property
    def shown(self) -> str:
        """Scheme, host and port, without what a URL may carry of user and password."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"

    @property
    def loopback(self) -> bool:
        """Whether the server is on this machine."""
        host = urlsplit(self.url).hostname or ""
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return host == "localhost" or host.endswith(".localhost")
        return address.is_loopback or address.is_unspecified  # 0.0.0.0 is where a server listens, and so this machine

    @property
    def login(self) -> str | None:
        """User and password of the URL as an Authorization header: a proxy before the server may want them."""
        parts = urlsplit(self.url)
        if parts.username is None:
            return None
        words = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        return f"Basic {base64.b64encode(words.encode()).decode()}"

    def service(self, verb: str) -> str:
        """The command that does `verb` to the server."""
        if self.loopback:
            return f"systemctl --user {verb} qdrant"
        return f"{verb} Qdrant on {urlsplit(self.url).hostname}"

    @property
    def journal(self) -> str:
        """Where the server says more."""
        if self.loopback:
            return "journalctl --user -u qdrant -n 50"
        return f"read Qdrant's log on {urlsplit(self.url).hostname}"

    def clean(self, text: str) -> str:
        """A foreign text in one short line, without the key."""
        line = " ".join(text.split())[:200].rstrip(".")
        return line.replace(self.secret, "***") if self.secret else line


_FULL = re.compile(r"no space left|os error 28\b|disk (is )?full|storagefull|disk quota|insufficient storage", re.I)
_FILES = re.compile(r"too many open files|os error 24\b", re.I)
_MEMORY = re.compile(r"out of memory|cannot allocate memory|os error 12\b", re.I)
_NO_COLLECTION = re.compile(r"collection `?[^`]*`? (doesn't exist|not found)|doesn't exist!", re.I)
_EXISTS = re.compile(r"already exists", re.I)
_DIMENSION = re.compile(r"vector dimension error|dimension mismatch|wrong input: vector .*dim", re.I)
_NODE = re.compile(r"status: unavailable|read operations failed|active replica|replicas? (is|are) not available", re.I)
_TLS = re.compile(r"\[SSL|_ssl\.c|SSL_|CERTIFICATE_VERIFY|TLS handshake", re.I)
_UNKNOWN_HOST = re.compile(r"name or service not known|nodename nor servname|no address associated", re.I)

_DOWN = (502, 503, 504)


def fault(error: Exception, where: Address) -> Fault:  # noqa: PLR0911 - one return a cause
    """Any exception that the client raised."""
    from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

    if isinstance(error, UnexpectedResponse):
        return _answered(error.status_code or 0, bytes(error.content or b""), where)
    if isinstance(error, ResourceExhaustedResponse):
        return _busy(where, float(error.retry_after_s))
    if isinstance(error, QdrantException):  # a 429 whose Retry-After is no number
        return _busy(where, None)
    if isinstance(error, ResponseHandlingException):
        return _not_answered(error.source, where)
    if hasattr(error, "code") and callable(error.code):
        return _grpc(error, where)
    if isinstance(error, json.JSONDecodeError) and error.doc.lstrip().startswith("<"):
        return not_qdrant(where, "it answered with a web page")
    text = str(error)
    if _NO_COLLECTION.search(text):  # the client's in-memory server raises plain ValueError for both
        return _no_collection(where)
    if _EXISTS.search(text):
        return Fault(CollectionExists(f"{_name(where)} exists already."))
    if _DIMENSION.search(text) or "could not broadcast" in text:
        return _dimension(text, where)
    return _unreadable(where, text)


def _name(where: Address) -> str:
    return f"the collection {where.collection} on {where.shown}"


def _answered(status: int, body: bytes, where: Address) -> Fault:  # noqa: PLR0911 - one return a cause
    """The server said something else than 200."""
    text = _server_words(body)
    if status == 401:
        return _key(where)
    if status == 403:
        return Fault(
            StoreError(
                f"Qdrant at {where.shown} does not let this API key do that.",
                fix="set qdrant_api_key to a key that may read and write",
            )
        )
    if text is None and not 500 <= status < 600:
        return not_qdrant(where, f"it answered {status}")
    words = text or ""
    if status == 404 and _NO_COLLECTION.search(words):
        return _no_collection(where)
    if status == 409 or (status == 400 and _EXISTS.search(words)):
        return Fault(CollectionExists(f"{_name(where)} exists already."))
    if status == 429:
        return _busy(where, None)
    if status == 413:
        return Fault(
            StoreError(
                f"Qdrant at {where.shown} takes no request as large as ours (some 2 MB).",
                fix="set service.max_request_size_mb: 32 in the server's configuration",
            )
        )
    known = _known_words(status, words, where)
    if known is not None:
        return known
    if status in _DOWN:
        return Fault(
            StoreError(
                f"Qdrant at {where.shown} is not ready ({status}).",
                fix=where.service("status"),
            ),
            Patience.LONG,
        )
    if status >= 500:
        detail = where.clean(words) or "no reason given"
        return Fault(
            StoreError(f"Qdrant at {where.shown} failed with {status}: {detail}.", fix=where.journal), Patience.BRIEF
        )
    return Fault(
        StoreError(f"Qdrant at {where.shown} refuses our request ({status}: {where.clean(words)}).", fix=where.journal)
    )


def _known_words(status: int, words: str, where: Address) -> Fault | None:
    """What the server's text tells, whatever its status."""
    if status == 507 or _FULL.search(words):
        return Fault(
            StoreError(
                f"the disk of Qdrant at {where.shown} is full; what was acknowledged before is kept.",
                fix="free space where the server keeps its storage, then run the same command again",
            )
        )
    if _FILES.search(words):
        return Fault(
            StoreError(
                f"Qdrant at {where.shown} may not open more files.",
                fix=(
                    "raise LimitNOFILE of the qdrant unit to 65536 (systemctl --user edit qdrant), "
                    f"then {where.service('restart')}"
                ),
            )
        )
    if _MEMORY.search(words):
        return Fault(
            StoreError(
                f"Qdrant at {where.shown} is out of memory.", fix=f"give it more, then {where.service('restart')}"
            )
        )
    if _DIMENSION.search(words):
        return _dimension(words, where)
    if _NODE.search(words):
        return Fault(
            StoreError(
                f"a node of the Qdrant cluster behind {where.shown} is away, and no other has a copy of its shards.",
                fix="start that node; a collection made with qdrant_replicas = 2 goes on without one",
            ),
            Patience.LONG,
        )
    return None


def _server_words(body: bytes) -> str | None:
    """The text of an error as Qdrant writes it; None when this is not how Qdrant answers."""
    try:
        answer = json.loads(body)
    except ValueError:
        return None
    status = answer.get("status") if isinstance(answer, dict) else None
    return str(status.get("error", "")) if isinstance(status, dict) else None


def _not_answered(source: BaseException, where: Address) -> Fault:  # noqa: PLR0911 - one return a cause
    """The request did not get there, or its answer did not get back."""
    import httpx

    text = str(source)
    if isinstance(source, httpx.TimeoutException):
        return _timeout(where)
    if isinstance(source, httpx.ConnectError):
        return _unreachable(text, where)
    if isinstance(source, httpx.ProxyError):
        return Fault(
            StoreError(
                f"the proxy of this session does not let us through to {where.shown} ({where.clean(text)}).",
                fix=f"export NO_PROXY={urlsplit(where.url).hostname}",
            ),
            Patience.BRIEF,
        )
    if isinstance(source, httpx.LocalProtocolError | httpx.UnsupportedProtocol | httpx.InvalidURL):
        return Fault(StoreError(f"no request can be sent to {where.shown}.", fix="correct qdrant_url"))
    if isinstance(source, httpx.RemoteProtocolError) and "illegal" in text.lower():
        return not_qdrant(where, "it does not speak HTTP")
    if isinstance(source, httpx.TransportError):
        return Fault(StoreError(f"Qdrant at {where.shown} broke the connection off.", fix=where.journal), Patience.LONG)
    if _FILES.search(text):
        return _our_files(where)
    return _unreadable(where, text)


def _unreachable(text: str, where: Address) -> Fault:
    if _FILES.search(text):
        return _our_files(where)
    if _TLS.search(text):
        return Fault(
            StoreError(
                f"no secure connection to Qdrant at {where.shown} ({where.clean(text)}).",
                fix="set qdrant_ca_file to the authority that signed the server's certificate, or qdrant_url to http://",
            )
        )
    if _UNKNOWN_HOST.search(text):
        return Fault(StoreError(f"the host of {where.shown} is not known.", fix="correct qdrant_url"))
    reason = re.sub(r"^\[Errno -?\d+\] ", "", where.clean(text)).lower() or "no connection"
    return Fault(
        StoreError(f"Qdrant at {where.shown} does not run ({reason}).", fix=where.service("start")), Patience.LONG
    )


def _grpc(error: Exception, where: Address) -> Fault:  # noqa: PLR0911 - one return a cause
    """An error of the gRPC channel, by the name of its status."""
    status: Any = error.code()  # type: ignore[attr-defined]
    details: str = (error.details() if hasattr(error, "details") else None) or ""
    known = _known_words(0, details, where)
    if known is not None:
        return known
    match getattr(status, "name", ""):
        case "UNAVAILABLE" if _TLS.search(details):
            return _unreachable(details, where)
        case "UNAVAILABLE":
            return Fault(
                StoreError(
                    f"Qdrant at {where.shown} does not answer on its gRPC port.",
                    fix=f"{where.service('start')}, or set qdrant_grpc = false",
                ),
                Patience.LONG,
            )
        case "DEADLINE_EXCEEDED":
            return _timeout(where)
        case "UNAUTHENTICATED" | "PERMISSION_DENIED":
            return _key(where)
        case "NOT_FOUND":
            return _no_collection(where)
        case "RESOURCE_EXHAUSTED":
            return _busy(where, None)
        case "INTERNAL" | "UNKNOWN" | "ABORTED":
            return Fault(
                StoreError(f"Qdrant at {where.shown} failed: {where.clean(details)}.", fix=where.journal),
                Patience.BRIEF,
            )
        case name:
            return Fault(
                StoreError(
                    f"Qdrant at {where.shown} refuses our request ({name}: {where.clean(details)}).", fix=where.journal
                )
            )


def not_qdrant(where: Address, why: str) -> Fault:
    """Something answers, but not as Qdrant does."""
    return Fault(
        StoreError(
            f"what answers at {where.shown} is not Qdrant ({why}).", fix="correct qdrant_url, or the proxy before it"
        )
    )


def _key(where: Address) -> Fault:
    how = "does not accept qdrant_api_key" if where.secret else "wants an API key"
    return Fault(
        StoreError(
            f"Qdrant at {where.shown} {how}.",
            fix="set qdrant_api_key in config.toml (or BIGOS_QDRANT_API_KEY) to the server's service.api_key",
        )
    )


def _busy(where: Address, retry_after: float | None) -> Fault:
    error = StoreError(
        f"Qdrant at {where.shown} turns requests away, it has too many (429).",
        fix="run the same command again later",
    )
    return Fault(error, Patience.LONG, retry_after=retry_after)


def _timeout(where: Address) -> Fault:
    error = StoreError(
        f"Qdrant at {where.shown} did not answer within {where.timeout:g} s.",
        fix=f"{where.service('restart')}, or raise qdrant_timeout",
    )
    return Fault(error, Patience.LONG)


def _no_collection(where: Address) -> Fault:
    return Fault(NoCollection(f"{_name(where)} is not there.", fix="bigos ingest the folders again"))


def _dimension(text: str, where: Address) -> Fault:
    return Fault(
        FingerprintMismatch(
            f"{_name(where)} holds vectors of another length ({where.clean(text)}).",
            fix="bigos ingest --rebuild, or set the model it was made with",
        )
    )


def _unreadable(where: Address, text: str) -> Fault:
    detail = where.clean(text.partition("\n")[0])
    return Fault(
        StoreError(f"an answer of Qdrant at {where.shown} cannot be read ({detail}).", fix=where.journal),
        Patience.BRIEF,
    )


def _our_files(where: Address) -> Fault:
    return Fault(
        StoreError(f"no connection to Qdrant at {where.shown}: too many files are open here.", fix="ulimit -n 8192")
    )
