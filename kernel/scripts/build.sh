#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# build.sh base|hcbs [FLAVOUR [FAULT]]: build the test kernel without or with the
# series and print the path of its image. FLAVOUR is a file of config/, FAULT one of
# tests/faults/; PATCHES=n takes the first n patches only. Kept under the work
# directory by the hash of base, series, configuration, compiler and these scripts; a
# second call finds it there.
set -eu
which=$1 flavour=${2:-test} fault=${3:-}
here=$(cd "$(dirname "$0")/.." && pwd)
work=${NOVA_RT_KERNEL:-/var/lib/nova-rt-kernel}
. "$here/scripts/compile.sh"
base=$("$here/scripts/fetch.sh")

series=/dev/null
[ "$which" = base ] || series=$(find "$here/patches" -name '*.patch' |
    sort | head -n "${PATCHES:-9999}")
[ -z "$fault" ] || series="$series $here/tests/faults/$fault.patch"
configs=$here/config/test.config
[ "$flavour" = test ] || configs="$configs $here/config/$flavour.config"
# shellcheck disable=SC2086
key=$({ cat "$base/.base" $series $configs "$0" "$here/scripts/compile.sh"
    gcc --version; } | sha256sum | cut -c1-16)
name=$which-$flavour${fault:+-$fault}-$key
out=$work/build-$name
image=$out/bzImage
mkdir -p "$work/locks"
exec 9>"$work/locks/build-$name"
flock 9
if [ ! -e "$image" ]; then
    # Built inside a tree of its own, so that no path says where that is: an
    # object that the series does not touch comes out of ccache.
    tree=$work/tree-$name
    rm -rf "$tree" "$out" && mkdir -p "$out"
    # Hard links: patch and make replace files, and never write into them.
    cp -al "$base" "$tree"
    if [ "$which" != base ]; then
        for p in $series; do
            patch -d "$tree" -p1 --quiet --forward --fuzz=0 <"$p"
        done
    fi
    cd "$tree"
    {
        make tinyconfig
        # shellcheck disable=SC2086
        ./scripts/kconfig/merge_config.sh -m .config $configs
        make olddefconfig
    } >"$out/log" 2>&1
    # A line that Kconfig dropped would be a test of something else.
    # shellcheck disable=SC2086
    check_configuration .config $configs
    compiler "$tree"
    export CCACHE_NOHASHDIR=1
    anonymous_build
    # KCSAN, where it is configured, leaves out all of kernel/sched but this object,
    # which has rt.c and deadline.c.
    nice -n "${BUILD_NICE:-10}" make CC="$cc" HOSTCC="$cc" \
        KCSAN_SANITIZE_build_policy.o=y \
        -j"${JOBS:-$(nproc)}" bzImage >>"$out/log" 2>&1 || {
        tail -30 "$out/log" >&2
        exit 1
    }
    # A fault may leave what nobody uses.
    if [ -z "$fault" ] && grep -n 'warning:' "$out/log" >&2; then
        echo "build: the compiler warned" >&2
        exit 1
    fi
    cp .config "$out/config"
    # What gdb needs to look into a guest that hangs.
    cp vmlinux "$out/vmlinux"
    cp arch/x86/boot/bzImage "$image.new"
    cd / && rm -rf "$tree"
    mv "$image.new" "$image"
fi
echo "$image"
