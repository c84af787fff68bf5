#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Build the scheduler, the daemon and the guest of the tests, kept by the hash of
# what goes into them, and print where: nova-rt-sched (shared libelf and libz),
# nova-rt-sched.static and init for the guest.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
kernel_work=${NOVA_RT_KERNEL:-/var/lib/nova-rt-kernel}
work=${NOVA_RT_SCX:-$kernel_work/scx}
clang=${CLANG:-clang-19}

command -v "$clang" >/dev/null || {
    echo "build: $clang is missing; make -C scx packages installs it" >&2
    exit 69
}
source=$("$here/../kernel/scripts/fetch.sh")
kernel=$("$here/scripts/fetch.sh")

# libbpf and bpftool of the kernel's source.
tools=$work/tools-$(basename "$source")
exec 8>"$work/lock-build"
flock 8
if [ ! -e "$tools/bootstrap/bpftool" ]; then
    echo "build: bpftool and libbpf" >&2
    rm -rf "$tools" "$tools.new" && mkdir -p "$tools.new"
    make -s -C "$source/tools/bpf/bpftool" OUTPUT="$tools.new/" \
        CLANG="$clang" LLVM_STRIP="llvm-strip${clang#clang}" bootstrap \
        >"$work/tools.log" 2>&1 8>&- || {
        tail "$work/tools.log" >&2
        exit 1
    }
    mv "$tools.new" "$tools"
fi
bpftool=$tools/bootstrap/bpftool
lib=$tools/bootstrap/libbpf

out=$work/build-$({ cat "$here"/src/* "$here"/tests/*.c "$here"/tests/guest/* "$0"
    basename "$source"; basename "$kernel"; "$clang" --version; gcc --version
    } | sha256sum | cut -c1-16)
if [ ! -e "$out/complete" ]; then
    echo "build: the scheduler and the daemon" >&2
    rm -rf "$out" && mkdir -p "$out"
    "$bpftool" btf dump file "$kernel/vmlinux" format c >"$out/vmlinux.h"
    scx=$source/tools/sched_ext/include
    include="-I$out -I$here/src -isystem $scx -isystem $scx/bpf-compat"
    include="$include -isystem $lib/include"
    # -fms-extensions as for the kernel, whose types have unnamed members.
    # shellcheck disable=SC2086
    "$clang" -g -O2 -mcpu=v3 -target bpf -D__TARGET_ARCH_x86 -mlittle-endian \
        $include -I"$source/tools/include/uapi" -I"$source/tools/include" \
        -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include \
        -Wall -Werror -fms-extensions -Wno-microsoft-anon-tag \
        -c "$here/src/rsv.bpf.c" -o "$out/rsv.bpf.o"
    "$bpftool" gen object "$out/rsv.o" "$out/rsv.bpf.o"
    "$bpftool" gen skeleton "$out/rsv.o" name rsv >"$out/rsv.skel.h"
    flags="-O2 -g -Wall -Wextra -Werror -Wno-sign-compare -D_GNU_SOURCE"
    flags="$flags -idirafter $source/tools/include/uapi"
    daemon="$here/src/daemon.c $here/src/clients.c $here/src/service.c"
    daemon="$daemon $here/src/kernel.c $here/src/table.c $here/src/request.c"
    daemon="$daemon $here/src/measure.c"
    # shellcheck disable=SC2086
    gcc $flags -fstack-protector-strong -D_FORTIFY_SOURCE=2 -fPIE -pie \
        -Wl,-z,relro,-z,now $include -o "$out/nova-rt-sched" $daemon \
        "$lib/libbpf.a" -lelf -lz
    # shellcheck disable=SC2086
    gcc $flags -static $include -o "$out/nova-rt-sched.static" $daemon \
        "$lib/libbpf.a" -lelf -lz
    # shellcheck disable=SC2086
    gcc $flags $include -o "$out/test-btf" "$here/tests/test_btf.c" \
        "$lib/libbpf.a" -lelf -lz
    "$out/test-btf" >&2
    # shellcheck disable=SC2086
    gcc -O2 -Wall -Wextra -Werror -static -I"$here/src" -o "$out/init" \
        "$here"/tests/guest/*.c
    find "$work" -maxdepth 1 -name 'build-*' -mtime +14 -exec rm -rf {} +
    touch "$out/complete"
fi
echo "$out"
