#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# guest.sh CPUS LOG TEST [more kernel arguments]: run one test of the guest's init
# on Debian's kernel in QEMU under a virtual clock. SCX_KERNEL names another file
# of kernels/. For one CPU, the log is the same from run to run, on any machine.
set -eu
cpus=$1 log=$2 test=$3
shift 3
here=$(cd "$(dirname "$0")/.." && pwd)
qemu=${QEMU:-qemu-system-x86_64}
build=$("$here/scripts/build.sh")
kernel=$("$here/scripts/fetch.sh" ${SCX_KERNEL:+"$SCX_KERNEL"})

initrd=$build/initrd.gz
if [ ! -e "$initrd" ]; then
    root=$build/root.$$
    mkdir -p "$root/proc" "$root/sys" "$root/dev" "$root/cg" "$root/run"
    cp "$build/init" "$root/init"
    cp "$build/nova-rt-sched.static" "$root/nova-rt-sched"
    strip "$root/init" "$root/nova-rt-sched"
    (cd "$root" && find . | LC_ALL=C sort | cpio -o -H newc --quiet \
        --reproducible | gzip -n) >"$initrd.$$"
    mv "$initrd.$$" "$initrd"
    rm -rf "$root"
fi
pid='' hpet=
# QEMU ends with this script.
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null || :' EXIT
trap 'exit 1' HUP INT TERM
# It would keep the interval timer from running (divide_time() in the guest).
[ "$cpus" = 1 ] || hpet=hpet=off
args="console=ttyS0 panic=-1 nokaslr norandmaps tsc=reliable rdinit=/init"
args="$args loglevel=5 $* t=$test"
timeout "${GUEST_TIMEOUT:-1200}" nice -n "${GUEST_NICE:-10}" "$qemu" \
    ${hpet:+-machine "$hpet"} -accel tcg -icount "shift=0,sleep=off" \
    -rtc base=2026-01-01,clock=vm -seed 1 -cpu max -smp "$cpus" -m 1024 -nodefaults -no-user-config \
    -no-reboot -display none -serial "file:$log" -kernel "$kernel/vmlinuz" \
    -initrd "$initrd" -append "$args" &
pid=$!
wait "$pid"
pid=''
