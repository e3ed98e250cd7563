# SPDX-License-Identifier: GPL-2.0-only
"""setup.sh --server and the other steps that reach outside the checkout, on a machine whose programs are fakes.

Each fake notes its call, changes the little world that a test can look at, and fails when told to. What the project
owns runs for real: the scripts of scripts/setup, pull_models.sh, install-keep-alive.sh.
"""

from __future__ import annotations

import http.server
import json
import os
import pty
import re
import socket
import stat
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from bigos.config import user_environment
from doubles.embedding_server import EmbeddingServer
from doubles.qdrant_server import QdrantDouble
from fake_checkout import FAKE_PYTHON, ROOT, Tree, sentence_and_hint

UNIT = ROOT / "containers" / "qdrant.container"

# What every fake begins with. FAIL is a pattern of calls that fail.
BEGIN = r"""#!/usr/bin/env bash
call="${0##*/} $*"
echo "$call" >>"$CALLS"
if [[ -n ${FAIL-} && $call == $FAIL ]]; then echo "${0##*/}: told to fail" >&2; exit 1; fi
"""
PODMAN = r"""case $1 in
--version) echo "podman version ${PODMAN_VERSION-5.4.2}" ;;
image) [[ -e $WORLD/image ]] ;;
pull) touch "$WORLD/image" ;;
esac
"""
SYSTEMCTL = r"""case "$*" in
"--user --quiet is-active qdrant.service") [[ -e $WORLD/active ]] ;;
"--user daemon-reload")
    [[ ! -e $HOME/.config/containers/systemd/qdrant.container ]] || touch "$WORLD/generated" ;;
"--user cat qdrant.service") [[ -e $WORLD/generated ]] ;;
"--user start qdrant.service" | "--user restart qdrant.service") touch "$WORLD/active" ;;
"show ollama.service --property=DropInPaths --value")
    file=$WORLD/ollama.service.d/bigos-keep-alive.conf
    [[ ! -e $file ]] || echo "/etc/x.conf $file" ;;
esac
"""
OLLAMA = r"""case $1 in
list) echo "NAME ID SIZE"; [[ ! -e $WORLD/models ]] || cat "$WORLD/models" ;;
pull) name=$2; [[ $name == *:* ]] || name=$name:latest; echo "$name 790764642607 1.2 GB" >>"$WORLD/models" ;;
esac
"""
LOGINCTL = r"""case $1 in
show-user) [[ ! -e $WORLD/linger ]] || echo yes ;;
enable-linger) touch "$WORLD/linger" ;;
esac
"""
SUDO = r"""[[ $1 != -n ]] || shift
case $1 in
*/install-keep-alive.sh) exec "$1" "$WORLD/ollama.service.d" ;;
*) exec "$@" ;;
esac
"""
# Takes from the shelf what a package would bring.
MANAGER = r"""for name in "$@"; do
    case $name in
    podman) cp "$SHELF/podman" "$BIN/" ;;
    tesseract | tesseract-ocr) cp "$SHELF/tesseract" "$BIN/" ;;
    poppler | poppler-utils) cp "$SHELF/pdftoppm" "$BIN/" ;;
    esac
done
"""
IDENTITY = """case $1 in
-u) echo 1000 ;;
*) echo anna ;;
esac
"""
TESSERACT = 'printf "%s\\n" "List of available languages" eng osd pol\n'
PYTHON = FAKE_PYTHON.replace(
    '"scripts/smoke_test.py")',
    r"""scripts/setup/configuration.py*) exec "$REAL_PYTHON" "$@" ;;
scripts/setup/wait_for_qdrant.py*)
    [[ -z ${FAKE_NEVER_READY-} && -e $WORLD/active ]] && exit
    echo $'error: Qdrant was not ready.\nhint: journalctl' >&2 && exit 1 ;;
"scripts/build_model.py --check --tokenizer-only") [[ -e models/built ]] ;;
"scripts/build_model.py --tokenizer-only")
    [[ -z ${FAKE_MODEL_FAILURE-} ]] || { echo "error: $FAKE_MODEL_FAILURE" >&2 && exit 1; }
    touch models/built ;;
"scripts/smoke_test.py --config "*)
    [[ -z ${FAKE_SMOKE_FAILURE-} ]] || { echo "error: $FAKE_SMOKE_FAILURE" >&2 && exit 1; }
    cat "$3" >"$WORLD/proved"; echo hits ;;
"scripts/smoke_test.py")""",
    1,
)


# Calls that only look.
LOOKS = (
    "id ", "loginctl show-user", "ollama list", "podman --version", "podman image exists", "systemctl --user cat",
    "systemctl --user show-environment", "systemctl --user --quiet is-active", "systemctl cat", "systemctl show",
    "tesseract --list-langs",
)  # fmt: skip
PYTHON_ACTS = ("-m venv", "-m pip", "scripts/build_model.py", "scripts/smoke_test.py")


