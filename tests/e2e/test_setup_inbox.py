# SPDX-License-Identifier: GPL-2.0-only
"""setup.sh --with-inbox-watcher where systemd is a fake; the real one judges the units where there is one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from fake_checkout import ROOT, sentence_and_hint
from fake_machine import Machine
from processes import PATIENCE

PATH_AND_TIMER = ["bigos-ingest.path", "bigos-ingest.service", "bigos-ingest.timer"]
ENABLED = [
    "systemctl --user daemon-reload",
    "systemctl --user start bigos-probe.service",
    "systemctl --user daemon-reload",
    "systemctl --user enable --quiet bigos-ingest.path",
    "systemctl --user restart bigos-ingest.path",
    "systemctl --user enable --quiet bigos-ingest.timer",
    "systemctl --user restart bigos-ingest.timer",
]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """With a checkout that was set up."""
    made = Machine(tmp_path)
    for name in (".venv/bin/python", ".venv/pyvenv.cfg", ".venv/pip", ".venv/installed", "models/built"):
        (made.path / name).parent.mkdir(parents=True, exist_ok=True)
        (made.path / name).touch()
    shutil.copy(made.bin / "python3", made.path / ".venv" / "bin" / "python")
    return made


def units(machine: Machine) -> list[str]:
    return sorted(file.name for file in unit_folder(machine).iterdir()) if unit_folder(machine).is_dir() else []


def unit_folder(machine: Machine) -> Path:
    return machine.home / ".config" / "systemd" / "user"


def unit(machine: Machine, name: str) -> str:
    return (unit_folder(machine) / name).read_text("utf-8")


def did(machine: Machine) -> list[str]:
    """What was asked of systemd."""
    calls = [call for call in machine.did() if call.startswith("systemctl") and "reset-failed" not in call]
    machine.calls.unlink(missing_ok=True)
    return calls


def test_the_folder_is_made_marked_and_watched_and_the_second_run_changes_nothing(machine: Machine) -> None:
    result = machine.setup("--with-inbox-watcher", "--yes")
    assert result.returncode == 0, result.stderr
    inbox = machine.home / "bigos-inbox"
    assert (inbox / ".bigos-inbox").is_file()
    assert units(machine) == PATH_AND_TIMER
    assert did(machine) == ENABLED
    assert f"PathChanged={inbox}\n" in unit(machine, "bigos-ingest.path")
    assert "OnUnitInactiveSec=10min" in unit(machine, "bigos-ingest.timer")
    assert "journalctl --user -u bigos-ingest -f" in result.stderr
    checked = machine.setup("--check", "--with-inbox-watcher")
    assert checked.returncode == 0, checked.stderr
    assert "bigos-inbox is watched" in checked.stdout
    machine.calls.unlink()
    (inbox / "mine.txt").write_text("mine", encoding="utf-8")
    before = {file.name: file.stat().st_mtime_ns for file in unit_folder(machine).iterdir()}
    again = machine.setup("--with-inbox-watcher")  # nothing to ask about
    assert again.returncode == 0, again.stderr
    assert before == {file.name: file.stat().st_mtime_ns for file in unit_folder(machine).iterdir()}
    assert did(machine) == ENABLED
    assert sorted(file.name for file in inbox.iterdir()) == [".bigos-inbox", "mine.txt"]


def test_another_folder_takes_the_place_of_the_first_whose_files_stay(machine: Machine) -> None:
    machine.setup("--with-inbox-watcher", "--yes")
    (machine.home / "bigos-inbox" / "mine.txt").write_text("mine", encoding="utf-8")
    other = machine.home / "an other"
    assert machine.setup("--check", "--with-inbox-watcher", "--inbox", str(other)).returncode == 1
    assert not other.exists()
    result = machine.setup("--with-inbox-watcher", "--inbox", str(other), "--yes")
    assert result.returncode == 0, result.stderr
    assert f"PathChanged={other}\n" in unit(machine, "bigos-ingest.path")
    assert f'-m bigos.inbox -- "{other}"\n' in unit(machine, "bigos-ingest.service")
    assert (machine.home / "bigos-inbox" / "mine.txt").exists()


def test_removing_takes_the_units_and_nothing_else(machine: Machine) -> None:
    machine.setup("--with-inbox-watcher", "--yes")
    theirs = unit_folder(machine) / "theirs.service"
    theirs.write_text("[Service]\nExecStart=true\n", encoding="utf-8")
    did(machine)
    result = machine.setup("--remove-inbox-watcher")
    assert result.returncode == 0, result.stderr
    assert "no longer watched" in result.stderr
    assert units(machine) == ["theirs.service"]
    assert (machine.home / "bigos-inbox" / ".bigos-inbox").is_file()
    assert did(machine) == [
        *(f"systemctl --user --quiet disable --now {name}" for name in
          ("bigos-ingest.path", "bigos-ingest.timer", "bigos-ingest.service")),
        "systemctl --user daemon-reload",
    ]  # fmt: skip
    again = machine.setup("--remove-inbox-watcher")
    assert again.returncode == 0
    assert "No drop folder is watched." in again.stderr
    assert did(machine) == []


def test_the_timer_alone_and_the_recursive_service_replace_what_was_there(machine: Machine) -> None:
    machine.setup("--with-inbox-watcher", "--yes")
    result = machine.setup("--with-inbox-watcher", "--inbox-timer", "--yes")
    assert result.returncode == 0, result.stderr
    assert "once a minute: as asked for" in result.stderr
    assert units(machine) == ["bigos-ingest.service", "bigos-ingest.timer"]
    assert "OnUnitInactiveSec=1min" in unit(machine, "bigos-ingest.timer")
    result = machine.setup("--with-inbox-watcher", "--inbox-watch", "--yes")
    assert result.returncode == 0, result.stderr
    assert units(machine) == ["bigos-watch.service"]
    assert not (machine.world / "bigos-ingest.timer").exists()
    assert "journalctl --user -u bigos-watch -f" in result.stderr
    assert machine.setup("--check", "--with-inbox-watcher", "--inbox-watch").returncode == 0


def test_where_users_get_no_namespaces_the_service_does_without(machine: Machine) -> None:
    result = machine.setup("--with-inbox-watcher", "--yes", FAIL="systemctl --user start bigos-probe.service")
    assert result.returncode == 0, result.stderr
    assert "Users get no namespaces here" in result.stderr
    text = unit(machine, "bigos-ingest.service")
    assert "PrivateUsers" not in text and "ProtectHome" not in text
    assert "NoNewPrivileges=yes" in text and "RestrictAddressFamilies=AF_UNIX\n" in text
    assert units(machine) == PATH_AND_TIMER  # the probe is gone
    assert machine.setup("--check", "--with-inbox-watcher").returncode == 0


def test_the_network_is_open_as_far_as_the_pair_needs_it(machine: Machine) -> None:
    def families() -> list[str]:
        assert machine.setup("--with-inbox-watcher", "--yes").returncode == 0
        text = unit(machine, "bigos-ingest.service")
        return re.findall("^(?:RestrictAddress|IPAddress)[^=]*=.*$", text, re.MULTILINE)

    assert families() == ["RestrictAddressFamilies=AF_UNIX", "IPAddressDeny=any"]
    machine.config.parent.mkdir(parents=True)
    machine.config.write_text('store = "server"\nembedder = "ollama"\n', encoding="utf-8")
    internet = "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK"
    assert families() == [internet, "IPAddressDeny=any", "IPAddressAllow=localhost"]
    machine.config.write_text('store = "server"\nqdrant_url = "https://127.0.0.1.example"\n', encoding="utf-8")
    assert families() == [internet]


def test_without_systemd_the_command_is_told(machine: Machine) -> None:
    machine.without("systemctl")
    result = machine.setup("--with-inbox-watcher", "--inbox", str(machine.home / "a b"), "--yes")
    assert result.returncode == 1
    assert sentence_and_hint(result.stderr) == (
        "there is no systemd here, which would watch the drop folder.",
        f".venv/bin/bigos watch {machine.home}/a\\ b",
    )
    assert not (machine.home / "a b").exists()


@pytest.mark.parametrize(
    ("folder", "sentence"),
    [
        (".", "cannot be the drop folder"),
        (".local/share/bigos/in", "cannot be the drop folder"),
        ("no/such/parent", "is not there"),
        ("file", "is not a folder"),
    ],
)
def test_a_folder_that_cannot_be_one_is_refused(folder: str, sentence: str, machine: Machine) -> None:
    (machine.home / "file").write_text("x", encoding="utf-8")
    (machine.home / ".local" / "share" / "bigos").mkdir(parents=True)
    result = machine.setup("--with-inbox-watcher", "--inbox", str(machine.home / folder), "--yes")
    assert result.returncode == 1
    assert sentence in sentence_and_hint(result.stderr)[0]
    assert units(machine) == []


def test_a_folder_with_any_name_is_named_in_what_is_said(machine: Machine) -> None:
    folder = machine.home / os.fsdecode(b"a\n\xff b")
    result = machine.setup("--with-inbox-watcher", "--inbox", str(folder), "--yes")
    assert result.returncode == 0, result.stderr
    assert "a\\x0a\\xff b once a minute: a path unit cannot be told its name." in result.stderr
    checked = machine.setup("--check", "--with-inbox-watcher", "--inbox", str(folder))
    assert checked.returncode == 0, checked.stderr


def test_flags_of_the_watcher_alone_are_refused(machine: Machine) -> None:
    result = machine.setup("--inbox", "/x y")
    assert result.returncode == 2
    assert sentence_and_hint(result.stderr)[1] == "./setup.sh --inbox /x\\ y --with-inbox-watcher"
    assert machine.setup("--inbox").returncode == 2


def test_what_systemd_cannot_do_is_told_with_the_command(machine: Machine) -> None:
    result = machine.setup("--with-inbox-watcher", "--yes", FAIL="systemctl --user restart bigos-ingest.path")
    assert result.returncode == 1
    assert sentence_and_hint(result.stderr) == (
        "bigos-ingest.path did not start: systemctl: told to fail.",
        "systemctl --user status bigos-ingest.path; then ./setup.sh --with-inbox-watcher",
    )


def test_variables_that_services_do_not_see_are_told(machine: Machine) -> None:
    result = machine.setup(
        "--with-inbox-watcher", "--yes", BIGOS_DATA_DIR="/else", XDG_DATA_HOME=f"{machine.home}/d 100%"
    )
    assert result.returncode == 0, result.stderr
    assert "warning: BIGOS_DATA_DIR is set in your environment" in result.stderr
    text = unit(machine, "bigos-ingest.service")
    assert f'Environment="XDG_DATA_HOME={machine.home}/d 100%%"\n' in text
    assert f'ReadWritePaths="{machine.home}/d 100%%/bigos" ' in text


def test_rtk_is_told_to_trust_the_filters_where_it_is(machine: Machine) -> None:
    result = machine.setup("--with-rtk-filters", "--yes")
    assert result.returncode == 0
    assert "rtk is not on PATH" in result.stderr
    machine.executable("rtk", '#!/usr/bin/env bash\necho "rtk $* in $PWD" >>"$CALLS"\n')
    assert machine.setup("--with-rtk-filters", "--yes").returncode == 0
    assert f"rtk trust in {machine.path}" in machine.calls.read_text("utf-8")


# --- what the real systemd says --------------------------------------------------------------------------------------

NAMES = {
    "spaces and quotes": "a \"b\" 'c'",
    "specifiers and variables": "100% $HOME ${x} %h",
    "Polish": "zażółć gęślą",
    "leading dash": "-rf",
    "backslash": "a\\b",
    "backslash at its end": "a\\",
    "newline": "a\nb",
    "not UTF-8": os.fsdecode(b"a\xff\xfeb"),
    "space at its end": "a ",
}
NO_PATH_UNIT = {"backslash at its end", "newline", "not UTF-8", "space at its end"}


@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_a_folder_reaches_the_command(name: str, machine: Machine, tmp_path: Path) -> None:
    folder = machine.home / NAMES[name]
    result = subprocess.run(
        [str(machine.path / ".venv/bin/python"), "scripts/setup/inbox_units.py", "install", "--", folder],
        cwd=machine.path, env=machine.variables({}), capture_output=True, timeout=PATIENCE,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert (folder / ".bigos-inbox").is_file()
    assert ("bigos-ingest.path" in units(machine)) is (name not in NO_PATH_UNIT)
    assert_verified(machine, tmp_path)
    line = re.search(r"-m bigos\.inbox -- (.*)$", unit(machine, "bigos-ingest.service"), re.MULTILINE)
    assert line
    assert unquoted(line[1]) == os.fsencode(folder)


@pytest.mark.parametrize("flags", [[], ["--watch"]])
def test_the_command_starts_wherever_the_checkout_is(flags: list[str], machine: Machine, tmp_path: Path) -> None:
    checkout = machine.path.rename(tmp_path / 'a=b "c" $HOME 100%')
    python = checkout / ".venv" / "bin" / "python"
    result = subprocess.run(
        [str(python), "scripts/setup/inbox_units.py", "install", *flags, "--", str(machine.home / "in")],
        cwd=checkout, env=machine.variables({}), capture_output=True, timeout=PATIENCE,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    python.write_text('#!/bin/sh\necho "ran $*"\n', encoding="utf-8")
    text = unit(machine, "bigos-watch.service" if flags else "bigos-ingest.service")
    line = re.search(r"""^ExecStart=:(/\S+) -c '([^']+)' ("(?:[^"\\]|\\.)*") -P -m """, text, re.MULTILINE)
    assert line
    done = subprocess.run([line[1], "-c", line[2], unquoted(line[3]), "a b", "$c"], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("ran a b $c\n", "")


def unquoted(word: str) -> bytes:
    """One word of ExecStart= as systemd reads it (systemd.syntax, systemd.unit): quotes, C escapes, %%."""
    assert word[0] == word[-1] == '"'
    inner = os.fsencode(word[1:-1])
    plain = re.sub(
        rb"\\(x[0-9a-f]{2}|.)",
        lambda found: bytes([int(found[1][1:], 16)]) if found[1][:1] == b"x" else found[1],
        inner,
        flags=re.DOTALL,
    )
    assert re.fullmatch(rb"(?:[^%]|%%)*", plain, re.DOTALL)
    return plain.replace(b"%%", b"%")


def analyze(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    if not shutil.which("systemd-analyze"):
        pytest.skip("there is no systemd-analyze")
    runtime = tmp_path / "runtime"
    runtime.mkdir(exist_ok=True)
    return subprocess.run(
        ["systemd-analyze", "--user", *arguments], env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "nobody"),
        "XDG_RUNTIME_DIR": str(runtime), "LC_ALL": "C.UTF-8", "SYSTEMD_COLORS": "0"}, capture_output=True, text=True,
        timeout=PATIENCE,
    )  # fmt: skip


