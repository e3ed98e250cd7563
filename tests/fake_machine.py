# SPDX-License-Identifier: GPL-2.0-only
"""A machine whose programs are fakes: podman, Ollama, systemd, a package manager, sudo.

Each fake notes its call, changes the little world that a test can look at, and fails when told to. What the project
owns runs for real: the scripts of scripts/setup, pull_models.sh, install-keep-alive.sh.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from fake_checkout import FAKE_PYTHON, Tree

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
"--user --quiet is-enabled "* | "--user --quiet is-active "*) [[ -e $WORLD/$4 ]] ;;
"--user enable --quiet "*) [[ -e $HOME/.config/systemd/user/$4 ]] && touch "$WORLD/$4" ;;
"--user --quiet disable --now "*) rm -f "$WORLD/$5" ;;
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
    r"""scripts/setup/configuration.py* | scripts/setup/inbox_units.py*) PYTHONPATH=src exec "$REAL_PYTHON" "$@" ;;
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


PACKAGES = "podman tesseract-ocr tesseract-ocr-eng tesseract-ocr-pol tesseract-ocr-osd poppler-utils"
# Calls that only look.
LOOKS = (
    "id ", "loginctl show-user", "ollama list", "podman --version", "podman image exists", "systemctl --user cat",
    "systemctl --user show-environment", "systemctl --user --quiet is-active",
    "systemctl --user --quiet is-enabled", "systemctl cat", "systemctl show",
    "tesseract --list-langs",
)  # fmt: skip
PYTHON_ACTS = ("-m venv", "-m pip", "scripts/build_model.py", "scripts/smoke_test.py")


PAIR = {"embedder": "ollama", "store": "server"}
"""What the configuration says of the big pair."""


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
