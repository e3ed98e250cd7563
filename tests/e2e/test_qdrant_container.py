# SPDX-License-Identifier: GPL-2.0-only
"""containers/qdrant.container: what it promises, its health check, and waiting until it is ready over a real socket."""

from __future__ import annotations

import http.server
import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from doubles.embedding_server import reserved_port
from fake_checkout import ROOT, sentence_and_hint
from processes import PATIENCE

UNIT = ROOT / "containers" / "qdrant.container"


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers GET with the next of `server.answers`, the last one for ever."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Answering)
        server.asked.append(self.path)
        code, text = server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *arguments: object) -> None:
        pass


class Answering(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *answers: tuple[int, str]) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.answers, self.asked = list(answers), list[str]()


@contextmanager
def answering(*answers: tuple[int, str]) -> Iterator[Answering]:
    server = Answering(*answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


READY = (200, "all shards are ready")
LOADING = (503, "some shards are not ready")


@pytest.mark.parametrize(
    ("answers", "seconds", "code", "seen"),
    [
        ([READY], "0", 0, ""),
        ([LOADING, READY], "200", 0, ""),
        ([LOADING], "0", 1, "it is still loading"),
        ([(200, "<html>router</html>")], "200", 1, "something that is not Qdrant answers there"),
        ([(404, "")], "200", 1, "HTTP 404"),
        ([], "0", 1, "refused"),
    ],
)
def test_waiting_for_qdrant_ends_when_it_is_ready_or_says_what_it_did(
    tmp_path: Path, answers: list[tuple[int, str]], seconds: str, code: int, seen: str
) -> None:
    with answering(*(answers or [READY])) as server, reserved_port() as silent:
        config = tmp_path / "config.toml"
        port = server.server_port if answers else silent.getsockname()[1]
        config.write_text(f'qdrant_url = "http://127.0.0.1:{port}"\n', encoding="utf-8")
        command = [sys.executable, str(ROOT / "scripts" / "setup" / "wait_for_qdrant.py"), "--config", str(config)]
        # A proxy must not hear of it.
        env = {"HOME": str(tmp_path), "http_proxy": "http://127.0.0.1:9"}
        result = subprocess.run(
            [*command, "--seconds", seconds], env=env, capture_output=True, text=True, timeout=PATIENCE
        )
    assert result.returncode == code, result.stderr
    assert result.stdout == ""
    if code:
        assert seen in sentence_and_hint(result.stderr)[0]
    else:
        assert server.asked == ["/readyz"] * len(answers)


def health_command() -> list[str]:
    """As podman runs it: a value that is a JSON array is the command word by word."""
    (line,) = (line for line in UNIT.read_text("utf-8").splitlines() if line.startswith("HealthCmd="))
    command: list[str] = json.loads(line.removeprefix("HealthCmd="))
    assert not set("%$") & set(line), "systemd would expand it"
    return command


@pytest.mark.parametrize(("answer", "healthy"), [(READY, True), (LOADING, False), (None, False)])
def test_the_health_check_of_the_container_needs_nothing_but_bash_and_grep(
    tmp_path: Path, answer: tuple[int, str] | None, healthy: bool
) -> None:
    with answering(answer or READY) as server, reserved_port() as silent:
        port = server.server_port if answer else silent.getsockname()[1]
        command = [word.replace("6333", str(port)) for word in health_command()]
        for name in ("bash", "grep"):
            (tmp_path / name).symlink_to(shutil.which(name) or name)
        done = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, timeout=PATIENCE)
    assert (done.returncode == 0) == healthy, done.stderr


def test_the_unit_keeps_qdrant_to_this_machine_and_within_bounds() -> None:
    settings: dict[str, list[str]] = {}
    for line in UNIT.read_text("utf-8").splitlines():
        key, sign, value = line.partition("=")
        if sign and not line.startswith(("#", "[")):
            settings.setdefault(key, []).append(value)
    assert settings["PublishPort"] == ["127.0.0.1:6333:6333", "127.0.0.1:6334:6334"]
    assert re.fullmatch(r"docker\.io/qdrant/qdrant:v\d+\.\d+\.\d+", settings["Image"][0])
    assert all(
        re.fullmatch(r"%h/\.local/share/bigos/qdrant/\w+:/qdrant/\w+:Z", volume) for volume in settings["Volume"]
    )
    assert "QDRANT__TELEMETRY_DISABLED=true" in settings["Environment"]
    assert settings["LimitNOFILE"] == ["65536"]
    assert settings["MemoryMax"] == ["6G"]
    assert settings["Restart"] == ["on-failure"]
    assert settings["WantedBy"] == ["default.target"]
    # A key that an old podman does not know makes no service at all. These are the ones that podman 4.6 knows.
    keys = UNIT.read_text("utf-8").partition("[Container]")[2].partition("[Service]")[0]
    known = {"ContainerName", "Image", "PublishPort", "Volume", "Environment", "PodmanArgs", "NoNewPrivileges",
             "HealthCmd", "HealthInterval", "HealthTimeout", "HealthRetries", "HealthStartPeriod"}  # fmt: skip
    assert set(re.findall(r"^(\w+)=", keys, re.MULTILINE)) <= known


def test_the_image_is_within_one_minor_version_of_the_client() -> None:
    import importlib.metadata

    image = re.search(r"qdrant:v(\d+)\.(\d+)", UNIT.read_text("utf-8"))
    client = importlib.metadata.version("qdrant-client").split(".")
    assert image is not None
    assert int(image[1]) == int(client[0])
    assert abs(int(image[2]) - int(client[1])) <= 1
