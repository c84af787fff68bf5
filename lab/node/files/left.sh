#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# On a node: a line for each thing that a server has there, or has left behind.
virsh -q -c lxc:/// list --all --uuid | sed '/^$/d; s/^/domain /'
find /sys/fs/cgroup/machine.slice -mindepth 1 -type d | sed 's/^/group /'
sed 's/^/CPU /' /sys/fs/cgroup/cpu.rt.effective
losetup --list --noheadings --output BACK-FILE | sed 's/^/loop device of /'
grep -o ' /var/lib/nova/instances/[^ ]* ' /proc/self/mountinfo | sed 's/^/mount/'
find /var/lib/nova/instances -mindepth 1 -maxdepth 1 -printf 'file %f\n' |
    grep -vxE 'file (_base|locks|compute_nodes|snapshots)'
ls /sys/class/net | sed 's/^/interface /'
