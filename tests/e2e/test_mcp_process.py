# SPDX-License-Identifier: GPL-2.0-only
"""The MCP server as a process: what is on its stdout, byte for byte, and how it ends."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from command_line import Home
from processes import PATIENCE, group_is_running, until

TIMEOUT = PATIENCE
SOON = 20.0
"""Seconds: far less than what the server was at would take. Clients kill after 2; a busy machine must fail no test."""

NOISY = """
import os, sys, threading
from bigos import mcp_server

ended = threading.Event()

def noise():
    while not ended.wait(0.005):
        if os.path.samestat(os.fstat(1), os.fstat(2)):
            print("a stray print", flush=True)
            os.write(1, b"a stray write of a native library\\n")

thread = threading.Thread(target=noise)
thread.start()
code = mcp_server.main([])
ended.set()
thread.join()
sys.exit(code)
"""


class Server:
    """A server in a session (and so a process group) of its own, spoken to in lines."""

    def __init__(self, home: Home, *command: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *(command or ("-m", "bigos.mcp_server"))],
            env=home.environment(),
            cwd=home.path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.lines: list[bytes] = []
        self.stderr = b""
        self._messages: queue.Queue[Any] = queue.Queue()
        self._threads = [threading.Thread(target=target, daemon=True) for target in (self._listen, self._drain)]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(TIMEOUT)
        for thread in self._threads:
            thread.join(TIMEOUT)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            try:
                self._messages.put(json.loads(line))
            except ValueError:
                self._messages.put({"not JSON": line})

    def _drain(self) -> None:
        assert self.process.stderr is not None
        self.stderr = self.process.stderr.read()

    def write(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def send(self, method: str, params: dict[str, Any] | None = None, number: int | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        self.write(json.dumps(message if number is None else message | {"id": number}))

    def call(self, number: int, tool: str, **arguments: Any) -> None:
        params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": f"call {number}"}}
        self.send("tools/call", params, number)

    def wait_for(self, wanted: Any) -> Any:
        """The next message that fits; others are passed over."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            message = self._messages.get(timeout=max(0.1, deadline - time.monotonic()))
            if wanted(message):
                return message

    def answer(self, number: int) -> Any:
        return self.wait_for(lambda message: message.get("id") == number)

    def initialize(self) -> None:
        client = {"name": "test", "version": "1"}
        self.send("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}, 0)
        assert "result" in self.answer(0)
        self.send("notifications/initialized")

    def ingest_begun(self, number: int, path: Path) -> None:
        """Call for an ingest and wait until the model works on it."""
        self.call(number, "ingest_document", path=str(path))
        begun = self.wait_for(lambda m: m.get("id") == number or " of " in m.get("params", {}).get("message", ""))
        assert "id" not in begun, begun

    def close_stdin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def ended(self) -> tuple[int, float]:
        """Wait for the end: exit code, seconds. The workers have to be gone, too."""
        started = time.monotonic()
        code = self.process.wait(TIMEOUT)
        seconds = time.monotonic() - started
        until(lambda: not group_is_running(self.process.pid), 60, lambda: "a worker outlived the server")
        return code, seconds


@pytest.fixture
def many(home: Home) -> Path:
    """More files than can be embedded in the time that a test takes."""
    folder = home.path / "many"
    folder.mkdir()
    for number in range(3000):
        (folder / f"{number}.txt").write_text(
            f"Screw number {number} is tightened by hand, then a quarter turn more.\n"
        )
    return folder


@pytest.fixture
def novel(home: Home) -> Path:
    """One file that takes far longer than anybody waits for a server to end."""
    file = home.path / "novel.txt"
    file.write_text(
        "".join(f"Chapter {n}: nothing much happens, slowly, and in many words.\n\n" for n in range(40_000))
    )
    return file


def test_stdout_carries_the_protocol_and_nothing_else(home: Home) -> None:
    (home.path / "notes.md").write_text("# Watchdog\n\nThe watchdog resets the board after two seconds of silence.\n")
    with Server(home, "-c", NOISY) as server:
        server.initialize()
        server.write("this is no JSON")
        server.write("")
        server.send("tools/list", number=1)
        server.answer(1)
        server.call(2, "ingest_document", path="notes.md")
        assert server.answer(2)["result"]["structuredContent"]["files"]["added"] == 1
        server.call(3, "search_knowledge_base", query="po jakim czasie układ nadzorujący restartuje płytkę")
        assert "two seconds" in server.answer(3)["result"]["content"][0]["text"]
        server.close_stdin()
        assert server.ended()[0] == 0
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in server.lines)
    assert b"a stray write" in server.stderr
    assert b"a stray print" in server.stderr


