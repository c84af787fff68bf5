#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# image.sh: make the disk of the lab's nodes and print its path: this machine's
# release of Debian with libvirt-LXC, Open vSwitch and OVN, and the lab's Python
# environment at its place, which fits since the release is the same. What changes
# oftener, nova_rt and the configuration, is laid over it at each boot. Either
# layer is kept by the hash of its inputs.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
lab=${NOVA_RT_LAB:-/var/lib/nova-rt-lab}
work=$lab/cache/node
mkdir -p "$work"
. "$here/../../kernel/scripts/archive.sh"
exec 9>"$work/lock"
flock 9

say() { echo "$*" >&2; }

keyring=/usr/share/keyrings/debian-archive-keyring.gpg
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
packages="systemd-sysv udev dbus systemd-container libpam-systemd login passwd
    kmod zstd e2fsprogs iproute2 procps busybox-static util-linux mount
    libvirt-daemon-system libvirt-daemon-driver-lxc libvirt-clients
    python3-minimal python3 sudo openvswitch-switch ovn-host qemu-utils
    dropbear-bin nftables ethtool"
key=$(echo "$suite" "$packages" | sha256sum | cut -c1-16)
debian=$work/debian-$key.tar
if [ ! -e "$debian" ]; then
    say "Debian $suite for the node: some minutes"
    rm -f "$work"/debian-*.tar
    # The mounts that it makes are nobody else's.
    # shellcheck disable=SC2086
    unshare --mount mmdebstrap --quiet --mode=root --variant=minbase \
        --include="$(echo $packages | tr ' ' ,)" \
        --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' \
        "$suite" "$debian.new.tar" \
        "deb [signed-by=$keyring] $(debian_mirror) $suite main" >&2
    mv "$debian.new.tar" "$debian"
fi

key=$(cat "$0" "$here/files/not-needed" "$here/files/node-init" \
    "$lab/venv/.nova-rt-key" | { cat; echo "$key" "$lab"; } |
    sha256sum | cut -c1-16)
disk=$work/disk-$key.img
if [ ! -e "$disk" ]; then
    say "the node's disk: a minute or two"
    rm -rf "$work/root" "$work"/disk-*.img*
    mkdir "$work/root"
    cd "$work/root"
    tar -xpf "$debian"
    mkdir -p ".$lab"
    tar -C "$lab" -c --exclude-from="$here/files/not-needed" venv |
        tar -C ".$lab" -xp
    sed "s,@VENV@,$lab/venv,g" "$here/files/node-init" >sbin/node-init
    chmod 755 sbin/node-init
    # Accounts, as Debian's package of Nova makes them.
    echo 'nova:*:64060:64060::/var/lib/nova:/bin/sh' >>etc/passwd
    echo 'nova:x:64060:' >>etc/group
    sed -i 's/^\(libvirt:[^:]*:[^:]*:\).*/\1nova/' etc/group
    install -d -o 64060 -g 64060 var/lib/nova var/lib/nova/instances \
        var/log/nova
    # Nothing of these is needed, and each takes seconds where no KVM is.
    for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \
        e2scrub_all.timer e2scrub_reap.service fstrim.timer \
        systemd-pstore.service systemd-networkd.service \
        libvirt-guests.service openvswitch-ipsec.service; do
        ln -sf /dev/null "etc/systemd/system/$unit"
    done
    rm -f etc/libvirt/qemu/networks/autostart/default.xml
    echo 'LIBVIRTD_ARGS=' >etc/default/libvirtd
    : >etc/fstab
    : >etc/resolv.conf
    : >etc/machine-id
    truncate -s 8G "$disk.new"
    /sbin/mke2fs -q -t ext4 -F -L root -d . "$disk.new"
    cd "$work" && rm -rf root
    mv "$disk.new" "$disk"
fi
echo "$disk"
