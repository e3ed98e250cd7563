# SPDX-License-Identifier: GPL-2.0-only
"""setup.sh and what it calls: on a bare tree, a half-made one, a damaged one and a whole one.

Where a real Python would download for minutes, a fake one on PATH records what it was asked; the environment checker,
the model's checker and the smoke test run for real, on an environment whose packages are links to this one's.
"""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bigos.config import user_environment
from fake_checkout import FAKE_PYTHON, ROOT, Tree, link_or_copy, sentence_and_hint
from processes import PATIENCE, until

ALL_STEPS = [
    "-m venv --clear .venv",
    "-m pip install --disable-pip-version-check --no-input --quiet -e .[model]",
    "scripts/build_model.py",
    "scripts/smoke_test.py",
]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    tree.executable("python3", FAKE_PYTHON)
    return tree


def test_help_names_every_flag(tree: Tree) -> None:
    result = tree.setup("--help")
    assert result.returncode == 0
    for flag in ("--server", "--check", "--yes", "--dev", "--python PATH", "--skip-models", "--with-ocr",
                 "--enable-linger", "--with-ollama-dropin", "--with-deepseek", "--help"):  # fmt: skip
        assert flag in result.stdout


@pytest.mark.parametrize("flags", [["--chekc"], ["--python"], ["--python", "/no/such/python"], ["PATH"]])
def test_a_wrong_flag_is_exit_2(tree: Tree, flags: list[str]) -> None:
    result = tree.setup(*flags)
    assert result.returncode == 2
    assert sentence_and_hint(result.stderr)[1] == "./setup.sh --help"
    assert tree.called() == []


def test_check_on_a_bare_tree_says_the_fix_and_changes_nothing(tree: Tree) -> None:
    before = tree.snapshot()
    result = tree.setup("--check")
    assert result.returncode == 1
    assert sentence_and_hint(result.stderr) == (".venv is not there", "./setup.sh")
    assert tree.setup("--check", "--dev").stderr.endswith("hint: ./setup.sh --dev\n")
    assert tree.snapshot() == before


def test_a_bare_tree_is_set_up_in_order_and_the_second_run_only_proves_it(tree: Tree) -> None:
    result = tree.setup("--yes", PYTHONPATH="/elsewhere", PIP_TARGET="/elsewhere")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "hits\n"
    assert "311 MB to download" in result.stderr
    assert tree.called() == ALL_STEPS
    assert "/elsewhere" not in tree.calls.read_text("utf-8")
    tree.calls.unlink()
    assert tree.setup().returncode == 0  # nothing to download, so nothing to ask
    assert tree.called() == ["scripts/smoke_test.py"]
    assert tree.setup("--check").returncode == 0


def test_dev_installs_the_tools_too(tree: Tree) -> None:
    assert tree.setup("--yes", "--dev").returncode == 0
    assert tree.called()[1].endswith("-e .[model,dev]")


def test_without_a_terminal_it_does_not_download_unasked(tree: Tree) -> None:
    before = tree.snapshot()
    result = tree.setup()
    assert result.returncode == 2
    assert sentence_and_hint(result.stderr)[1] == "./setup.sh --yes"
    assert tree.snapshot() == before


@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 1), (b"\n", 0), (b"yes\n", 0), (b"\x04", 1)])
def test_on_a_terminal_it_asks_once(tree: Tree, answer: bytes, code: int) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [str(tree.path / "setup.sh")], env=tree.variables({}), stdin=theirs, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        os.close(theirs)
        os.write(ours, answer)
        _, stderr = process.communicate(timeout=PATIENCE)
    os.close(ours)
    assert process.returncode == code, stderr
    assert stderr.count("Go on? [Y/n]") == 1
    assert tree.called() == (ALL_STEPS if code == 0 else [])
    assert code == 0 or stderr.endswith("Nothing was changed.\n")


