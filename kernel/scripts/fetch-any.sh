#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Look in the archive for a source that the series applies to, of whatever
# version; print a file like those of base/ that names it, with its hashes, which
# apt has compared with the archive's signed lists. Exits with 69
# (EX_UNAVAILABLE) if there is none.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
work=${NOVA_RT_KERNEL:-/var/lib/nova-rt-kernel}
. "$here/scripts/archive.sh"
trial=$work/fetch-any

say() { echo "fetch: $*" >&2; }

applies() { # TARBALL: the series does, to the files that it changes
    rm -rf "$trial/tree" && mkdir "$trial/tree"
    sed -n 's:^[-+][-+][-+] [ab]/::p' "$here"/patches/*.patch | sort -u |
        sed 's:^:*/:' >"$trial/files"
    # Files that the series adds are not there.
    tar -C "$trial/tree" --strip-components=1 --wildcards \
        -xf "$1" -T "$trial/files" 2>/dev/null || :
    for p in "$here"/patches/*.patch; do
        patch -d "$trial/tree" -p1 --quiet --forward --fuzz=0 <"$p" \
            >"$trial/patch.log" 2>&1 || return 1
    done
}

mirror=$(debian_mirror) || exit 69
seen=' '
for suite in trixie-backports forky sid; do
    debian_apt "$work/apt-$suite" "$mirror" "$suite"
    # shellcheck disable=SC2086
    apt-get $apt_options update >&2 || continue
    # shellcheck disable=SC2086
    for package in $(apt-cache $apt_options search --names-only \
        '^linux-source-7[.][0-9]+$' | cut -d' ' -f1 | sort); do
        # shellcheck disable=SC2086
        version=$(apt-cache $apt_options policy "$package" |
            sed -n 's/^ *Candidate: //p')
        case $seen in *" ${version%%-*} "*) continue ;; esac
        seen="$seen${version%%-*} "
        rm -rf "$trial" && mkdir -p "$trial"
        say "trying $package $version from $suite"
        # shellcheck disable=SC2086
        (cd "$trial" && apt-get $apt_options download "$package=$version") \
            >&2 || continue
        tarball=usr/src/$package.tar.xz
        dpkg-deb --fsys-tarfile "$trial"/*.deb |
            tar -xO "./$tarball" >"$trial/tar" || continue
        applies "$trial/tar" || {
            say "the series does not apply: $(tail -n 1 "$trial/patch.log")"
            continue
        }
        base=$work/found-$package-$version
        deb_sha256=$(sha256sum <"$trial/"*.deb | cut -d' ' -f1)
        tarball_sha256=$(sha256sum <"$trial/tar" | cut -d' ' -f1)
        cat >"$base" <<END
# Found in the archive; nobody has tested it with the series.
package=$package
version=$version
suite=$suite
deb_sha256=$deb_sha256
tarball=$tarball
tarball_sha256=$tarball_sha256
config_sha256=any
END
        say "none of base/, taking what fits:"
        sed 's/^/fetch:   /' "$base" >&2
        mkdir -p "$work/download"
        mv "$trial/tar" "$work/download/$(echo "$tarball_sha256" |
            cut -c1-16)-$(basename "$tarball")"
        rm -rf "$trial"
        echo "$base"
        exit
    done
done
rm -rf "$trial"
exit 69
