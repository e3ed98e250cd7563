# SPDX-License-Identifier: GPL-2.0-only
"""scripts/smoke_test.py --config: the configured pair is proved in a collection of its own, which then goes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from bigos.config import user_environment
from doubles.embedding_server import EmbeddingServer
from doubles.qdrant_server import QdrantDouble
from fake_checkout import ROOT, sentence_and_hint
from processes import PATIENCE


def proof(tmp_path: Path, settings: str) -> subprocess.CompletedProcess[str]:
    config = tmp_path / "proof.toml"
    config.write_text(settings, encoding="utf-8")
    command = [sys.executable, str(ROOT / "scripts" / "smoke_test.py"), "--config", str(config)]
    env = {**user_environment(), "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE)


def test_the_proof_goes_through_the_configured_server_and_leaves_nothing_there(tmp_path: Path) -> None:
    with QdrantDouble() as server:
        result = proof(tmp_path, f'store = "server"\nqdrant_url = "{server.url}"\n')
        assert result.returncode == 0, result.stderr
        assert "the answers were found in the other language" in result.stdout
        assert any(re.fullmatch(r"PUT /collections/bigos-smoke-\w+", request) for request in server.requests)
        assert server.engine.get_collections().collections == []
    assert not list(tmp_path.glob("bigos-smoke-*"))


def test_a_proof_that_fails_leaves_nothing_there_either(tmp_path: Path) -> None:
    with QdrantDouble() as server, EmbeddingServer() as service:
        settings = f'store = "server"\nqdrant_url = "{server.url}"\nembedder = "ollama"\nollama_url = "{service.url}"\n'
        result = proof(tmp_path, settings + 'ollama_model = "absent"\n')
        assert result.returncode == 1
        assert "ollama pull absent" in sentence_and_hint(result.stderr)[0]
        assert any(re.fullmatch(r"DELETE /collections/bigos-smoke-\w+", request) for request in server.requests)


def test_a_proof_with_a_wrong_configuration_is_one_sentence(tmp_path: Path) -> None:
    result = proof(tmp_path, "stor = 1\n")
    assert result.returncode == 1
    assert "stor" in sentence_and_hint(result.stderr)[0]
