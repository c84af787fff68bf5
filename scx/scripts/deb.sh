#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Build the Debian package nova-rt-sched and print where it is. It has the BPF
# program inside: a node needs no compiler, and any kernel with usable BTF fits.
# Not part of the source package in debian/, whose build may not fetch kernels.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
work=${NOVA_RT_SCX:-${NOVA_RT_KERNEL:-/var/lib/nova-rt-kernel}/scx}
build=$("$here/scripts/build.sh")
version=$(sed -n '1s/.*(\(.*\)).*/\1/p' "$here/../debian/changelog")
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

chmod 755 "$root"
doc=$root/usr/share/doc/nova-rt-sched
mkdir -p "$root/DEBIAN" "$root/usr/sbin" "$root/usr/lib/systemd/system" "$doc"
install -s -m 755 "$build/nova-rt-sched" "$root/usr/sbin/"
install -m 644 "$here/nova-rt-sched.service" "$root/usr/lib/systemd/system/"
install -m 644 "$here/README.rst" "$doc/"
cat >"$doc/copyright" <<'END'
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: nova_rt

Files: *
Copyright: 2026, nova_rt contributors
License: GPL-2
 On Debian systems, the full text of the GNU General Public License, version 2
 is in /usr/share/common-licenses/GPL-2.

Files: usr/sbin/nova-rt-sched
Copyright: 2026, nova_rt contributors
 2015-2026, the authors of libbpf in the Linux kernel
License: GPL-2
Comment: libbpf, which is linked into it, is LGPL-2.1 or BSD-2-Clause.
END
cat >"$root/DEBIAN/control" <<END
Package: nova-rt-sched
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: nova_rt contributors <nova-rt@packages.debian.org>
Section: net
Priority: optional
Depends: libc6 (>= 2.36), libelf1 | libelf1t64, zlib1g
Recommends: systemd (>= 254)
Description: real-time reservations for OpenStack Nova - scheduler of stock kernels
 nova_rt gives containers of OpenStack Nova (libvirt-LXC) a reservation of the
 CPU: a runtime in every period.
 .
 This package has nova-rt-sched, a sched_ext scheduler with its daemon, which
 does that on kernels that are not patched. It is not started before you enable
 it: systemctl enable --now nova-rt-sched.
END
for script in postinst postrm; do
    cat >"$root/DEBIAN/$script" <<'END'
#!/bin/sh
set -e
[ ! -d /run/systemd/system ] || systemctl --system daemon-reload
END
    chmod 755 "$root/DEBIAN/$script"
done
cat >"$root/DEBIAN/prerm" <<'END'
#!/bin/sh
set -e
# An upgrade leaves it running; restart it when that suits the servers.
[ "$1" != remove ] || [ ! -d /run/systemd/system ] ||
    systemctl disable --now nova-rt-sched
END
chmod 755 "$root/DEBIAN/prerm"
# What is installed has to run.
"$root/usr/sbin/nova-rt-sched" --help >/dev/null
dpkg-deb --root-owner-group --build "$root" "$work" >/dev/null
echo "$work/nova-rt-sched_${version}_$(dpkg --print-architecture).deb"
