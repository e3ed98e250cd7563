# SPDX-License-Identifier: GPL-2.0-only
"""scripts/pull_models.sh, with an Ollama that is a fake."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fake_checkout import sentence_and_hint
from fake_machine import Machine
from processes import PATIENCE


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def pulled(machine: Machine, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(machine.path / "scripts" / "pull_models.sh"), *arguments], env=machine.variables(variables),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip


def test_models_are_pulled_once_by_any_of_their_names(machine: Machine) -> None:
    assert pulled(machine, "--check").returncode == 1
    assert pulled(machine).returncode == 0
    assert pulled(machine, "bge-m3:latest", "qwen3-embedding:0.6b").returncode == 0
    assert pulled(machine, "--check", "bge-m3", "qwen3-embedding:0.6b").returncode == 0
    assert machine.did() == ["ollama pull bge-m3", "ollama pull qwen3-embedding:0.6b"]
    assert pulled(machine, "--check", "qwen3-embedding:0x6b").returncode == 1  # a dot is a dot


@pytest.mark.parametrize(
    ("said", "sentence", "hint"),
    [
        ("Error: pull model manifest: file does not exist", "Ollama's registry has no model bge-m3.", "ollama list"),
        ("Error: write /x: no space left on device", "the disk became full while bge-m3", "free some space"),
        (
            "Error: dial tcp: lookup registry: no such host",
            "bge-m3 was not pulled: Error: dial tcp",
            "check the network",
        ),
    ],
)
def test_why_a_model_was_not_pulled_is_told(machine: Machine, said: str, sentence: str, hint: str) -> None:
    machine.executable("ollama", f'#!/usr/bin/env bash\n[[ $1 == list ]] || {{ echo "{said}" >&2; exit 1; }}\n')
    result = pulled(machine)
    assert result.returncode == 1
    told, advice = sentence_and_hint(result.stderr)
    assert told.startswith(sentence)
    assert advice.startswith(hint)


def test_a_disk_without_room_for_the_model_is_said_before_it_is_pulled(machine: Machine) -> None:
    machine.executable("df", '#!/usr/bin/env bash\necho "Filesystem 1024-blocks"\necho "disk 900000 1 102400 1% /"\n')
    result = pulled(machine, OLLAMA_MODELS=str(machine.home))
    assert result.returncode == 1
    assert sentence_and_hint(result.stderr)[0] == f"{machine.home} has 100 MB free, and bge-m3 needs 1200 MB."
    assert machine.did() == []


@pytest.mark.parametrize("arguments", [["--nonsense"], ["-x", "bge-m3"]])
def test_a_flag_that_pull_models_does_not_know_is_exit_2(machine: Machine, arguments: list[str]) -> None:
    result = pulled(machine, *arguments)
    assert result.returncode == 2
    assert sentence_and_hint(result.stderr)[1] == "scripts/pull_models.sh --help"
