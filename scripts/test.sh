#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Brings what the tests need (Debian packages only as root and only when missing), then lints, checks types and tests.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
    cat <<'END'
usage: scripts/test.sh              everything, as CI does
       scripts/test.sh --lint       linters and types only
       scripts/test.sh -- ARGS...   pytest only, with these arguments
END
}

say() { printf '%s\n' "$*" >&2; }

# Installs the Debian packages it is given; without root or apt it only says what is missing.
install_debian_packages() {
    if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
        say "installing with apt-get: $*"
        DEBIAN_FRONTEND=noninteractive apt-get -qq update >&2 &&
            DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@" </dev/null >&2
    else
        say "missing: $*"
        say "hint: sudo apt install $*"
        return 1
    fi
}

# What must be there before setup.sh can start, and what a check would otherwise be left out for.
prepare_machine() {
    if ! ./setup.sh --check --dev >/dev/null 2>&1 && ! has_python; then
        install_debian_packages python3 python3-venv
    fi
    local program packages=()
    for program in tesseract pdftoppm djvutxt; do
        command -v "$program" >/dev/null || packages+=("$program")
    done
    ((${#packages[@]} == 0)) ||
        install_debian_packages tesseract-ocr tesseract-ocr-pol tesseract-ocr-eng tesseract-ocr-osd poppler-utils djvulibre-bin ||
        say "going on without ${packages[*]}: the tests of scans are left out"
    command -v shellcheck >/dev/null || install_debian_packages shellcheck || say "going on without shellcheck"
}

has_python() {
    local name
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        "$name" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && return
    done
    return 1
}

failed=()
step() { # name, command...
    local name=$1 start=$SECONDS result=passed
    shift
    echo "--- $name"
    "$@" </dev/null || { result=FAILED && failed+=("$name"); }
    echo "--- $name: $result in $((SECONDS - start)) s"
}

check_shell_scripts() {
    if ! command -v shellcheck >/dev/null; then
        say "left out: there is no shellcheck"
        return
    fi
    shopt -s nullglob
    shellcheck setup.sh .ci/run scripts/*.sh scripts/setup/*.sh containers/*.sh
}

lint() {
    step ruff ruff check
    step mypy mypy
    step imports lint-imports
    step shellcheck check_shell_scripts
}

main() {
    local what=all arguments=() variable
    # A file's tests share its fixtures, so files are what is shared out; a process takes up to a gigabyte. In the order
    # of their names, as the files with the fewest tests are the ones that take longest: none of them is left to the end.
    local parallel=(--numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder)
    case ${1-} in
    "") ;;
    --lint) what=lint ;;
    --) what=tests arguments=("${@:2}") ;;
    --help | -h) usage && exit 0 ;;
    *)
        say "error: unknown argument $1."
        say "hint: scripts/test.sh --help"
        exit 2
        ;;
    esac
    # The developer's own configuration is not what is tested; servers to test against are named by BIGOS_TEST_*.
    for variable in "${!BIGOS_@}"; do
        [[ $variable == BIGOS_TEST_* ]] || unset "$variable"
    done
    if [[ $what == all ]]; then
        prepare_machine
        step setup ./setup.sh --yes --dev
    elif ! ./setup.sh --check --dev; then
        exit 1
    fi
    ((${#failed[@]} == 0)) || exit 1
    PATH=$PWD/.venv/bin:$PATH
    [[ $what == tests ]] || lint
    [[ $what == lint ]] || step pytest python -m pytest "${parallel[@]}" "${arguments[@]}"
    if ((${#failed[@]})); then
        say "failed: ${failed[*]}"
        exit 1
    fi
}

main "$@"
