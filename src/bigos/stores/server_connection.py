# SPDX-License-Identifier: GPL-2.0-only
"""The way to a Qdrant server: clients, TLS and keys, waiting for a server that is not up, trying again.

Every request that the store makes may be sent twice (upserts by id, deletes, reads), so a lost answer costs a repeat.
A server that is not there is waited for, up to `wait` seconds; one that was waited for in vain is not waited for again
until it has answered once, so that a session full of searches does not hang in each of them.
"""

from __future__ import annotations

import importlib.metadata
import logging
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from bigos.errors import ConfigError, StoreError
from bigos.stores import server_faults
from bigos.stores.server_faults import Address, Fault, NoCollection, Patience

if TYPE_CHECKING:
    import httpx
    from qdrant_client import QdrantClient
    from qdrant_client.http.models import VersionInfo

_BRIEF_PAUSES = (0.2, 0.5, 1.0)
_LONGEST_PAUSE = 2.0
_TRANSFER_SECONDS = 3600.0
"""A server recovers a snapshot before it answers: minutes for millions of chunks."""
_CONNECTIONS = 16

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class Connection:
    """Clients of one server, made when first needed. Threads may share it.

    Args:
        address: where the server is.
        ca_file: authorities to trust for https; None takes the system's.
        grpc_port: where to upload by gRPC; None does everything by REST.
        wait: seconds to wait for a server that is not up.
        client: use this one instead of making any; it is called by one thread at a time, and never closed here.

    Raises:
        ConfigError: the key, the URL or the file of authorities cannot be used.
    """

    def __init__(
        self,
        address: Address,
        *,
        ca_file: Path | None,
        grpc_port: int | None,
        wait: float,
        client: QdrantClient | None,
    ) -> None:
        key = address.secret
        if key is not None and not (key.isascii() and key.isprintable() and key == key.strip()):
            raise ConfigError("qdrant_api_key has characters that no HTTP header can carry.", fix="copy the key again")
        if client is None and (
            urlsplit(address.url).scheme not in ("http", "https") or not urlsplit(address.url).hostname
        ):
            raise ConfigError(
                f"qdrant_url is not the address of a server: {address.shown}", fix="qdrant_url = http://HOST:6333"
            )
        self.address = address
        self._ca_file = ca_file
        self._grpc_port = grpc_port
        self._wait = wait
        self._handed = client
        self._one_at_a_time = threading.RLock()
        self._opening = threading.Lock()
        self._rest: QdrantClient | None = None
        self._upload: QdrantClient | None = None
        self._given_up = False
        self._version_told = False
        self.when_absent: Callable[[], bool] | None = None
        """Asked when the collection is not there: whether it is by now, and the request is worth sending again."""
        self._asking = threading.local()

    def call(self, request: Callable[[QdrantClient], _T], *, upload: bool = False) -> _T:
        """Send a request, again and again as long as that makes sense. Raises StoreError."""
        started, tries = time.monotonic(), 0
        while True:
            try:
                answer = self._send(request, upload)
            except (StoreError, ConfigError):
                raise
            except Exception as error:
                fault = server_faults.fault(error, self.address)
                tries += 1
                if isinstance(fault.error, NoCollection) and self._is_back():
                    continue
                pause = self._pause(fault, tries, time.monotonic() - started)
                if pause is None:
                    self._given_up = self._given_up or fault.patience is Patience.LONG
                    raise fault.error from error
                if tries == 1 and fault.patience is Patience.LONG:
                    _log.warning("waiting up to %g s for Qdrant: %s", self._wait, fault.error.message)
                time.sleep(pause)
            else:
                if tries and fault.patience is Patience.LONG:
                    _log.warning("Qdrant at %s answers again", self.address.shown)
                self._given_up = False
                return answer

    def _is_back(self) -> bool:
        if self.when_absent is None or getattr(self._asking, "now", False):
            return False
        self._asking.now = True  # it sends requests of its own
        try:
            return self.when_absent()
        finally:
            self._asking.now = False

    def close(self) -> None:
        """Close what was opened. A later call opens it again."""
        with self._opening:
            clients = {id(client): client for client in (self._rest, self._upload) if client is not None}
            self._rest = self._upload = None
        for client in clients.values():
            client.close()

    def download(self, path: str, piece: int) -> Iterator[bytes]:
        """What a GET of `path` gives, in pieces of this size. Raises StoreError; it is not tried again."""
        with self._file_transfer() as http, http.stream("GET", path) as answer:
            if answer.status_code != 200:
                answer.read()
                raise _refused(answer)
            yield from answer.iter_bytes(piece)

    def upload(self, path: str, name: str, stream: IO[bytes]) -> None:
        """POST a file as the form field `name`. Raises StoreError; it is not tried again."""
        with self._file_transfer() as http:
            answer = http.post(path, files={name: stream})
            if answer.status_code != 200:
                raise _refused(answer)

    @contextmanager
    def _file_transfer(self) -> Iterator[httpx.Client]:
        """A way beside the client's, which holds every answer in memory and knows one timeout for all."""
        import httpx
        from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

        try:
            with httpx.Client(
                base_url=self._base_url + "/",
                headers=self._headers(),
                verify=self._trust() if self._base_url.startswith("https") else True,
                trust_env=not self.address.loopback,
                timeout=httpx.Timeout(_TRANSFER_SECONDS, connect=self.address.timeout),
            ) as http:
                yield http
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise server_faults.fault(ResponseHandlingException(error), self.address).error from error
        except UnexpectedResponse as error:
            raise server_faults.fault(error, self.address).error from error

    @property
    def _base_url(self) -> str:
        parts = urlsplit(self.address.url)
        host = parts.netloc.rpartition("@")[2]
        return f"{parts.scheme}://{host if parts.port else f'{host}:6333'}{parts.path.rstrip('/')}"

    def _headers(self) -> dict[str, str]:
        headers = {"api-key": self.address.secret, "authorization": self.address.login}
        return {name: value for name, value in headers.items() if value}

    def version(self) -> VersionInfo:
        """What the server says of itself. Raises StoreError, also for a server that is not Qdrant."""
        info = self.call(lambda client: client.info())
        if "qdrant" not in info.title.lower():
            raise server_faults.not_qdrant(self.address, f"it calls itself {self.address.clean(info.title)}").error
        return info

    def skew(self, server: str) -> str | None:
        """A sentence when the server's version and the client's are further apart than Qdrant promises to work."""
        if self._handed is not None:
            return None
        client = importlib.metadata.version("qdrant-client")
        try:
            (major, minor), (our_major, our_minor) = (
                tuple(int(number) for number in version.lstrip("v").split(".")[:2]) for version in (server, client)
            )
        except ValueError:
            return f"Qdrant at {self.address.shown} calls its version {self.address.clean(server)!r}."
        if major == our_major and abs(minor - our_minor) <= 1:
            return None
        return (
            f"Qdrant at {self.address.shown} is version {server} and its client here {client}: "
            "only one minor version apart is known to work."
        )

    def _pause(self, fault: Fault, tries: int, elapsed: float) -> float | None:
        """Seconds until the next try, None when there should be none."""
        if fault.patience is Patience.NONE or (fault.patience is Patience.LONG and self._given_up):
            return None
        if fault.patience is Patience.BRIEF and tries > len(_BRIEF_PAUSES):
            return None
        pause = _BRIEF_PAUSES[tries - 1] if fault.patience is Patience.BRIEF else min(0.1 * 1.5**tries, _LONGEST_PAUSE)
        if fault.retry_after is not None:
            pause = max(pause, fault.retry_after)
        return pause if elapsed + pause <= self._wait else None

    def _send(self, request: Callable[[QdrantClient], _T], upload: bool) -> _T:
        if self._handed is not None:
            with self._one_at_a_time:
                return request(self._handed)
        return request(self._client(upload and self._grpc_port is not None))

    def _client(self, upload: bool) -> QdrantClient:
        with self._opening:
            if self._rest is None:
                self._rest = self._open(grpc_port=None)
            if not upload:
                return self._rest
            if self._upload is None:
                self._upload = self._open(grpc_port=self._grpc_port)
            return self._upload

    def _open(self, grpc_port: int | None) -> QdrantClient:
        import httpx
        from qdrant_client import QdrantClient

        address = self.address
        secure = urlsplit(address.url).scheme == "https"
        parts = urlsplit(address.url)
        headers = {"api-key": address.secret, "authorization": address.login}
        if any(headers.values()) and not secure and not address.loopback:
            what = "API key" if address.secret else "password"
            _log.warning("the %s goes to %s without encryption: use https://", what, address.shown)
        options: dict[str, Any] = {
            # A proxy is for the way out of the machine; one that is set in the session must not see this.
            "trust_env": not address.loopback,
            "verify": self._trust() if secure else True,
            # The client's default keeps no connection to localhost alive: a new one for every request.
            "limits": httpx.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS),
        }
        if grpc_port is not None:
            options["prefer_grpc"] = True
            options["grpc_port"] = grpc_port
            options["grpc_options"] = {"grpc.enable_http_proxy": int(not address.loopback)}
            authorities = self._ca_file or ssl.get_default_verify_paths().cafile
            if secure and authorities:
                options["grpc_options"]["root_certificates"] = Path(authorities).read_bytes()
        try:
            return QdrantClient(
                url=f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}",
                port=parts.port or 6333,
                # Not api_key=, which warns on standard error about http:// even where nothing leaves the machine.
                headers={name: value for name, value in headers.items() if value} or None,
                timeout=address.timeout,  # type: ignore[arg-type]  # rounds up to whole seconds
                check_compatibility=False,
                **options,
            )
        except (ImportError, ValueError) as error:  # a SOCKS proxy
            raise StoreError(
                f"Qdrant at {address.shown} cannot be asked through this session's proxy: {address.clean(str(error))}.",
                fix="unset ALL_PROXY all_proxy",
            ) from error
        except OSError as error:  # no such SSL_CERT_FILE
            raise StoreError(
                f"Qdrant at {address.shown} cannot be asked with this session's certificates ({error.strerror}).",
                fix="unset SSL_CERT_FILE SSL_CERT_DIR",
            ) from error

    def _trust(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=self._ca_file)
        except OSError as error:  # ssl.SSLError is one
            raise ConfigError(
                f"qdrant_ca_file {self._ca_file} cannot be read as certificates ({error}).",
                fix="correct qdrant_ca_file",
            ) from error

    def tell_skew(self) -> None:
        """Log once when server and client are too far apart. Raises StoreError."""
        if self._version_told or self._handed is not None:
            return
        warning = self.skew(self.version().version)
        if warning is not None:
            _log.warning("%s", warning)
        self._version_told = True


def _refused(answer: httpx.Response) -> Exception:
    from qdrant_client.http.exceptions import UnexpectedResponse

    return UnexpectedResponse.for_response(answer)
