#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Run as root by ./setup.sh --with-ollama-dropin: puts ollama-keep-alive.conf where systemd finds it and restarts Ollama.
# Where that does not work the drop-in goes again, so that nothing is left half done.

set -euo pipefail

folder=${1:-/etc/systemd/system/ollama.service.d}
file=$folder/bigos-keep-alive.conf

take_back() {
    rm -f "$file"
    systemctl daemon-reload || true
    systemctl restart ollama.service || true
    exit 1
}
trap take_back INT TERM

mkdir -p "$folder"
cp "$(dirname "${BASH_SOURCE[0]}")/ollama-keep-alive.conf" "$file"
chmod 644 "$file"
if ! systemctl daemon-reload || ! systemctl restart ollama.service; then
    take_back
fi
