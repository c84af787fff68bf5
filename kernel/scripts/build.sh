#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# build.sh base|hcbs [debug]: build the test kernel without or with the series
# and print the path of its image. Kept under the work directory by the hash
# of base, series and configuration; a second call finds it there.
set -eu
which=$1 flavour=${2:-test}
here=$(cd "$(dirname "$0")/.." && pwd)
work=${NOVA_RT_KERNEL:-/var/lib/nova-rt-kernel}
base=$("$here/scripts/fetch.sh")

series=/dev/null
[ "$which" = base ] || series=$(ls "$here"/patches/*.patch)
configs=$here/config/test.config
[ "$flavour" = test ] || configs="$configs $here/config/$flavour.config"
# shellcheck disable=SC2086
key=$(cat "$here/BASE" $series $configs | sha256sum | cut -c1-16)
out=$work/build-$which-$flavour-$key
image=$out/bzImage
mkdir -p "$work/locks"
exec 9>"$work/locks/build-$which-$flavour-$key"
flock 9
if [ ! -e "$image" ]; then
    tree=$work/tree-$which-$key
    rm -rf "$tree" "$out" && mkdir -p "$out"
    cp -a --reflink=auto "$base" "$tree"
    if [ "$which" != base ]; then
        for p in $series; do
            patch -d "$tree" -p1 --quiet --forward --fuzz=0 <"$p"
        done
    fi
    {
        make -C "$tree" O="$out/o" tinyconfig
        # shellcheck disable=SC2086
        (cd "$tree" && ./scripts/kconfig/merge_config.sh -m -O "$out/o" \
            "$out/o/.config" $configs)
        make -C "$tree" O="$out/o" olddefconfig
    } >"$out/log" 2>&1
    # A line that Kconfig dropped would be a test of something else.
    # shellcheck disable=SC2086
    grep -h '^CONFIG' $configs | while read -r line; do
        grep -qx "$line" "$out/o/.config" || {
            echo "build: $line is not in the configuration" >&2
            exit 1
        }
    done
    cc=gcc
    if command -v ccache >/dev/null; then
        cc="ccache gcc"
        export CCACHE_DIR="$work/ccache" CCACHE_BASEDIR="$tree"
    fi
    export KBUILD_BUILD_TIMESTAMP='2026-01-01' KBUILD_BUILD_USER=nova-rt \
        KBUILD_BUILD_HOST=nova-rt
    nice -n "${BUILD_NICE:-10}" make -C "$tree" O="$out/o" CC="$cc" \
        HOSTCC="$cc" -j"${JOBS:-$(nproc)}" bzImage >>"$out/log" 2>&1 || {
        tail -30 "$out/log" >&2
        exit 1
    }
    if grep -n 'warning:' "$out/log" >&2; then
        echo "build: the compiler warned" >&2
        exit 1
    fi
    cp "$out/o/arch/x86/boot/bzImage" "$image.new"
    rm -rf "$tree" "$out/o"
    mv "$image.new" "$image"
fi
echo "$image"
