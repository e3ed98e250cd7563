# SPDX-License-Identifier: GPL-2.0-only
"""What setup.sh installs from the distribution, and that it runs nothing as root that was not said and agreed to."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest

from fake_checkout import sentence_and_hint
from fake_machine import IDENTITY, PACKAGES, Machine
from processes import PATIENCE


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def on_a_terminal(machine: Machine, answers: str, *flags: str, **variables: str) -> tuple[int, str]:
    """Exit code and stderr of a run whose stdin is a terminal with these answers typed."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [str(machine.path / "setup.sh"), *flags], env=machine.variables(variables), stdin=theirs,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        os.close(theirs)
        os.write(ours, answers.encode())
        _, stderr = process.communicate(timeout=PATIENCE)
    os.close(ours)
    # The answer's own line end was echoed on the terminal, which is not what is read here.
    return process.returncode, stderr.replace("[Y/n] ", "[Y/n]\n")


def test_sudo_is_asked_for_by_itself_and_a_no_is_kept(machine: Machine) -> None:
    code, stderr = on_a_terminal(machine, "y\nn\n", "--with-ocr")
    assert code == 1
    sentence, hint = sentence_and_hint(stderr)
    assert "not done, as you said" in sentence
    assert hint.startswith("sudo apt-get install -y tesseract-ocr")
    assert machine.did() == []
    code, stderr = on_a_terminal(machine, "y\ny\n", "--with-ocr")
    assert code == 0, stderr
    assert machine.did()[0].startswith("sudo apt-get install -y tesseract-ocr")  # on a terminal, with its own question
    assert "Run it? [Y/n]" in stderr


def test_without_a_terminal_and_without_yes_nothing_is_run_as_root(machine: Machine) -> None:
    result = machine.setup("--with-ocr", "--with-ollama-dropin")
    assert result.returncode == 2
    assert sentence_and_hint(result.stderr)[1] == "./setup.sh --with-ocr --with-ollama-dropin --yes"
    assert "with sudo, asked for at its turn: apt-get install -y tesseract-ocr" in result.stderr
    assert machine.did() == []


def test_without_sudo_the_command_for_root_is_said(machine: Machine) -> None:
    machine.without("sudo")
    result = machine.setup("--with-ocr", "--yes")
    assert result.returncode == 1
    assert sentence_and_hint(result.stderr)[1].startswith("as root: apt-get install -y tesseract-ocr")


def test_root_needs_no_sudo(machine: Machine) -> None:
    machine.executable("id", IDENTITY.replace("1000", "0").replace("case", "#!/usr/bin/env bash\ncase", 1))
    assert machine.setup("--with-ocr", "--yes").returncode == 0
    assert machine.did()[0].startswith("apt-get install")


@pytest.mark.parametrize(
    ("manager", "command"),
    [
        ("pacman", "pacman -S --needed --noconfirm podman tesseract tesseract-data-eng tesseract-data-pol"),
        ("apt-get", f"apt-get install -y {PACKAGES}"),
        ("dnf", "dnf install -y podman tesseract tesseract-langpack-eng tesseract-langpack-pol"),
    ],
)
def test_each_distribution_has_its_command(tmp_path: Path, manager: str, command: str) -> None:
    machine = Machine(tmp_path, manager)
    machine.without("podman")
    assert machine.setup("--server", "--with-ocr", "--yes").returncode == 0
    assert machine.did()[1].startswith(command)


def test_another_distribution_is_told_what_to_install(machine: Machine) -> None:
    machine.without("apt-get")
    result = machine.setup("--with-ocr", "--yes")
    assert result.returncode == 1
    assert sentence_and_hint(result.stderr)[1].startswith("install tesseract with its data for pol and eng, poppler")
