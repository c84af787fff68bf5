#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# clean-old.sh: remove what the work directory keeps by hash and nobody has used
# for 14 days (DAYS says another number). What is locked, because somebody makes
# or runs it, stays; and whatever goes is made again when it is asked for.
set -eu
work=${NOVA_RT_KERNEL:-/var/lib/nova-rt-kernel}
days=${DAYS:-14}
mkdir -p "$work/locks"
cd "$work"
# Nobody unpacks a layer of the Debian guest meanwhile.
exec 9>guest-disk.lock
flock 9
key=????????????????
for path in build-*-$key tree-*-$key tools-$key tools-$key.* \
    suite-$key suite-$key.* am-$key am-$key.* \
    deb-$key guest-$key guest-$key.* guest-disk-$key guest-*-$key.tar \
    initrd-*; do
    [ -e "$path" ] || continue
    # A script that makes or takes something opens the lock of that name.
    name=${path%%.*}
    case $name in
        tree-tools-* | tree-suite-*) name=${name#tree-} ;;
        tree-*) name=build-${name#tree-} ;;
    esac
    lock=locks/$name
    [ -e "$lock" ] || lock=$path
    [ -z "$(find "$path" "$lock" -maxdepth 0 \
        \( -mtime "-$days" -o -type f -atime "-$days" \))" ] || continue
    size=$(du -sh "$path" | cut -f 1)
    if flock -n "$lock" rm -rf "$path"; then
        echo "removed: $path ($size)"
    else
        echo "in use:  $path"
    fi
done
