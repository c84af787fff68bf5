#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Build what the guest runs beside its init, out of the pristine source: perf
# for its scheduler benchmarks and the selftests of sched and cgroup. Prints
# the path of an archive that is loaded after the guest's own.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
work=${NOVA_RT_KERNEL:-/var/lib/nova-rt-kernel}
. "$here/scripts/compile.sh"
base=$("$here/scripts/fetch.sh")

key=$(cat "$base/.base" "$here/scripts/tools.sh" "$here/scripts/compile.sh" |
    sha256sum | cut -c1-16)
image=$work/tools-$key.cpio.gz
mkdir -p "$work/locks"
exec 9>"$work/locks/tools-$key"
flock 9
if [ -e "$image" ]; then
    echo "$image"
    exit 0
fi

tree=$work/tree-tools-$key root=$work/tools-$key log=$work/tools-$key.log
rm -rf "$tree" "$root"
mkdir -p "$tree/perf" "$root/bin" "$root/tmp" "$root/kselftest"
for part in Makefile arch include lib scripts tools; do
    cp -a --reflink=auto "$base/$part" "$tree"
done
compiler "$tree"
export CCACHE_NOHASHDIR=1

run() {
    nice -n "${BUILD_NICE:-10}" "$@" >>"$log" 2>&1 || {
        tail -n 20 "$log" >&2
        echo "tools: $* failed, see $log" >&2
        exit 1
    }
}

: >"$log"
# perf without all that its benchmarks don't need, for a static program.
run make -C "$tree/tools/perf" -j"${JOBS:-$(nproc)}" CC="$cc" LDFLAGS=-static \
    WERROR=0 NO_LIBELF=1 NO_LIBDW=1 NO_LIBTRACEEVENT=1 NO_LIBPYTHON=1 \
    NO_SLANG=1 NO_JEVENTS=1 NO_AUXTRACE=1 NO_LIBNUMA=1 NO_LIBBPF=1 \
    BUILD_BPF_SKEL=0 NO_LIBCAP=1 NO_ZLIB=1 NO_LZMA=1 NO_LIBZSTD=1 NO_SDT=1 \
    NO_LIBBABELTRACE=1 NO_CAPSTONE=1 NO_LIBLLVM=1 NO_LIBPFM4=1 \
    NO_BACKTRACE=1 NO_DEMANGLE=1 NO_LIBUNWIND=1 NO_RUST=1 \
    O="$tree/perf" "$tree/perf/perf"
strip -o "$root/bin/perf" "$tree/perf/perf"

for suite in cgroup sched; do
    from=$tree/tools/testing/selftests/$suite to=$root/kselftest/$suite
    mkdir -p "$to"
    run make -C "$from" OUTPUT="$to" CC="$cc" LDFLAGS=-static KHDR_INCLUDES=
    rm -rf "$to/lib"
    find "$from" -maxdepth 1 -name '*.sh' -exec cp {} "$to" \;
done

# The shell of the tests, and the commands that busybox does not have.
with_libraries() {
    for f in "$(readlink -f "$1")" $(ldd "$1" | grep -o '/[^ ]*'); do
        mkdir -p "$root/$(dirname "$f")"
        cp -L "$f" "$root/$f"
    done
}
cp /bin/busybox "$root/bin/"
for name in sh mount umount; do
    ln -s busybox "$root/bin/$name"
done
for name in bash lscpu fmt; do
    with_libraries "$(command -v "$name")"
done
# By its path in one of the tests.
mkdir -p "$root/usr/bin"
ln -s /bin/busybox "$root/usr/bin/true"
[ -e "$root/bin/bash" ] || ln -s /usr/bin/bash "$root/bin/bash"

find "$root" -exec touch -h -d @0 {} +
(cd "$root" && find . | LC_ALL=C sort | cpio -o -H newc --quiet \
    --reproducible | gzip -n) >"$image.new"
rm -rf "$tree" "$root"
mv "$image.new" "$image"
echo "$image"