def test_an_old_python_is_passed_over_and_alone_it_is_one_sentence(tree: Tree) -> None:
    tree.executable("python3", "#!/usr/bin/env bash\nexit 1\n")
    for manager in ("apt-get", "apt-cache"):
        tree.executable(manager, "#!/usr/bin/env bash\nexit 0\n")
    result = tree.setup("--yes")
    assert result.returncode == 1
    sentence, hint = sentence_and_hint(result.stderr)
    assert sentence == "there is no Python 3.11 or newer on PATH."
    assert hint.startswith("sudo apt install python3.")
    tree.executable("python3.12", FAKE_PYTHON)
    assert tree.setup("--yes").returncode == 0
    assert tree.called() == ALL_STEPS


def test_a_python_that_was_named_must_be_new_enough(tree: Tree) -> None:
    tree.executable("python3.9", "#!/usr/bin/env bash\nexit 1\n")
    result = tree.setup("--yes", "--python", str(tree.bin / "python3.9"))
    assert result.returncode == 2
    assert "python3.9 is not a Python 3.11 or newer" in result.stderr


def test_a_python_without_venv_names_the_debian_package(tree: Tree) -> None:
    tree.executable("apt-get", "#!/usr/bin/env bash\n")
    result = tree.setup("--yes", FAKE_NO_VENV="1")
    assert result.returncode == 1
    assert sentence_and_hint(result.stderr)[1] == "sudo apt install python3.11-venv"
    assert not (tree.path / ".venv").exists()


@pytest.mark.parametrize("state", ["empty", "folders only", "dead python", "no pip"])
def test_a_half_made_environment_is_recognised_and_made_anew(tree: Tree, state: str) -> None:
    environment = tree.path / ".venv"
    (environment / "bin").mkdir(parents=True)
    if state == "empty":
        (environment / "bin").rmdir()
    elif state == "dead python":
        (environment / "pyvenv.cfg").touch()
        (environment / "bin" / "python").symlink_to("/no/such/python")
    elif state == "no pip":
        (environment / "pyvenv.cfg").touch()
        shutil.copy(tree.bin / "python3", environment / "bin" / "python")
    assert tree.setup("--check").returncode == 1
    result = tree.setup("--yes")
    assert result.returncode == 0, result.stderr
    assert tree.called() == ALL_STEPS


def test_an_environment_without_bigos_is_mended_not_made_anew(tree: Tree) -> None:
    assert tree.setup("--yes").returncode == 0
    tree.calls.unlink()
    (tree.path / ".venv" / "installed").unlink()
    assert tree.setup("--yes").returncode == 0
    assert tree.called() == ALL_STEPS[1:]  # build_model.py keeps what is whole


def test_naming_another_python_makes_the_environment_anew(tree: Tree) -> None:
    assert tree.setup("--yes").returncode == 0
    tree.calls.unlink()
    other = FAKE_PYTHON.replace("FAKE_BASE:-3.11 /usr", "FAKE_BASE:-3.13 /opt")
    tree.executable("python3.13", other)
    assert tree.setup("--yes", "--python", str(tree.bin / "python3.13")).returncode == 0
    assert tree.called() == ALL_STEPS


def test_a_folder_of_the_users_named_venv_is_not_touched(tree: Tree) -> None:
    (tree.path / ".venv").mkdir()
    (tree.path / ".venv" / "thesis.odt").write_text("years of work", encoding="utf-8")
    for flags in (["--yes"], ["--check"]):
        result = tree.setup(*flags)
        assert result.returncode == 1
        assert sentence_and_hint(result.stderr)[1] == "mv .venv .venv.old && ./setup.sh"
    assert (tree.path / ".venv" / "thesis.odt").read_text("utf-8") == "years of work"


def test_a_disk_without_room_is_said_before_anything_is_made(tree: Tree) -> None:
    tree.executable("df", '#!/usr/bin/env bash\necho "Filesystem 1024-blocks"\necho "a disk 900000 1 102400 1% /"\n')
    result = tree.setup("--yes")
    assert result.returncode == 1
    assert "has 100 MB free and setup needs about" in sentence_and_hint(result.stderr)[0]
    assert not (tree.path / ".venv").exists()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another user can enter; pytest's own cannot be."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_checkout_that_cannot_be_written_is_one_sentence(open_folder: Path) -> None:
    tree = Tree(open_folder)
    tree.executable("python3", FAKE_PYTHON)
    tree.calls.touch()
    tree.calls.chmod(0o666)
    command = [str(tree.path / "setup.sh"), "--yes"]
    if os.geteuid() == 0:  # root may write anywhere
        command = [shutil.which("setpriv") or "setpriv", "--reuid=65534", "--clear-groups", *command]
    else:
        tree.path.chmod(0o555)
    result = subprocess.run(command, env=tree.variables({}), stdin=subprocess.DEVNULL, capture_output=True, text=True)
    tree.path.chmod(0o755)
    assert result.returncode == 1
    assert "cannot be written to by" in sentence_and_hint(result.stderr)[0]
    assert tree.called() == []


