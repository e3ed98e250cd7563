# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: GPL-2.0-only
#
# What comes from the distribution (Arch, Debian and Ubuntu, Fedora), and the one place that calls sudo. Sourced by
# setup.sh, which holds the variables (yes, fix).

package_manager() {
    local name
    for name in pacman apt-get dnf; do
        if command -v "$name" >/dev/null; then
            echo "$name"
            return
        fi
    done
}

package_names() { # podman or ocr
    case $(package_manager):$1 in
    *:podman) echo podman ;;
    pacman:ocr) echo tesseract tesseract-data-eng tesseract-data-pol tesseract-data-osd poppler ;;
    apt-get:ocr) echo tesseract-ocr tesseract-ocr-eng tesseract-ocr-pol tesseract-ocr-osd poppler-utils ;;
    dnf:ocr) echo tesseract tesseract-langpack-eng tesseract-langpack-pol tesseract-osd poppler-utils ;;
    *:ocr) echo "tesseract with its data for pol and eng, poppler" ;;
    esac
}

install_command() { # packages...; the command without sudo, nothing where no package manager is known
    case $(package_manager) in
    pacman) echo "pacman -S --needed --noconfirm $*" ;;
    # With what these packages recommend: rootless Podman needs it.
    apt-get) echo "apt-get install -y $*" ;;
    dnf) echo "dnf install -y $*" ;;
    esac
}

ocr_lacks() { # what of the OCR tools is not there, in words; nothing when all is
    local languages language
    if ! command -v tesseract >/dev/null; then
        echo "tesseract is not installed"
    elif ! command -v pdftoppm >/dev/null; then
        echo "pdftoppm (poppler) is not installed"
    else
        languages=$(tesseract --list-langs 2>/dev/null)
        for language in pol eng; do
            grep -qx "$language" <<<"$languages" || { echo "tesseract has no data for $language" && return; }
        done
    fi
}

as_root() { # what needs it, command...; says the command, asks, runs it; its exit code
    local purpose=$1 shown answer prefix=()
    shift
    shown="sudo $(printf '%q ' "$@")"
    shown=${shown% }
    if [[ $(id -u) == 0 ]]; then
        shown=${shown#sudo }
    elif ! command -v sudo >/dev/null; then
        fail 1 "$purpose needs administrator rights, and there is no sudo." "as root: ${shown#sudo }; then $fix"
    elif [[ -t 0 ]]; then
        prefix=(sudo)
    else
        prefix=(sudo -n) # nobody is there to type a password
    fi
    say "$purpose needs administrator rights: $shown"
    if ! $yes; then
        [[ -t 0 ]] || fail 2 "there is no terminal to ask on before that." "$shown; then $fix"
        read -r -p "Run it? [Y/n] " answer || answer=n
        [[ $answer =~ ^([YyTt].*)?$ ]] || fail 1 "$purpose: not done, as you said." "$shown; then $fix"
    fi
    "${prefix[@]}" "$@" >&2
}

install_packages() { # what for, packages...
    local purpose=$1 command
    shift
    command=$(install_command "$@")
    [[ -n $command ]] ||
        fail 1 "$purpose is missing, and this is neither Arch, Debian, Ubuntu nor Fedora." "install $*; then $fix"
    # shellcheck disable=SC2086 # words
    as_root "$purpose" $command || fail 1 "the packages could not be installed ($*)." \
        "$([[ $command != apt-get* ]] || echo "sudo apt-get update && ")sudo $command; then $fix"
}
