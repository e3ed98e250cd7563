#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Waits until the Qdrant of a configuration says that it is ready, at most so many seconds.

    wait_for_qdrant.py --config FILE --seconds N

Exit 0 when it is ready, 1 with one sentence when it is not.
"""

from __future__ import annotations

import argparse
import http.client
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from bigos.config import Config, load_config, user_environment
from bigos.errors import BigosError

PAUSE = 0.5
ANSWER = 5.0
"""Seconds between two questions, and for one answer."""


def on_this_machine(config: Config) -> bool:
    """Whether the address is the loopback's."""
    host = urlsplit(config.qdrant_url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def opener(config: Config) -> urllib.request.OpenerDirector:
    """Asks as Bigos does: with the configured certificates, and never through a proxy on this machine."""
    context = ssl.create_default_context(cafile=str(config.qdrant_ca_file) if config.qdrant_ca_file else None)
    handlers: list[urllib.request.BaseHandler] = [urllib.request.HTTPSHandler(context=context)]
    if on_this_machine(config):
        handlers.append(urllib.request.ProxyHandler({}))
    return urllib.request.build_opener(*handlers)


def wait(config: Config, seconds: float) -> str | None:
    """None when it is ready in time, else what it did instead. What is not Qdrant is not waited for."""
    ask = opener(config)
    url = config.qdrant_url.rstrip("/") + "/readyz"
    deadline = time.monotonic() + seconds
    while True:
        try:
            with ask.open(url, timeout=ANSWER) as answer:
                text = answer.read(200)
            # Any web server may answer 200; Qdrant's sentence here is about its shards.
            return None if b"ready" in text and b"<" not in text else "something that is not Qdrant answers there"
        except urllib.error.HTTPError as error:
            error.close()
            if error.code < http.HTTPStatus.INTERNAL_SERVER_ERROR:
                return f"it answers HTTP {error.code}"
            seen = "it is still loading" if error.code == http.HTTPStatus.SERVICE_UNAVAILABLE else f"HTTP {error.code}"
        except (OSError, http.client.HTTPException, ValueError) as error:
            seen = str(getattr(error, "reason", error) or type(error).__name__)
        if time.monotonic() + PAUSE > deadline:
            return seen
        time.sleep(PAUSE)


def main(argv: list[str]) -> int:
    """Exit 0 or 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    arguments = parser.parse_args(argv)
    try:
        config = load_config(user_environment(), config_file=arguments.config)
        seen = wait(config, arguments.seconds)
    except (BigosError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if seen is None:
        return 0
    late = f"Qdrant at {config.qdrant_url} is not ready (waited up to {arguments.seconds:g} s): {seen}."
    cure = "journalctl --user -u qdrant -n 50" if on_this_machine(config) else f"curl {config.qdrant_url}/readyz"
    print(f"error: {late}\nhint: {cure}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