def test_the_handshake_opens_and_creates_nothing(home: Home) -> None:
    with Server(home) as server:
        server.initialize()
        server.send("tools/list", number=1)
        server.answer(1)
        assert home.everything() == []
        server.close_stdin()
        code, seconds = server.ended()
    assert (code, server.stderr) == (0, b"")
    assert seconds < SOON


def test_requests_that_came_before_the_end_of_stdin_are_answered(home: Home) -> None:
    with Server(home) as server:
        server.initialize()
        server.call(1, "search_knowledge_base", query="zegar")
        server.answer(1)  # the model is loaded: nobody knows how long that takes, and a server waits for 10 s
        server.call(2, "search_knowledge_base", query="zegar")
        server.close_stdin()
        assert server.answer(2)["result"]["structuredContent"]["hits"] == []
        assert server.ended()[0] == 0


def test_the_last_request_needs_no_end_of_its_line(home: Home) -> None:
    with Server(home) as server:
        server.initialize()
        server.send("tools/list", number=1)
        server.answer(1)
        assert server.process.stdin is not None
        server.process.stdin.write(b'{"jsonrpc": "2.0", "id": 2, "method": "ping"}')
        server.close_stdin()
        assert server.answer(2)["result"] == {}
        assert server.ended()[0] == 0


def test_a_stdin_that_does_not_block_is_not_taken_for_one_that_has_ended(home: Home) -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    process = subprocess.Popen(
        [sys.executable, "-m", "bigos.mcp_server"],
        env=home.environment(),
        cwd=home.path,
        stdin=reading,
        stdout=subprocess.PIPE,
    )
    os.close(reading)
    with process, os.fdopen(writing, "wb", buffering=0) as stdin:
        assert process.stdout is not None
        for number in range(1, 4):  # each when the one before is answered, and nothing was there to be read
            stdin.write(f'{{"jsonrpc": "2.0", "id": {number}, "method": "ping"}}\n'.encode())
            assert json.loads(process.stdout.readline())["id"] == number
        stdin.close()
        assert process.wait(TIMEOUT) == 0


def test_a_client_that_goes_in_the_middle_of_an_ingest_ends_the_server_and_keeps_what_is_done(
    home: Home, many: Path
) -> None:
    (home.path / "first.txt").write_text("The first file is in the index.\n")
    with Server(home) as server:
        server.initialize()
        server.call(1, "ingest_document", path="first.txt")
        server.answer(1)
        server.ingest_begun(2, many)
        server.close_stdin()
        code, seconds = server.ended()
    assert code == 0
    assert seconds < SOON
    status = home.bigos("status", "--json").json
    assert 1 <= status["documents"] < 3001


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_even_in_the_middle_of_one_large_file(
    home: Home, novel: Path, sign: signal.Signals
) -> None:
    with Server(home) as server:
        server.initialize()
        server.ingest_begun(1, novel)
        server.process.send_signal(sign)
        code, seconds = server.ended()
    assert code == 0
    assert seconds < SOON
    assert b"Traceback" not in server.stderr


def test_a_cancelled_ingest_stops_and_lets_the_next_one_in(home: Home, many: Path) -> None:
    (home.path / "next.txt").write_text("The next file is in the index.\n")
    with Server(home) as server:
        server.initialize()
        server.ingest_begun(1, many)
        server.call(2, "ingest_document", path="next.txt")
        server.send("ping", number=3)
        assert server.answer(3)["result"] == {}
        server.send("notifications/cancelled", {"requestId": 1, "reason": "enough"})
        assert server.answer(2)["result"]["structuredContent"]["files"]["added"] == 1
        server.call(4, "knowledge_base_status")
        assert server.answer(4)["result"]["structuredContent"]["documents"] < 3001
        server.close_stdin()
        assert server.ended()[0] == 0
    assert not any(json.loads(line).get("id") == 1 for line in server.lines)


def test_a_broken_model_is_a_sentence_with_its_fix_and_the_server_lives_on(home: Home, tmp_path: Path) -> None:
    home.models = tmp_path / "no models"
    with Server(home) as server:
        server.initialize()
        for number in (1, 2):
            server.call(number, "search_knowledge_base", query="zegar")
            result = server.answer(number)["result"]
            assert result["isError"]
            assert result["content"][0]["text"].endswith("\nhint: ./setup.sh")
        server.close_stdin()
        assert server.ended()[0] == 0


def test_a_configuration_that_cannot_be_right_is_told_on_stderr(home: Home) -> None:
    with Server(Home(home.path, env={"BIGOS_STORE": "paper"})) as server:
        code, _ = server.ended()
    assert code == 2
    assert server.lines == []
    assert b"hint: " in server.stderr


def test_an_option_that_there_is_not_is_one_sentence_with_its_fix(home: Home) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bigos.mcp_server", "--recursive"],
        env=home.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: python -m bigos.mcp_server has no option --recursive.\nhint: ")
    assert len(done.stderr.splitlines()) == 2
