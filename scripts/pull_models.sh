#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Brings models through Ollama: bge-m3, which Bigos embeds with, or those that are named. What is there is kept; what an
# interruption left half done goes on.

set -euo pipefail

usage() {
    cat <<'END'
usage: scripts/pull_models.sh [--check] [MODEL...]

Pulls MODEL (bge-m3, 1.2 GB) through Ollama, after a look at whether it answers, has the model and has the room.
OLLAMA_HOST names another Ollama than this machine's. Exit 0 when every model is there, else 1 with one sentence.

  --check  pull nothing; exit 1 when a model is missing
END
}

say() { printf '%s\n' "$*" >&2; }

fail() { # code, sentence, hint
    say "error: $2"
    say "hint: $3"
    exit "$1"
}

megabytes() { # of a model that we know, to download and on the disk alike
    case $1 in
    bge-m3 | bge-m3:latest) echo 1200 ;;
    deepseek-coder-v2 | deepseek-coder-v2:latest | deepseek-coder-v2:16b) echo 8900 ;;
    esac
}

# Where this machine's Ollama keeps its models: its installer's user, Arch's, one's own.
models_folder() {
    local folder
    for folder in "${OLLAMA_MODELS-}" /usr/share/ollama /var/lib/ollama "$HOME/.ollama" "$HOME"; do
        if [[ -n $folder && -d $folder ]]; then
            echo "$folder"
            return
        fi
    done
}

is_local() { [[ -z ${OLLAMA_HOST-} || $OLLAMA_HOST =~ ^(https?://)?(127\.|localhost|\[::1\]|0\.0\.0\.0) ]]; }

list_models() { # sets present
    local said
    if ! said=$(timeout 30 ollama list 2>&1); then
        if is_local; then
            fail 1 "Ollama does not answer: $(tail -n 1 <<<"$said")" "sudo systemctl start ollama; then $again"
        fi
        fail 1 "Ollama does not answer at $OLLAMA_HOST: $(tail -n 1 <<<"$said")" "start it there; then $again"
    fi
    present=$said
}

is_there() { # model; a name without a tag means :latest
    local name=$1
    [[ ${name##*/} == *:* ]] || name=$name:latest
    grep -q "^${name//./\\.}[[:space:]]" <<<"$present"
}

require_room() { # model
    local needed folder free
    needed=$(megabytes "$1")
    if [[ -z $needed ]] || ! is_local; then
        return 0
    fi
    folder=$(models_folder)
    free=$(df -Pk "$folder" | sed -En '$s/.* ([0-9]+) +[0-9]+% .*/\1/p')
    # A df that cannot tell is no reason to stop.
    [[ -z $free ]] || ((free / 1024 >= needed + 500)) ||
        fail 1 "$folder has $((free / 1024)) MB free, and $1 needs $needed MB." "free some space; then $again"
}

pull() { # model
    local size said code=0
    size=$(megabytes "$1")
    say "Pulling $1${size:+ ($size MB)} ..."
    if [[ -t 2 ]]; then
        ollama pull "$1" && return
        fail 1 "$1 was not pulled." "$again, which goes on from here"
    fi
    said=$(ollama pull "$1" 2>&1) || code=$?
    ((code)) || return 0
    said=$(tail -n 1 <<<"$said")
    case $said in
    *"no space left"*) fail 1 "the disk became full while $1 was being pulled." "free some space; then $again" ;;
    *"file does not exist"* | *"not found"*) fail 1 "Ollama's registry has no model $1." "ollama list" ;;
    *) fail 1 "$1 was not pulled: $said" "check the network; then $again, which goes on from here" ;;
    esac
}

main() {
    local check=false models=() model present again
    while (($#)); do
        case $1 in
        --check) check=true ;;
        --help | -h) usage && exit 0 ;;
        -*) fail 2 "unknown flag $1." "scripts/pull_models.sh --help" ;;
        *) models+=("$1") ;;
        esac
        shift
    done
    ((${#models[@]})) || models=(bge-m3)
    again="scripts/pull_models.sh ${models[*]}"
    command -v ollama >/dev/null || fail 1 "Ollama is not installed." "https://ollama.com/download; then $again"
    trap 'say "Interrupted; $again goes on from here."; exit 130' INT TERM
    list_models
    for model in "${models[@]}"; do
        if is_there "$model"; then
            $check || say "$model is there."
            continue
        fi
        ! $check || fail 1 "$model is not there." "$again"
        require_room "$model"
        pull "$model"
    done
}

main "$@"