def assert_verified(machine: Machine, tmp_path: Path) -> None:
    files = [str(unit_folder(machine) / name) for name in units(machine)]
    done = analyze(tmp_path, "verify", "--recursive-errors=no", *files)
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze is too old")
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "bigos-" in line] == []


@pytest.mark.parametrize("flags", [[], ["--inbox-timer"], ["--inbox-watch"]])
@pytest.mark.parametrize("namespaces", [True, False])
def test_systemd_finds_nothing_wrong_with_the_units(
    flags: list[str], namespaces: bool, machine: Machine, tmp_path: Path
) -> None:
    fail = {} if namespaces else {"FAIL": "systemctl --user start bigos-probe.service"}
    assert machine.setup("--with-inbox-watcher", *flags, "--yes", **fail).returncode == 0
    assert_verified(machine, tmp_path)
    service = "bigos-watch.service" if "--inbox-watch" in flags else "bigos-ingest.service"
    done = analyze(
        tmp_path, "security", "--offline=true", "--no-pager", f"--threshold={50 if namespaces else 75}",
        str(unit_folder(machine) / service),
    )  # fmt: skip
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze judges running services only")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr


def test_no_block_of_a_template_goes_unused() -> None:
    """Each condition in the templates is one that the renderer knows; a typing error would be a KeyError for a user."""
    known = re.findall(
        r'^        "([a-z /]+)": ', (ROOT / "scripts/setup/inbox_units.py").read_text("utf-8"), re.MULTILINE
    )
    for template in (ROOT / "systemd").glob("*.service"):
        assert re.findall("^# if (.*)$", template.read_text("utf-8"), re.MULTILINE) == known
