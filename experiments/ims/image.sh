#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the image of the IMS experiment from Debian packages: Kamailio and
# MariaDB, with 257 subscribers. The tree has SIPp as well, for the client.
#
#   image.sh DIRECTORY    writes DIRECTORY/root and DIRECTORY/ims.img

set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PACKAGES=kamailio,kamailio-mysql-modules,mariadb-server,sip-tester
PACKAGES+=,busybox,iproute2
SIZE_MIB=1000
SUBSCRIBERS=257
export PATH=$PATH:/usr/sbin:/sbin LC_ALL=C

function statements {
    local tables=$1/usr/share/kamailio/mysql number
    echo 'CREATE DATABASE kamailio;'
    echo 'USE kamailio;'
    cat "$tables/standard-create.sql" "$tables/auth_db-create.sql"
    for ((number = 1; number <= SUBSCRIBERS; number++)); do
        echo 'INSERT INTO subscriber (username, domain, password) VALUES' \
            "('user$number', 'ims.test', 'secret');"
    done
}

function users {
    local number
    echo SEQUENTIAL
    for ((number = 1; number <= SUBSCRIBERS; number++)); do
        echo "user$number;[authentication username=user$number" \
            "password=secret]"
    done
}

function build {
    local out=$1 root=$1/root
    mmdebstrap --quiet --variant=minbase --include="$PACKAGES" bookworm \
        "$work/root.tar"
    rm -rf "$root"
    mkdir "$root"
    tar -xf "$work/root.tar" -C "$root"
    rm -rf "$root"/usr/share/{doc,man,locale} "$root"/var/{cache,lib}/apt
    statements "$root" | chroot "$root" mariadbd --no-defaults --bootstrap \
        --user=mysql
    install -m 644 "$HERE/guest/kamailio.cfg" "$root/etc/kamailio/"
    install -m 644 "$HERE/guest/register.xml" "$root/root/"
    users >"$root/root/users.csv"
    # Debian's is a link to systemd, if it is there at all.
    rm -f "$root/sbin/init"
    install -m 755 "$HERE/guest/init" "$root/sbin/init"
    install -m 755 "$HERE/../../lab/guest/udhcpc.script" "$root/etc/"
    truncate -s "${SIZE_MIB}M" "$work/image"
    mkfs.ext4 -q -F -O ^has_journal -d "$root" "$work/image"
    mv "$work/image" "$out/ims.img"
}

if [ $# -ne 1 ]; then
    sed -n '3,/^$/s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
umask 022
mkdir -p "$1"
work=$(mktemp -d "$1/build.XXXXXX")
trap 'rm -rf "$work"' EXIT
build "$1"
