#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Install the Debian packages that kernel/ needs; what is there stays as it is.
# QEMU has to be 10 or later: where the release's own is older, it comes from
# the release's backports, through an apt configuration of its own.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
work=${NOVA_RT_KERNEL:-/var/lib/nova-rt-kernel}
. "$here/scripts/archive.sh"
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8

packages="
    gcc libc6-dev make flex bison bc libelf-dev libssl-dev cpio rsync patch
    git perl-base pkg-config python3 ccache xz-utils bzip2 gzip
    busybox-static
    dpkg-dev debhelper libdw-dev dwarves kmod zstd mmdebstrap e2fsprogs
    ca-certificates debian-archive-keyring util-linux
"

say() { echo "packages: $*" >&2; }

installed() {
    case $(dpkg-query -W -f '${Status}' "$1" 2>/dev/null) in
        *' installed') return 0 ;;
        *) return 1 ;;
    esac
}

# apt-get, after whoever holds one of its locks: it waits for dpkg's by itself,
# for that of the lists it does not.
apt_get() {
    tries=0
    until said=$(apt-get -o DPkg::Lock::Timeout=600 "$@" 2>&1); do
        case $said in
            *'Could not get lock'*) [ "$tries" -lt 120 ] ;;
            *) false ;;
        esac || {
            echo "$said" >&2
            return 1
        }
        [ "$tries" -gt 0 ] || say "waiting for another apt"
        tries=$((tries + 1))
        sleep 5
    done
}

updated=
update() {
    [ -n "$updated" ] || apt_get -qq update
    updated=yes
}

missing=
for p in $packages; do
    installed "$p" || missing="$missing $p"
done
if [ -n "$missing" ]; then
    say "installing$missing"
    update
    # shellcheck disable=SC2086
    apt_get install -qq -y --no-install-recommends $missing
fi

recent() { # version of QEMU
    [ -n "$1" ] && dpkg --compare-versions "$1" ge 1:10
}

qemu=qemu-system-x86
if [ -n "${QEMU:-}" ]; then
    say "QEMU is $QEMU, as told"
    exit 0
fi
version=
if installed "$qemu"; then
    version=$(dpkg-query -W -f '${Version}' "$qemu")
fi
if ! recent "$version"; then
    update
    version=$(apt-cache policy "$qemu" | sed -n 's/^ *Candidate: //p')
    if recent "$version"; then
        apt_get install -qq -y --no-install-recommends "$qemu"
    else
        codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
        mirror=$(debian_mirror)
        say "QEMU ${version:-(none)} is too old: taking $codename-backports"
        debian_apt "$work/apt-qemu" "$mirror" "$codename" \
            "$codename-updates" "$codename-backports"
        # shellcheck disable=SC2086
        apt_get $apt_options update
        # shellcheck disable=SC2086
        apt_get $apt_options install -y --no-install-recommends \
            -t "$codename-backports" "$qemu"
        rm -rf "$apt"
    fi
    version=$(dpkg-query -W -f '${Version}' "$qemu")
    recent "$version" || {
        say "QEMU $version is too old: 10 or later is needed"
        exit 1
    }
fi
say "all there, QEMU $version"
