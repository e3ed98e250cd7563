# shellcheck shell=bash disable=SC2154,SC2034
# SPDX-License-Identifier: GPL-2.0-only
#
# .venv and what is in it: finding a Python, telling whole from half made, making and mending. Sourced by setup.sh, which
# holds the variables (root, python, wanted_python, environment, why, extras, fix).

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
        fail 1 "the disk became full while pip was installing." "free some space, then $fix"
    elif grep -Eq "NewConnectionError|name resolution|ConnectTimeout|ProxyError|unreachable|timed out" "$log"; then
        fail 1 "pip cannot reach the package index (its words: $root/$log)." "check the network, then $fix"
    fi
    fail 1 "pip: $(grep -i "error" "$log" | tail -n 1) (all of it: $root/$log)" "$fix"
}
