#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Nightly copy of a directory with hard links to the previous night's files.
# usage: backup.sh SOURCE TARGET

set -eu

KEEP_DAYS=14

usage() {
	echo "usage: $0 SOURCE TARGET" >&2
	exit 2
}

[ $# -eq 2 ] || usage
src=$1
dst=$2

[ -d "$src" ] || { echo "$src: no such directory" >&2; exit 1; }
mkdir -p "$dst"

# Only one copy at a time: mkdir is atomic, so it serves as the lock.
lock=$dst/.lock
if ! mkdir "$lock" 2>/dev/null; then
	echo "another backup is running ($lock exists)" >&2
	exit 1
fi
trap 'rmdir "$lock"' EXIT
trap 'exit 1' INT TERM

today=$(date +%Y-%m-%d)
set -- -a --delete
if [ -d "$dst/latest/" ]; then
	set -- "$@" --link-dest="$(readlink -f "$dst/latest")"
fi

# An interrupted run leaves a .partial directory, never a broken snapshot.
rsync "$@" "$src/" "$dst/$today.partial/"
rm -rf "${dst:?}/$today"
mv "$dst/$today.partial" "$dst/$today"
ln -sfn "$today" "$dst/latest"

# Throw away what is older than KEEP_DAYS, judging by the directory's name.
limit=$(date -d "$KEEP_DAYS days ago" +%Y%m%d)
for dir in "$dst"/????-??-??; do
	[ -d "$dir" ] || continue
	stamp=$(basename "$dir" | tr -d -)
	[ "$stamp" -ge "$limit" ] || rm -rf "$dir"
done
