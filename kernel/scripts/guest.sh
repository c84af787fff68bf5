#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Run one test of the guest's init in QEMU under a virtual clock.
# guest.sh KERNEL TEST CPUS LOG [more kernel arguments]
# The log is the same from run to run for one CPU, on any machine.
set -eu
kernel=$1 test=$2 cpus=$3 log=$4
shift 4
here=$(cd "$(dirname "$0")/.." && pwd)
work=${NOVA_RT_KERNEL:-/var/lib/nova-rt-kernel}
qemu=${QEMU:-qemu-system-x86_64}

root=$work/guest-$(cat "$here"/tests/*.[ch] | sha256sum | cut -c1-16)
if [ ! -e "$root.cpio.gz" ]; then
    new=$root.$$
    mkdir -p "$new/proc" "$new/sys" "$new/dev" "$new/cg"
    gcc -O2 -Wall -Wextra -Werror -static -o "$new/init" "$here"/tests/*.c
    (cd "$new" && find . | LC_ALL=C sort | cpio -o -H newc --quiet \
        --reproducible | gzip -n) >"$new.cpio.gz"
    mv "$new.cpio.gz" "$root.cpio.gz"
    rm -rf "$new"
fi

args="console=ttyS0 panic=-1 nokaslr norandmaps tsc=reliable t=$test $*"
args="$args rdinit=/init loglevel=5 "
# The icount clock makes time a function of the instructions executed.
timeout "${GUEST_TIMEOUT:-1200}" nice -n "${GUEST_NICE:-10}" "$qemu" \
    -accel tcg -icount "shift=${GUEST_SHIFT:-0},sleep=off" -seed 1 \
    -rtc base=2026-01-01,clock=vm -cpu max -smp "$cpus" -m 512 \
    -nodefaults -no-user-config -no-reboot -display none \
    -serial "file:$log" -kernel "$kernel" -initrd "$root.cpio.gz" \
    -append "$args"
# Whatever the kernel complains about is a failure, too.
if grep -aE 'WARNING|BUG:|INFO: |Call Trace|suspicious RCU' "$log"; then
    exit 1
fi
grep -q '^DONE .* failures 0' "$log"
