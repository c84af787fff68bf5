#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# fetch-one.sh BASE: put the source tree that a file like those of base/ names
# under the work directory, verified by hash, and print its path. Exits with 69
# (EX_UNAVAILABLE) where the archive does not have it.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
work=${NOVA_RT_KERNEL:-/var/lib/nova-rt-kernel}
. "$1"
. "$here/scripts/archive.sh"
tree=$work/base-$(echo "$tarball_sha256" | cut -c1-16)
tar=$work/download/$(echo "$tarball_sha256" | cut -c1-16)-$(basename "$tarball")

say() { echo "fetch: $*" >&2; }

if [ ! -e "$tree/.complete" ]; then
    mkdir -p "$work/download"
    if [ -n "${KERNEL_TARBALL:-}" ]; then
        tar=$KERNEL_TARBALL
        say "using $tar"
    elif [ ! -e "$tar" ]; then
        say "$package $version from $suite"
        deb=$(debian_download "$suite" "$package" "$version" "$deb_sha256" \
            "$work/download")
        dpkg-deb --fsys-tarfile "$deb" | tar -xO "./$tarball" >"$tar.new"
        mv "$tar.new" "$tar"
        rm -f "$deb"
    fi
    echo "$tarball_sha256  $tar" | sha256sum --check --status || {
        say "$tar does not have the hash $tarball_sha256"
        exit 1
    }
    rm -rf "$tree" "$tree.new" && mkdir "$tree.new"
    tar -C "$tree.new" --strip-components=1 -xf "$tar"
    touch "$tree.new/.complete"
    mv "$tree.new" "$tree"
    say "verified, in $tree"
fi
# What is built from the tree goes by it. Not in place: build trees link to it.
cmp -s "$1" "$tree/.base" || {
    cp "$1" "$tree/.base.new"
    mv "$tree/.base.new" "$tree/.base"
}
echo "$tree"
