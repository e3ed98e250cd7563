# shellcheck shell=bash disable=SC2154,SC2034
# SPDX-License-Identifier: GPL-2.0-only
#
# The drop folder under the user's systemd, and RTK's filters. Sourced by setup.sh, which holds the variables (root, fix,
# environment, inbox, inbox_shown, inbox_how).

readonly INBOX_UNITS=(bigos-ingest.path bigos-ingest.timer bigos-watch.service bigos-ingest.service)

user_units() { echo "${XDG_CONFIG_HOME:-$HOME/.config}/systemd/user"; }

require_inbox_systemd() {
    local watch
    watch=".venv/bin/bigos watch $inbox_shown"
    [[ $environment == ready ]] || watch="./setup.sh, then $watch"
    command -v systemctl >/dev/null || fail 1 "there is no systemd here, which would watch the drop folder." "$watch"
    systemctl --user show-environment >/dev/null 2>&1 || fail 1 \
        "the systemd of $(id -un) cannot be reached, which would watch the drop folder." \
        "log in as $(id -un), not through su or sudo, and $fix; or $watch"
}

inbox_units() { # plan or install, more flags; sets enabled, dropped, sentence; 1 when the plan is not what is there
    local said code=0
    said=$(.venv/bin/python scripts/setup/inbox_units.py "$@" "${inbox_how[@]}" -- "$inbox") || code=$?
    ((code < 2)) || exit 1 # it has said why
    { read -r -a enabled && read -r -a dropped && read -r sentence; } <<<"$said"
    return "$code"
}

# A unit that asks for a namespace where users get none does not start at all. A unit finds out, not systemd-run, which
# has taken managers without a bus down with it. Adds to inbox_how.
look_at_namespaces() {
    local file
    file=$(user_units)/bigos-probe.service
    mkdir -p "${file%/*}"
    .venv/bin/python scripts/setup/inbox_units.py probe -- "$inbox" >"$file" || { rm -f "$file" && exit 1; }
    systemctl --user daemon-reload 2>/dev/null && timeout 30 systemctl --user start bigos-probe.service 2>/dev/null ||
        inbox_how+=(--no-namespaces)
    systemctl --user --quiet reset-failed bigos-probe.service 2>/dev/null || true
    rm -f "$file"
}

inbox_is_watched() {
    local enabled dropped sentence unit
    [[ $environment == ready ]] || return 1
    # Which of the two this machine allows was found out when they were installed.
    inbox_units plan || inbox_units plan --no-namespaces || return 1
    for unit in "${enabled[@]}"; do
        systemctl --user --quiet is-enabled "$unit" 2>/dev/null && systemctl --user --quiet is-active "$unit" || return 1
    done
}

set_up_inbox() {
    local enabled dropped sentence unit variable
    for variable in $(compgen -e BIGOS_ || true); do
        [[ $variable == BIGOS_TEST_* ]] ||
            say "warning: $variable is set in your environment, which services do not see: config.toml or" \
                "${XDG_CONFIG_HOME:-$HOME/.config}/environment.d/bigos.conf"
    done
    look_at_namespaces
    if [[ " ${inbox_how[*]} " == *" --no-namespaces "* ]]; then
        say "Users get no namespaces here, so the service is not kept from writing elsewhere in $HOME."
    fi
    inbox_units install
    tried systemctl --user daemon-reload ||
        fail 1 "systemd could not read its units again$said." "systemctl --user daemon-reload; then $fix"
    for unit in "${dropped[@]}"; do
        drop_unit "$unit"
    done
    for unit in "${enabled[@]}"; do
        tried systemctl --user enable --quiet "$unit" ||
            fail 1 "$unit could not be enabled$said." "systemctl --user enable $unit; then $fix"
        # Not enable --now: one that runs already would go on with what it was.
        tried systemctl --user restart "$unit" ||
            fail 1 "$unit did not start$said." "systemctl --user status $unit; then $fix"
    done
    say "$sentence What comes and goes: journalctl --user -u ${enabled[0]%.*} -f"
}

drop_unit() { # name
    systemctl --user --quiet disable --now "$1" 2>/dev/null || true
    rm -f "$(user_units)/$1"
}

remove_inbox() {
    local unit file found=false
    for unit in "${INBOX_UNITS[@]}"; do
        file=$(user_units)/$unit
        [[ -f $file ]] || continue
        found=true
        if command -v systemctl >/dev/null; then
            drop_unit "$unit"
        fi
        rm -f "$file" || fail 1 "$file cannot be removed." "ls -la '$(user_units)'"
    done
    if ! $found; then
        say "No drop folder is watched."
        return
    fi
    if command -v systemctl >/dev/null; then
        systemctl --user daemon-reload 2>/dev/null || true
        systemctl --user --quiet reset-failed "${INBOX_UNITS[@]}" 2>/dev/null || true
    fi
    say "The drop folder is no longer watched. Its files are where they were, and what they say is still in the index:" \
        ".venv/bin/bigos ingest FOLDER --forget"
}

# --- RTK -------------------------------------------------------------------------------------------------------------

trust_rtk_filters() {
    if ! command -v rtk >/dev/null; then
        say "rtk is not on PATH, so .rtk/filters.toml stays unused; nothing depends on it."
        return
    fi
    tried rtk trust || fail 1 "rtk did not take .rtk/filters.toml$said." "rtk trust, in $root"
    say "rtk trusts .rtk/filters.toml as it is now."
}
