#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# deb.sh: build Debian packages of a server kernel with the series and print
# the directory they are in. They are kept by the hash of base, series and
# configuration. The build tree stays, and a change of the series touches only
# the files that differ, so that the next build is a short one.
# FLAVOUR is Debian's configuration to start from: cloud-amd64, or amd64, which
# has the drivers of physical machines and takes several times as long.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
work=${NOVA_RT_KERNEL:-/var/lib/nova-rt-kernel}
flavour=${FLAVOUR:-cloud-amd64}
. "$here/config/server.base"
. "$here/scripts/archive.sh"
. "$here/scripts/compile.sh"
base=$("$here/scripts/fetch.sh")
# Its configuration in the place of that of server.base, if it has one.
. "$base/.base"
config_package=$(echo "$package" | sed 's/-source-/-config-/')
config_file=usr/src/$config_package/config.amd64_none_

key=$({ cat "$base/.base" "$here"/patches/*.patch "$here"/config/server.*
    echo "$flavour"; } | sha256sum | cut -c1-16)
out=$work/deb-$key
short=$(echo "$key" | cut -c1-8)
release=${version%%-*}

report() {
    echo "Linux $release with the series, key $key, built in" \
        "$(cat "$out/seconds") s:"
    (cd "$out" && for deb in *.deb; do
        echo "  $deb"
        echo "    $(stat -c %s "$deb") bytes, sha256" \
            "$(sha256sum <"$deb" | cut -d' ' -f1)"
    done)
}

# prepare TREE: make TREE the base with the series. Files that are right stay
# untouched.
prepare() {
    was=$(cat "$1.base" 2>/dev/null || :)
    if [ "$was" != "$base" ]; then
        rm -rf "$1" "$1.files"
        cp -a --reflink=auto "$base" "$1"
        echo "$base" >"$1.base"
    fi
    touch "$1.files"
    stage=$1.stage
    rm -rf "$stage" && mkdir "$stage"
    sed -n 's:^[-+][-+][-+] [ab]/::p' "$here"/patches/*.patch |
        sort -u - "$1.files" >"$1.files.new"
    while read -r file; do
        mkdir -p "$stage/$(dirname "$file")"
        [ ! -e "$base/$file" ] || cp -p "$base/$file" "$stage/$file"
    done <"$1.files.new"
    for p in "$here"/patches/*.patch; do
        patch -d "$stage" -p1 --quiet --forward --fuzz=0 <"$p"
    done
    mv "$1.files.new" "$1.files"
    while read -r file; do
        [ -e "$stage/$file" ] || rm -f "$1/$file"
    done <"$1.files"
    rsync -r --checksum "$stage/" "$1/"
    rm -rf "$stage"
}

configure() { # tree, build directory
    deb=$(debian_download "$suite" "$config_package" "$version" \
        "$config_sha256" "$work/download")
    mkdir -p "$2"
    dpkg-deb --fsys-tarfile "$deb" | tar -xO "./$config_file$flavour.xz" |
        xz -dc >"$2/.config.debian"
    (cd "$1" && ./scripts/kconfig/merge_config.sh -m -O "$2" \
        "$2/.config.debian" "$here/config/server.config")
    make -C "$1" O="$2" olddefconfig
}

if [ ! -e "$out/seconds" ]; then
    mkdir -p "$work/deb"
    exec 9>"$work/deb/lock"
    flock 9
    tree=$work/deb/linux
    objects=$work/deb/o
    log=$work/deb/log
    start=$(date +%s)
    prepare "$tree"
    configure "$tree" "$objects" >"$log" 2>&1 || { tail "$log" >&2; exit 1; }
    # What Kconfig dropped would not be there on the host.
    check_configuration "$objects/.config" "$here/config/server.config"
    compiler "$work/deb"
    anonymous_build
    export KDEB_PKGVERSION="$release-novart.$short"
    # BTF is in the image's package; that of debug information is a gigabyte.
    export DEB_BUILD_PROFILES=pkg.linux-upstream.nokerneldbg
    rm -f "$work"/deb/linux-*.deb
    nice -n "${BUILD_NICE:-19}" make -C "$tree" O="$objects" CC="$cc" \
        HOSTCC="$cc" KDEB_COMPRESS=zstd -j"${JOBS:-$(nproc)}" bindeb-pkg \
        >>"$log" 2>&1 9>&- || {
        tail -30 "$log" >&2
        exit 1
    }
    rm -rf "$out.new" && mkdir "$out.new"
    mv "$work"/deb/linux-image-*.deb "$work"/deb/linux-headers-*.deb "$out.new"
    cp "$objects/.config" "$out.new/config"
    cp "$log" "$out.new/log"
    # The C library's headers are not for hosts.
    rm -f "$work"/deb/linux-libc-dev_*.deb "$work"/deb/linux-upstream_*
    rm -rf "$out" && mv "$out.new" "$out"
    echo $(($(date +%s) - start)) >"$out/seconds"
fi
# It is used: see clean-old.sh.
touch "$out"
report >&2
echo "$out"
