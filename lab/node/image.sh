#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# image.sh RELEASE: make the disk of the lab's nodes with a release of Debian, 12 or
# 13, and print its path: libvirt-LXC, Open vSwitch and OVN, and at its place the
# lab's Python environment, a copy if this machine has the same release, or one with
# the same pins made with the release's own Python. What changes oftener, nova_rt
# and the configuration, is laid over it at each boot. Each layer is kept by the
# hash of its inputs.
set -eu
say() { echo "$*" >&2; }

release=$1
here=$(cd "$(dirname "$0")" && pwd)
lab=${NOVA_RT_LAB:-/var/lib/nova-rt-lab}
root=$here/../..
work=$lab/cache/node
mkdir -p "$work"
. "$root/kernel/scripts/archive.sh"
exec 9>"$work/lock"
flock 9

keyring=/usr/share/keyrings/debian-archive-keyring.gpg
own=$(. /etc/os-release && echo "${VERSION_ID%%.*}")
case $release in
    12) suite=bookworm ;;
    13) suite=trixie ;;
    *) say "no node has Debian $release" && exit 2 ;;
esac
packages="systemd-sysv udev dbus systemd-container libpam-systemd login passwd
    libnss-systemd kmod zstd e2fsprogs iproute2 procps busybox-static util-linux mount
    libvirt-daemon-system libvirt-daemon-driver-lxc libvirt-clients
    python3-minimal python3 sudo openvswitch-switch ovn-host qemu-utils
    dropbear-bin nftables ethtool openssh-client openssh-sftp-server"
# pip would have to compile libvirt's.
[ "$release" = "$own" ] || packages="$packages python3-venv python3-libvirt
    ca-certificates"
key=$(echo "$suite" "$packages" | sha256sum | cut -c1-16)
debian=$work/debian-$release-$key.tar
if [ ! -e "$debian" ]; then
    say "Debian $suite for the node: some minutes"
    rm -f "$work/debian-$release"-*.tar
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

# make_python TAR: the Python environment of another release, into a tar. pip runs
# in a root of it, with this machine's way to an index: its configuration, its
# certificates and what its variables say.
make_python() {
    say "Python packages for Debian $release: a few minutes"
    rm -rf "$work/python" "$work/python-$release"-*.tar
    mkdir -p "$work/python$lab" "$work/python/wanted"
    tar -C "$work/python" -xpf "$debian"
    # shellcheck disable=SC2086
    cp $wanted "$work/python/wanted"
    # shellcheck disable=SC2016
    unshare --mount sh -eu -c '
        cd "$1"
        mount -t proc proc proc
        mount --bind /dev dev
        for file in /etc/resolv.conf /etc/pip.conf /etc/ssl/certs; do
            [ -e "$file" ] || continue
            [ -d "$file" ] || { rm -f ".$file" && touch ".$file"; }
            mount --bind "$file" ".$file"
        done
        exec chroot . sh /wanted/make-python "$2"
    ' sh "$work/python" "$lab/venv" >&2
    tar -C "$work/python$lab" -cf "$1.new" venv
    rm -rf "$work/python"
    mv "$1.new" "$1"
}

if [ "$release" = "$own" ]; then
    python_key=$(cat "$lab/venv/.nova-rt-key")
else
    wanted="$root/constraints.txt $root/requirements.txt $here/files/make-python"
    # shellcheck disable=SC2086
    python_key=$(cat $wanted | { cat; echo "$key" "$lab"; } | sha256sum |
        cut -c1-16)
    python=$work/python-$release-$python_key.tar
    [ -e "$python" ] || make_python "$python"
fi
key=$(cat "$0" "$here/files/not-needed" "$here/files/node-init" |
    { cat; echo "$key" "$lab" "$python_key"; } | sha256sum | cut -c1-16)
disk=$work/disk-$release-$key.img
if [ ! -e "$disk" ]; then
    say "the node's disk: a minute or two"
    rm -rf "$work/root" "$work/disk-$release"-*.img*
    mkdir "$work/root"
    cd "$work/root"
    tar -xpf "$debian"
    mkdir -p ".$lab"
    if [ "$release" = "$own" ]; then
        tar -C "$lab" -c --exclude-from="$here/files/not-needed" venv
    else
        cat "$python"
    fi | tar -C ".$lab" -xp --exclude-from="$here/files/not-needed"
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
