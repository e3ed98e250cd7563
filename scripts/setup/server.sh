# shellcheck shell=bash disable=SC2154,SC2034
# SPDX-License-Identifier: GPL-2.0-only
#
# The big pair: Qdrant in rootless Podman under the user's systemd, bge-m3 in Ollama, config.toml that says so. Sourced by
# setup.sh, which holds the variables (root, fix, skip_models, scratch).

readonly UNIT=containers/qdrant.container
readonly LEAST_PODMAN="4.6"                       # the first whose quadlets know every key in the unit
readonly READY_SECONDS=180                        # for a start with a large index

unit_file() { echo "${XDG_CONFIG_HOME:-$HOME/.config}/containers/systemd/qdrant.container"; }

image() { sed -n 's/^Image=//p' "$UNIT"; }

tried() { # command...; on a terminal it speaks for itself, else `said` gets its last line
    local code=0
    said=
    if [[ -t 2 ]]; then
        "$@" >&2
        return
    fi
    said=$("$@" 2>&1) || code=$?
    said=$(tail -n 1 <<<"$said")
    said=${said:+: $said}
    return "$code"
}

# --- what has to be there before anything is changed -----------------------------------------------------------------

require_user_systemd() {
    command -v systemctl >/dev/null ||
        fail 1 "there is no systemd here, which runs Qdrant." "run Qdrant yourself: README.md, Set up"
    systemctl --user show-environment >/dev/null 2>&1 || fail 1 "the systemd of $(id -un) cannot be reached." \
        "log in as $(id -un), not through su or sudo; then $fix"
}

require_ollama() {
    command -v ollama >/dev/null || fail 1 "Ollama is not installed." "$(ollama_command); then $fix"
}

ollama_command() { # its maker's own; never run from here
    if command -v pacman >/dev/null; then
        echo "sudo pacman -S ollama (ollama-cuda or ollama-rocm with a GPU)"
    else
        echo "curl -fsSL https://ollama.com/install.sh | sh"
    fi
}

