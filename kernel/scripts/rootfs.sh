#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# rootfs.sh KERNEL.deb: make the disk of the Debian guest with this kernel
# installed, and with nova_rt from this checkout in /opt/nova_rt. Prints the
# directory that has disk.img, vmlinuz and initrd.img. Three layers, each kept
# by the hash of what it is made from: Debian, Python packages, the rest.
# Needs root; mounts are made in a name space of their own.
set -eu
deb=$1
here=$(cd "$(dirname "$0")/.." && pwd)
top=$(cd "$here/.." && pwd)
work=${NOVA_RT_KERNEL:-/var/lib/nova-rt-kernel}
. "$here/scripts/archive.sh"

suite=bookworm
size=3G
# systemd-container has the machined that libvirt asks for a scope.
packages="systemd-sysv udev dbus systemd-container libpam-systemd login passwd
    kmod initramfs-tools zstd e2fsprogs iproute2 procps busybox-static
    libvirt-daemon-system libvirt-daemon-driver-lxc libvirt-clients
    python3 python3-venv python3-pip python3-libvirt"
python_packages="fixtures oslotest stestr"

key_of() { sha256sum | cut -c1-16; }

# The checkout without what a build leaves in it.
sources() {
    (cd "$top" && find nova_rt pyproject.toml setup.cfg requirements.txt \
        README.rst LICENSE -type f ! -name '*.py[co]' | LC_ALL=C sort)
}

# in_root ROOT COMMAND...: run it in the root, with the network of the host.
in_root() {
    # shellcheck disable=SC2016
    unshare --mount --pid --fork sh -eu -c '
        root=$1; shift
        mount --make-rprivate /
        mount -t proc proc "$root/proc"
        mount -t tmpfs tmpfs "$root/run"
        cp /etc/resolv.conf "$root/etc/resolv.conf"
        # What the host trusts, the guest trusts while it is made.
        mkdir -p "$root/etc/ssl/certs"
        mount --bind /etc/ssl/certs "$root/etc/ssl/certs"
        exec chroot "$root" env -u PIP_FIND_LINKS LC_ALL=C.UTF-8 \
            DEBIAN_FRONTEND=noninteractive "$@"
    ' sh "$@" >&2
}

debian_key=$(echo "$suite" "$packages" | key_of)
debian=$work/guest-debian-$debian_key.tar
python_key=$({ echo "$debian_key" "$python_packages"
    cat "$top/constraints.txt" "$top/requirements.txt"; } | key_of)
python=$work/guest-python-$python_key.tar
key=$({ echo "$python_key"; sha256sum <"$deb"; cd "$top"
    # shellcheck disable=SC2046
    sha256sum $(sources) kernel/tests/containers/* kernel/scripts/rootfs.sh \
        lab/guest/attack.sh
} | key_of)
out=$work/guest-disk-$key
mkdir -p "$work"
exec 9>"$work/guest-disk.lock"
flock 9
if [ -e "$out/disk.img" ]; then
    # It is used: see clean-old.sh.
    touch "$out"
    echo "$out"
    exit
fi

root=$work/guest-root-$$
trap 'rm -rf "$root"' EXIT
if [ ! -e "$debian" ]; then
    echo "rootfs: Debian $suite" >&2
    mirror=$(debian_mirror)
    # The list of packages has line breaks.
    # shellcheck disable=SC2086
    unshare --mount mmdebstrap --quiet --mode=root --variant=minbase \
        --include="$(echo $packages | tr ' ' ,)" "$suite" "$debian.new.tar" \
        "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >&2
    mv "$debian.new.tar" "$debian"
fi
mkdir "$root"
if [ ! -e "$python" ]; then
    echo "rootfs: Python packages" >&2
    tar -C "$root" -xpf "$debian"
    mkdir -p "$root/opt/nova_rt"
    cp "$top/constraints.txt" "$top/requirements.txt" "$root/opt/nova_rt"
    in_root "$root" python3 -m venv --system-site-packages /opt/nova_rt
    # shellcheck disable=SC2086
    in_root "$root" /opt/nova_rt/bin/python -m pip install --quiet \
        --no-cache-dir -c /opt/nova_rt/constraints.txt \
        -r /opt/nova_rt/requirements.txt $python_packages pbr setuptools wheel
    tar -C "$root" -cf "$python.new" .
    mv "$python.new" "$python"
else
    touch "$debian" "$python"
    tar -C "$root" -xpf "$python"
fi

echo "rootfs: kernel and nova_rt" >&2
mkdir -p "$root/opt/src" "$root/opt/kernel-tests"
(cd "$top" && sources | tar -cT -) | tar -xC "$root/opt/src"
cp "$here"/tests/containers/* "$top/lab/guest/attack.sh" \
    "$root/opt/kernel-tests"
in_root "$root" env PBR_VERSION=0.1.0 SETUPTOOLS_SCM_PRETEND_VERSION=0.1.0 \
    /opt/nova_rt/bin/python -m pip install --quiet --no-deps \
    --no-build-isolation --no-index /opt/src
rm -rf "$root/opt/src"
cp "$deb" "$root/opt/kernel.deb"
in_root "$root" dpkg -i /opt/kernel.deb
rm "$root/opt/kernel.deb"

echo 'nova-rt' >"$root/etc/hostname"
echo '/dev/vda / ext4 defaults 0 1' >"$root/etc/fstab"
: >"$root/etc/resolv.conf"
echo 'root:nova-rt' | chroot "$root" chpasswd
# Its network is defined by a package, and the guest has none.
rm -f "$root/etc/libvirt/qemu/networks/autostart/default.xml"
# Debian's has --timeout 120; a test is not to depend on that.
echo 'LIBVIRTD_ARGS=' >"$root/etc/default/libvirtd"

rm -rf "$out.new" && mkdir "$out.new"
for file in vmlinuz initrd.img; do
    cp "$root/boot/$file"-* "$out.new/$file"
done
cp "$root"/boot/config-* "$out.new/config"
truncate -s "$size" "$out.new/disk.img"
/sbin/mke2fs -q -t ext4 -F -L root -d "$root" "$out.new/disk.img"
mv "$out.new" "$out"
# A disk takes a gigabyte: those of other kernels go, unless one runs there.
find "$work" -maxdepth 1 -name 'guest-disk-????????????????' ! -path "$out" \
    -mmin +10 -exec flock -n {} rm -rf {} \;
echo "$out"