class Machine(Tree):
    """A checkout on a machine where someone may have podman, Ollama, systemd and a package manager."""

    def __init__(self, folder: Path, manager: str = "apt-get") -> None:
        super().__init__(folder)
        self.world, self.shelf, self.home, self.scratch = (folder / name for name in ("world", "shelf", "home", "tmp"))
        for place in (self.world, self.shelf, self.home, self.scratch):
            place.mkdir()
        self.executable("python3", PYTHON)
        programs = {"systemctl": SYSTEMCTL, "ollama": OLLAMA, "loginctl": LOGINCTL, "sudo": SUDO, manager: MANAGER,
                    "id": IDENTITY, "podman": PODMAN}  # fmt: skip
        for name, text in programs.items():
            self.executable(name, BEGIN + text)
        self.executable("chmod", '#!/bin/sh\nexec /bin/chmod "$@"\n')
        for name, text in {"podman": PODMAN, "tesseract": TESSERACT, "pdftoppm": ""}.items():
            file = self.shelf / name
            file.write_text(BEGIN + text, encoding="utf-8")
            file.chmod(0o755)
        self.config = self.home / ".config" / "bigos" / "config.toml"
        self.unit = self.home / ".config" / "containers" / "systemd" / "qdrant.container"

    def variables(self, more: Mapping[str, str]) -> dict[str, str]:
        places = {"WORLD": self.world, "SHELF": self.shelf, "BIN": self.bin, "HOME": self.home, "TMPDIR": self.scratch}
        own = {name: str(place) for name, place in places.items()}
        return super().variables({**own, "REAL_PYTHON": sys.executable, **more})

    def without(self, *programs: str) -> None:
        for program in programs:
            (self.bin / program).unlink()

    def did(self) -> list[str]:
        """What changed something or proved it, in order, as a person would write it."""
        calls = []
        for line in self.calls.read_text("utf-8").splitlines() if self.calls.exists() else []:
            call = line.replace(f"{self.path}/", "").replace(str(self.path).replace(" ", "\\ ") + "/", "")
            call = re.sub(rf"{self.scratch}/[^/]+/", "", call)
            if call.startswith("PYTHONPATH="):
                call = call.split(" ", 2)[2]
                if not call.startswith(PYTHON_ACTS) or "--check" in call:
                    continue
            if not call.startswith(LOOKS):
                calls.append(call)
        return calls

    def settings(self) -> dict[str, object] | None:
        """What the configuration says; None when there is none."""
        return tomllib.loads(self.config.read_text("utf-8")) if self.config.exists() else None


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


EVERYTHING = ("--server", "--with-ocr", "--enable-linger", "--with-ollama-dropin", "--with-deepseek")
PACKAGES = "podman tesseract-ocr tesseract-ocr-eng tesseract-ocr-pol tesseract-ocr-osd poppler-utils"
PAIR = {"embedder": "ollama", "store": "server"}
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


# --- sudo ------------------------------------------------------------------------------------------------------------