require_podman() {
    local version
    command -v podman >/dev/null || fail 1 "podman is not installed." "$fix"
    version=$(podman --version 2>/dev/null | sed -n 's/^podman version \([0-9]*\.[0-9]*\).*/\1/p')
    [[ -n $version ]] || fail 1 "podman does not tell its version." "podman --version"
    ((${version%.*} * 1000 + ${version#*.} >= ${LEAST_PODMAN%.*} * 1000 + ${LEAST_PODMAN#*.})) || fail 1 \
        "podman $version is too old for a quadlet, $LEAST_PODMAN is needed." \
        "upgrade the distribution, or run Qdrant yourself: README.md, Set up"
}

# --- the configuration -----------------------------------------------------------------------------------------------

configuration() { .venv/bin/python scripts/setup/configuration.py "$@"; }

# Sets candidate (the configuration as it will be), qdrant_url, ollama_url, ollama_model.
read_configuration() {
    local said
    [[ -z $candidate ]] || return 0
    said=$(configuration candidate "$scratch/config.toml") || exit
    candidate=$scratch/config.toml
    { read -r qdrant_url && read -r ollama_url && read -r ollama_model; } <<<"$said"
}

# --- Qdrant ----------------------------------------------------------------------------------------------------------

qdrant_is_ours() { [[ $qdrant_url =~ ^http://(127\.0\.0\.1|localhost):6333/?$ ]]; }

qdrant_answers() { # seconds to wait
    .venv/bin/python scripts/setup/wait_for_qdrant.py --config "$candidate" --seconds "$1"
}

unit_is_current() { [[ -f $(unit_file) && $(<"$(unit_file)") == "$(<"$UNIT")" ]]; }

install_unit() { # sets unit_changed
    local file kept
    file=$(unit_file)
    unit_changed=false
    ! unit_is_current || return 0
    if [[ -f $file ]]; then
        grep -q "for Bigos" "$file" ||
            fail 1 "$file is there, and it is not the one of Bigos." "mv '$file' '$file.old' && $fix"
        kept=$file.before-$(date +%Y%m%d-%H%M%S)
        cp -p "$file" "$kept"
        say "$file has changed; what it was is in $kept."
    fi
    if ! mkdir -p "${file%/*}" || ! cp "$UNIT" "$file.new" || ! mv "$file.new" "$file"; then
        fail 1 "$file cannot be written." "ls -ld '${file%/*}'"
    fi
    unit_changed=true
}

set_up_qdrant() {
    local unit_changed act=start quiet=(--quiet)
    if ! qdrant_is_ours; then
        say "The configuration names $qdrant_url, so no Qdrant is set up on this machine."
    else
        require_podman
        if ! systemctl --user --quiet is-active qdrant.service && qdrant_answers 0 2>/dev/null; then
            fail 1 "another Qdrant already answers at $qdrant_url." \
                "stop that one, then $fix; or keep it and write embedder and store into config.toml: README.md, Settings"
        fi
        if ! podman image exists "$(image)" 2>/dev/null; then
            say "Pulling $(image) (about $IMAGE_MB MB) ..."
            [[ ! -t 2 ]] || quiet=()
            tried podman pull "${quiet[@]}" "$(image)" ||
                fail 1 "podman could not pull $(image)$said." "podman pull $(image); then $fix"
        fi
        install_unit
        tried systemctl --user daemon-reload ||
            fail 1 "systemd could not read its units again$said." "systemctl --user daemon-reload; then $fix"
        systemctl --user cat qdrant.service >/dev/null 2>&1 || fail 1 "podman made no service of $(unit_file)." \
            "/usr/lib/systemd/system-generators/podman-system-generator --user --dryrun"
        ! $unit_changed || act=restart # the same as start where it does not run
        say "Starting Qdrant ..."
        tried systemctl --user "$act" qdrant.service ||
            fail 1 "Qdrant did not start$said." "journalctl --user -u qdrant -n 50; then $fix"
    fi
    # Says in its own words what it waited for.
    qdrant_answers "$READY_SECONDS" || exit
}

# --- Ollama ----------------------------------------------------------------------------------------------------------

pull_model() { # name
    OLLAMA_HOST=${ollama_url:-${OLLAMA_HOST-}} scripts/pull_models.sh "$1" || exit
}

model_is_pulled() { # name
    OLLAMA_HOST=${ollama_url:-${OLLAMA_HOST-}} scripts/pull_models.sh --check "$1" 2>/dev/null
}

dropin_is_current() { # as systemd has read it
    local path paths
    read -r -a paths < <(systemctl show ollama.service --property=DropInPaths --value 2>/dev/null) || true
    for path in "${paths[@]}"; do
        [[ $path != */bigos-keep-alive.conf || $(<"$path") != "$(<containers/ollama-keep-alive.conf)" ]] || return 0
    done
    return 1
}

install_dropin() {
    ! dropin_is_current || return 0
    systemctl cat ollama.service >/dev/null 2>&1 || fail 1 "systemd knows no ollama.service, so there is nothing to set." \
        "OLLAMA_KEEP_ALIVE=-1 ollama serve, wherever you start it"
    as_root "Setting OLLAMA_KEEP_ALIVE=-1 and restarting Ollama" "$root/containers/install-keep-alive.sh" ||
        fail 1 "Ollama could not be restarted with OLLAMA_KEEP_ALIVE=-1; it stays as it was." \
            "systemctl status ollama; then $fix"
}

# --- lingering -------------------------------------------------------------------------------------------------------

lingers() { [[ $(loginctl show-user "$(id -un)" --property=Linger --value 2>/dev/null) == yes ]]; }

enable_linger() {
    command -v loginctl >/dev/null || fail 1 "there is no loginctl here." "$fix without --enable-linger"
    ! lingers || return 0
    say "Letting the services of $(id -un) run without a login ..."
    # For oneself it needs no password where a seat or a session is there.
    tried loginctl enable-linger "$(id -un)" ||
        fail 1 "lingering could not be enabled$said." "sudo loginctl enable-linger $(id -un); then $fix"
}
