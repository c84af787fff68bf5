#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Put the pristine source tree of BASE under the work directory, verified by
# hash, and print its path. Routes: a tarball that KERNEL_TARBALL names, else
# the Debian package, through an apt configuration of its own. Exits with 69
# (EX_UNAVAILABLE) where that cannot be had.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
work=${NOVA_RT_KERNEL:-/var/lib/nova-rt-kernel}
. "$here/BASE"
. "$here/scripts/archive.sh"
tree=$work/base-$(echo "$tarball_sha256" | cut -c1-16)
tar=$work/download/$(basename "$tarball")

say() { echo "fetch: $*" >&2; }

verify() { # file sha256
    echo "$2  $1" | sha256sum --check --status || {
        say "$1 does not have the hash $2"
        exit 1
    }
}

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
    verify "$tar" "$tarball_sha256"
    rm -rf "$tree" "$tree.new" && mkdir "$tree.new"
    tar -C "$tree.new" --strip-components=1 -xf "$tar"
    touch "$tree.new/.complete"
    mv "$tree.new" "$tree"
    say "verified, in $tree"
fi
echo "$tree"
