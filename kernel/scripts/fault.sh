#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# fault.sh NAME: build the test kernel with the series and the fault
# tests/faults/NAME.patch, and print the path of its image. Kept as those of
# build.sh are.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
work=${NOVA_RT_KERNEL:-/var/lib/nova-rt-kernel}
. "$here/scripts/compile.sh"
base=$("$here/scripts/fetch.sh")

fault=$here/tests/faults/$1.patch
config=$here/config/test.config
key=$({ cat "$base/.base" "$here"/patches/*.patch "$fault" "$config" "$0" \
    "$here/scripts/compile.sh"
    gcc --version; } | sha256sum | cut -c1-16)
out=$work/build-fault-$1-$key
image=$out/bzImage
mkdir -p "$work/locks"
exec 9>"$work/locks/build-fault-$1-$key"
flock 9
if [ ! -e "$image" ]; then
    tree=$work/tree-fault-$1-$key
    rm -rf "$tree" "$out" && mkdir -p "$out"
    # Hard links: patch and make replace files, and never write into them.
    cp -al "$base" "$tree"
    for p in "$here"/patches/*.patch "$fault"; do
        patch -d "$tree" -p1 --quiet --forward --fuzz=0 <"$p"
    done
    cd "$tree"
    {
        make tinyconfig
        ./scripts/kconfig/merge_config.sh -m .config "$config"
        make olddefconfig
    } >"$out/log" 2>&1
    check_configuration .config "$config"
    compiler "$tree"
    export CCACHE_NOHASHDIR=1
    anonymous_build
    nice -n "${BUILD_NICE:-10}" make CC="$cc" HOSTCC="$cc" \
        -j"${JOBS:-$(nproc)}" bzImage >>"$out/log" 2>&1 || {
        tail -30 "$out/log" >&2
        exit 1
    }
    cp arch/x86/boot/bzImage "$image.new"
    cd / && rm -rf "$tree"
    mv "$image.new" "$image"
fi
echo "$image"
