#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# stock.sh: fetch Debian's kernel for virtual machines, as it is, and make what a
# node boots it with; print the directory: vmlinuz, initrd, and nova-rt-sched, the
# scheduler that makes the reservations there. The initrd has the modules; it loads
# those of the disk, and lays all into the root.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
scx=$here/../../scx
kernel_work=${NOVA_RT_KERNEL:-/var/lib/nova-rt-kernel}
work=${NOVA_RT_SCX:-$kernel_work/scx}
. "$scx/kernels/7.3.4-cloud-amd64"
. "$here/../../kernel/scripts/archive.sh"
modules=linux-modules-${package#linux-binary-}
modules_sha256=359f04c363b7d3c5f9ce999ccb7351e00cc8eec0a30d6bc1cda37734987fc43d

"$scx/scripts/packages.sh" >&2
kernel=$("$scx/scripts/fetch.sh" "$scx/kernels/7.3.4-cloud-amd64")
daemon=$("$scx/scripts/build.sh")
key=$(cat "$0" "$kernel/vmlinuz" "$daemon/nova-rt-sched" \
    "$scx/nova-rt-sched.service" /bin/busybox | sha256sum | cut -c1-16)
made=$work/node-$key
exec 9>"$work/lock-node"
flock 9
if [ ! -e "$made" ]; then
    echo "the stock kernel of the node: a minute" >&2
    deb=$(debian_download "$suite" "$modules" "$version" "$modules_sha256" \
        "$work/download")
    rm -rf "$work"/node-* && mkdir -p "$work/node-new/root"
    cd "$work/node-new/root"
    mkdir -p bin dev new proc lib
    cp /bin/busybox bin/
    dpkg-deb --fsys-tarfile "$deb" | tar -x ./usr/lib/modules
    mv usr/lib/modules lib/ && rm -rf usr
    release=$(ls lib/modules)
    find lib/modules -name '*.ko.xz' -exec xz -d {} +
    depmod -b . "$release"
    cat >init <<'END'
#!/bin/busybox sh
busybox=/bin/busybox
$busybox mount -t devtmpfs dev /dev
$busybox mount -t proc proc /proc
for module in virtio_pci virtio_blk ext4; do
    $busybox modprobe -q "$module" || : built in
done
until [ -b /dev/vda ]; do $busybox sleep 0.1; done
$busybox mount -t ext4 /dev/vda /new
$busybox mkdir -p /new/lib/modules
$busybox mount -t tmpfs modules /new/lib/modules
$busybox cp -a /lib/modules/. /new/lib/modules
$busybox umount /proc
$busybox mount --move /dev /new/dev
exec $busybox switch_root /new /sbin/node-init
END
    sed -i '1s,.*,#!/bin/busybox sh,' init
    chmod 755 init
    find . | LC_ALL=C sort | cpio -o -H newc --quiet | zstd -q -3 >../initrd
    cd ..
    rm -rf root
    cp "$kernel/vmlinuz" "$daemon/nova-rt-sched" \
        "$scx/nova-rt-sched.service" .
    mv "$work/node-new" "$made"
fi
echo "$made"