@pytest.mark.parametrize(
    ("said", "sentence", "hint"),
    [
        ("WARNING: Retrying after NewConnectionError(...)", "pip cannot reach the package index", "check the network"),
        ("ERROR: [Errno 28] No space left on device", "the disk became full", "free some space"),
        ("ERROR: metadata-generation-failed", "pip: ERROR: metadata-generation-failed", "./setup.sh"),
        ("", "pip:", "./setup.sh"),
    ],
)
def test_what_stops_pip_is_told_in_a_sentence(tree: Tree, said: str, sentence: str, hint: str) -> None:
    result = tree.setup("--yes", FAKE_PIP_FAILURE=said or " ")
    assert result.returncode == 1
    told, advice = sentence_and_hint(result.stderr)
    assert told.startswith(sentence)
    assert advice.startswith(hint)
    assert tree.setup("--yes").returncode == 0  # and the next run goes on


def test_a_model_that_cannot_be_built_is_told_once(tree: Tree) -> None:
    result = tree.setup("--yes", FAKE_MODEL_FAILURE="no wheel\nhint: check the network")
    assert result.returncode == 1
    assert sentence_and_hint(result.stderr) == ("no wheel", "check the network")
    assert result.stderr.count("error:") == 1


def test_interrupted_in_the_middle_it_exits_130_and_goes_on_later(tree: Tree) -> None:
    with subprocess.Popen(
        [str(tree.path / "setup.sh"), "--yes"], env=tree.variables({"FAKE_PIP_SLEEP": "600"}), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        until(lambda: ALL_STEPS[1] in tree.called(), shown=tree.called)
        os.killpg(process.pid, signal.SIGINT)
        _, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert stderr.endswith("Interrupted; ./setup.sh goes on from here.\n")
    assert tree.setup("--yes").returncode == 0
    assert tree.called()[-2:] == ALL_STEPS[-2:]


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="there is no shellcheck")
def test_the_shell_scripts_are_clean() -> None:
    scripts = [ROOT / "setup.sh", ROOT / ".ci" / "run"]
    for folder in ("scripts", "scripts/setup", "containers"):
        scripts += sorted((ROOT / folder).glob("*.sh"))
    result = subprocess.run(["shellcheck", *map(str, scripts)], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


# --- the real checkers, on an environment made of links ---------------------------------------------------------------


class LinkedTree(Tree):
    """A set-up checkout: packages and models are links to those that run this test, Bigos itself is its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        environment = self.path / ".venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True, timeout=PATIENCE)
        ours = Path(sysconfig.get_path("purelib"))
        self.site = environment / ours.relative_to(sys.prefix)
        for entry in ours.iterdir():
            if not entry.name.lower().startswith(("bigos", "__editable__")):
                (self.site / entry.name).symlink_to(entry)
        for entry in Path(sysconfig.get_path("scripts")).iterdir():
            link = environment / "bin" / entry.name
            if not link.exists():
                link.symlink_to(entry)
        share = Path(sysconfig.get_path("data")) / "share"  # manual pages that some packages bring
        if share.is_dir():
            (environment / "share").symlink_to(share)
        (self.site / "bigos.pth").write_text(f"{self.path / 'src'}\n", encoding="utf-8")
        (installed,) = ours.glob("bigos-*.dist-info")
        self.bigos = self.site / installed.name
        shutil.copytree(installed, self.bigos)
        (self.bigos / "RECORD").write_text("bigos.pth,,\n", encoding="utf-8")
        (self.bigos / "direct_url.json").write_text(json.dumps({"url": self.path.as_uri()}), encoding="utf-8")
        shutil.rmtree(self.path / "models")
        (self.path / "models").symlink_to(ROOT / "models")

    def look(self) -> tuple[int, str]:
        """Exit code and sentence of the environment checker."""
        command = [str(self.path / ".venv" / "bin" / "python"), "scripts/check_environment.py", "model,dev"]
        result = subprocess.run(command, cwd=self.path, capture_output=True, text=True, timeout=PATIENCE)
        assert result.stderr == ""
        return result.returncode, result.stdout.strip()

    def remove(self, name: str) -> None:
        for entry in [*self.site.glob(name), *self.site.glob(f"{name}-*.dist-info")]:
            entry.unlink()


@pytest.fixture
def linked(tmp_path: Path) -> LinkedTree:
    return LinkedTree(tmp_path)


def test_a_whole_checkout_passes_the_check_and_is_not_changed(linked: LinkedTree) -> None:
    before = linked.snapshot()
    result = linked.setup("--check", "--dev")
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("ok: ") == 2
    assert result.stderr == ""
    assert linked.snapshot() == before


def test_check_names_the_part_of_the_model_that_is_damaged(linked: LinkedTree) -> None:
    (linked.path / "models").unlink()
    shutil.copytree(ROOT / "models", linked.path / "models", copy_function=link_or_copy)
    (means,) = (linked.path / "models").glob("*/calibration-*.npz")
    means.unlink()
    result = linked.setup("--check")
    assert result.returncode == 1
    sentence, hint = sentence_and_hint(result.stderr)
    assert "language means" in sentence
    assert hint == "./setup.sh"


def test_packages_that_are_absent_or_too_old_can_be_mended(linked: LinkedTree) -> None:
    assert linked.look()[0] == 0
    project = linked.path / "pyproject.toml"
    text = project.read_text("utf-8")
    for old, new in (
        ('"pebble>=5.1"', '"pebble>=99"'),
        ('"pebble>=5.1"', '"no-such-package"'),
        ('version = "0.1.0"', 'version = "9.0.0"'),
        ('bigos = "bigos.cli:entry_point"', 'bigos = "bigos.cli:other"'),
    ):
        assert old in text
        project.write_text(text.replace(old, new), encoding="utf-8")
        assert linked.look()[0] == 1, new
    project.write_text(text, encoding="utf-8")
    linked.remove("h11")  # a dependency of a dependency
    assert linked.look() == (1, "the package h11 is not installed")


def test_a_package_that_was_not_unpacked_to_its_end_is_found(linked: LinkedTree) -> None:
    (linked.site / "h11").unlink()
    code, sentence = linked.look()
    assert code == 3
    assert "h11 was only partly installed" in sentence
    linked.remove("h11")
    (linked.site / "h11-0.1.dist-info").mkdir()  # before METADATA and RECORD were written
    assert linked.look()[0] == 3


def test_a_checkout_that_was_moved_is_found(linked: LinkedTree) -> None:
    (linked.bigos / "direct_url.json").write_text('{"url": "file:///old/place"}', encoding="utf-8")
    assert linked.look() == (3, "bigos was installed from another folder")


def test_the_smoke_test_finds_both_answers_whatever_the_users_settings_are(tmp_path: Path) -> None:
    hostile = {"BIGOS_CONFIG": "/no/such/file", "BIGOS_STORE": "nonsense", "BIGOS_DATA_DIR": "/proc"}
    variables = {**user_environment(), **hostile, "TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    command = [sys.executable, str(ROOT / "scripts" / "smoke_test.py")]
    result = subprocess.run(command, cwd="/", env=variables, capture_output=True, text=True, timeout=PATIENCE)
    assert result.returncode == 0, result.stderr
    assert "pl -> en" in result.stdout
    assert "en -> pl" in result.stdout
    assert "english/spi-clock-notes.md:" in result.stdout
    assert "polish/ogrzewanie-podlogowe.md:" in result.stdout
    assert list(tmp_path.glob("bigos-smoke-*")) == []
