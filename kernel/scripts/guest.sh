#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Run one test of the guest's init in QEMU under a virtual clock.
# guest.sh KERNEL TEST CPUS LOG [more kernel arguments]
# CPUS is the value of -smp. GUEST_TOOLS=tools adds what tools.sh builds, and
# GUEST_TOOLS=suite what suite.sh builds.
# For one CPU, the log is the same to the microsecond from run to run, on any
# machine.
# GUEST_CLOCK=host runs the CPUs side by side under the host's clock instead:
# faster, with more races, and good for no time at all.
set -eu
kernel=$1 test=$2 cpus=$3 log=$4
shift 4
here=$(cd "$(dirname "$0")/.." && pwd)
work=${NOVA_RT_KERNEL:-/var/lib/nova-rt-kernel}
qemu=${QEMU:-qemu-system-x86_64}

# Older ones interleave several CPUs in steps of milliseconds.
if [ "${cpus%%,*}" -gt 1 ]; then
    major=$("$qemu" --version | sed -n '1s/.* version \([0-9]*\).*/\1/p')
    if [ "${major:-0}" -lt 10 ]; then
        echo "guest: $qemu is version ${major:-unknown}; more than one CPU" \
            "takes 10 or later, which 'make -C kernel packages' installs" >&2
        exit 1
    fi
fi

root=$work/guest-$({ cat "$here"/tests/*.[ch] "$here"/tests/tools/* "$0"
    gcc --version; } | sha256sum | cut -c1-16)
if [ ! -e "$root.cpio.gz" ]; then
    new=$root.$$
    mkdir -p "$new/proc" "$new/sys" "$new/dev" "$new/cg"
    gcc -O2 -Wall -Wextra -Werror -static -o "$new/init" "$here"/tests/*.c
    cp -r "$here/tests/tools" "$new/tools"
    (cd "$new" && find . | LC_ALL=C sort | cpio -o -H newc --quiet \
        --reproducible | gzip -n) >"$new.cpio.gz"
    mv "$new.cpio.gz" "$root.cpio.gz"
    rm -rf "$new"
fi

initrd=$root.cpio.gz temporary='' pid=''
# Whoever ends this ends QEMU.
trap 'rm -f $temporary; [ -z "$pid" ] || kill "$pid" 2>/dev/null || :' EXIT
trap 'exit 1' HUP INT TERM
if [ -n "${GUEST_TOOLS:-}" ]; then
    tools=$("$here/scripts/$GUEST_TOOLS.sh")
    temporary=$work/initrd-$$
    initrd=$temporary
    cat "$root.cpio.gz" "$tools" >"$initrd"
fi

args="console=ttyS0 panic=-1 nokaslr norandmaps tsc=reliable t=$test $*"
args="$args rdinit=/init loglevel=5 "
# The icount clock makes time a function of the instructions executed.
clock="-accel tcg -icount shift=${GUEST_SHIFT:-0},sleep=off"
clock="$clock -rtc base=2026-01-01,clock=vm"
[ "${GUEST_CLOCK:-}" != host ] || clock='-accel tcg,thread=multi'
# shellcheck disable=SC2086
timeout "${GUEST_TIMEOUT:-1200}" nice -n "${GUEST_NICE:-10}" "$qemu" \
    $clock -seed 1 -cpu "${GUEST_CPU:-max}" -smp "$cpus" -m "${GUEST_MB:-512}" \
    -nodefaults -no-user-config -no-reboot -display none \
    -serial "file:$log" -kernel "$kernel" -initrd "$initrd" \
    -append "$args" &
pid=$!
wait "$pid"
pid=''
# Whatever the kernel complains about is a failure, too. A deadline server that is
# a period late is one, unless the host may have stopped the CPU for so long.
set -- -f "$here/tests/tools/complaints"
[ "${GUEST_CLOCK:-}" = host ] || set -- "$@" -e 'DL replenish lagged too much'
found=$(grep -aE "$@" "$log" | awk -f "$here/tests/races.awk")
if [ -n "$found" ]; then
    printf '%s\n' "$found"
    exit 1
fi
grep -q '^DONE .* failures 0' "$log"