def on_a_terminal(machine: Machine, answers: str, *flags: str, **variables: str) -> tuple[int, str]:
    """Exit code and stderr of a run whose stdin is a terminal with these answers typed."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [str(machine.path / "setup.sh"), *flags], env=machine.variables(variables), stdin=theirs,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        os.close(theirs)
        os.write(ours, answers.encode())
        _, stderr = process.communicate(timeout=60)
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


def pulled(machine: Machine, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(machine.path / "scripts" / "pull_models.sh"), *arguments], env=machine.variables(variables),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
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


# --- config.toml -----------------------------------------------------------------------------------------------------


def configuration(home: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "setup" / "configuration.py"), *arguments]
    return subprocess.run(
        command, env={"HOME": str(home), "LC_ALL": "C.UTF-8", **variables}, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", 'embedder = "ollama"\nstore = "server"\n'),
        ('collection = "work"', 'collection = "work"\nembedder = "ollama"\nstore = "server"\n'),
        (
            '# mine\nembedder = "onnx"  # small\n\nexclude = [\n  "a", # not ]\n]\nstore=\'embedded\'\n',
            '# mine\nembedder = "ollama"  # small\n\nexclude = [\n  "a", # not ]\n]\nstore = "server"\n',
        ),
        ("store = 3\n", 'store = "server"\nembedder = "ollama"\n'),
        ('\r\n"store" = "embedded"\r\n', '\r\nstore = "server"\r\nembedder = "ollama"\r\n'),
        ('a = 1\n[x]\nstore = "mine"\n', 'a = 1\nembedder = "ollama"\nstore = "server"\n[x]\nstore = "mine"\n'),
    ],
)
def test_two_keys_of_the_configuration_change_and_nothing_else(tmp_path: Path, before: str, after: str) -> None:
    file = tmp_path / ".config" / "bigos" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_bytes(before.encode())
    file.chmod(0o640)
    result = configuration(tmp_path, "install")
    assert result.returncode == 0, result.stderr
    assert file.read_bytes() == after.encode()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    (kept,) = file.parent.glob("config.toml.before-*")
    assert kept.read_bytes() == before.encode()
    assert configuration(tmp_path, "install").stderr == ""  # nothing to do
    assert configuration(tmp_path, "check").returncode == 0


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("embedder = \n", "is not TOML"),
        ('exclude = """\nstore = "x"\n"""\nembedder = "onnx"\n', "cannot be changed safely"),
        ("[store]\na = 1\n", "cannot be changed safely"),
    ],
)
def test_a_configuration_that_cannot_be_changed_safely_is_left_as_it_is(
    tmp_path: Path, text: str, sentence: str
) -> None:
    file = tmp_path / "elsewhere.toml"
    file.write_text(text, encoding="utf-8")
    result = configuration(tmp_path, "install", BIGOS_CONFIG=str(file))
    assert result.returncode == 1
    told, _ = sentence_and_hint(result.stderr)
    assert told.startswith(f"{file} ")
    assert sentence in told
    assert file.read_text("utf-8") == text
    assert [path.name for path in tmp_path.iterdir()] == ["elsewhere.toml"]


def test_a_configuration_that_is_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    kept = tmp_path / "dotfiles" / "bigos.toml"
    kept.write_text("max_files = 9\n", encoding="utf-8")
    link = tmp_path / "config.toml"
    link.symlink_to(kept)
    assert configuration(tmp_path, "install", BIGOS_CONFIG=str(link)).returncode == 0
    assert link.is_symlink()
    assert tomllib.loads(kept.read_text("utf-8")) == {"max_files": 9, **PAIR}


def test_the_candidate_may_be_read_by_nobody_else(tmp_path: Path) -> None:
    candidate = tmp_path / "candidate"
    result = configuration(tmp_path, "candidate", str(candidate))
    assert result.stdout.splitlines() == ["http://127.0.0.1:6333", "http://127.0.0.1:11434", "bge-m3"]
    assert stat.S_IMODE(candidate.stat().st_mode) == 0o600
    assert not (tmp_path / ".config").exists()


# --- over a real socket ----------------------------------------------------------------------------------------------


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


def nobody_listens() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


READY = (200, "all shards are ready")
LOADING = (503, "some shards are not ready")


@pytest.mark.parametrize(
    ("answers", "seconds", "code", "seen"),
    [
        ([READY], "0", 0, ""),
        ([LOADING, READY], "20", 0, ""),
        ([LOADING], "0", 1, "it is still loading"),
        ([(200, "<html>router</html>")], "60", 1, "something that is not Qdrant answers there"),
        ([(404, "")], "60", 1, "HTTP 404"),
        ([], "0", 1, "refused"),
    ],
)
def test_waiting_for_qdrant_ends_when_it_is_ready_or_says_what_it_did(
    tmp_path: Path, answers: list[tuple[int, str]], seconds: str, code: int, seen: str
) -> None:
    with answering(*(answers or [READY])) as server:
        config = tmp_path / "config.toml"
        port = server.server_port if answers else nobody_listens()
        config.write_text(f'qdrant_url = "http://127.0.0.1:{port}"\n', encoding="utf-8")
        command = [sys.executable, str(ROOT / "scripts" / "setup" / "wait_for_qdrant.py"), "--config", str(config)]
        # A proxy must not hear of it.
        env = {"HOME": str(tmp_path), "http_proxy": "http://127.0.0.1:9"}
        result = subprocess.run([*command, "--seconds", seconds], env=env, capture_output=True, text=True, timeout=60)
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
    machine: Machine, answer: tuple[int, str] | None, healthy: bool
) -> None:
    with answering(answer or READY) as server:
        port = server.server_port if answer else nobody_listens()
        command = [word.replace("6333", str(port)) for word in health_command()]
        for file in list(machine.bin.iterdir()):
            if file.name not in ("bash", "grep"):
                file.unlink()
        done = subprocess.run(command, env={"PATH": str(machine.bin)}, capture_output=True, timeout=30)
    assert (done.returncode == 0) == healthy, done.stderr


# --- the proof -----------------------------------------------------------------------------------------------------


def proof(tmp_path: Path, settings: str) -> subprocess.CompletedProcess[str]:
    config = tmp_path / "proof.toml"
    config.write_text(settings, encoding="utf-8")
    command = [sys.executable, str(ROOT / "scripts" / "smoke_test.py"), "--config", str(config)]
    env = {**user_environment(), "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)


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


# --- the unit --------------------------------------------------------------------------------------------------------


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
