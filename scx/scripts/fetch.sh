#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# fetch.sh [FILE]: put a kernel as Debian ships it under the work directory,
# verified by hash, and print where: vmlinuz to boot, vmlinux with its BTF. FILE
# is one of kernels/, by default that which the scheduler is built for. Exits with
# 69 (EX_UNAVAILABLE) where the archive does not have it.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
kernel_work=${NOVA_RT_KERNEL:-/var/lib/nova-rt-kernel}
work=${NOVA_RT_SCX:-$kernel_work/scx}
. "${1:-$here/kernels/7.3.4-amd64}"
. "$here/../kernel/scripts/archive.sh"
tree=$work/kernel-$(echo "$deb_sha256" | cut -c1-16)

mkdir -p "$work"
exec 8>"$work/lock-fetch"
flock 8
if [ ! -e "$tree/vmlinux" ]; then
    source=$("$here/../kernel/scripts/fetch.sh" 8>&-)
    echo "fetch: $package $version from $suite" >&2
    deb=$(debian_download "$suite" "$package" "$version" "$deb_sha256" \
        "$work/download")
    rm -rf "$tree" "$tree.new" && mkdir "$tree.new"
    dpkg-deb --fsys-tarfile "$deb" | tar -xO "./$image" >"$tree.new/vmlinuz"
    "$source/scripts/extract-vmlinux" "$tree.new/vmlinuz" \
        >"$tree.new/vmlinux" 2>/dev/null
    mv "$tree.new" "$tree"
    rm -f "$deb"
fi
echo "$tree"
