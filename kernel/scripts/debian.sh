#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# debian.sh boot|containers: run a check of boot.py in the Debian guest, with
# the server kernel's package installed.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
work=${NOVA_RT_KERNEL:-/var/lib/nova-rt-kernel}
logs=${KERNEL_LOGS:-$work/logs}
mkdir -p "$logs"
packages=$("$here/scripts/deb.sh")
disk=$("$here/scripts/rootfs.sh" "$packages"/linux-image-*.deb)
# Nobody removes it meanwhile.
exec 8<"$disk"
flock -s 8
exec timeout "${GUEST_TIMEOUT:-3600}" python3 "$here/scripts/boot.py" \
    "$disk" "$logs/console-$1.log" "$1"
