#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the image of the lab's containers: an ext4 file system (no partition
# table) with a static busybox, an init of a page and rtprobe. Only the times at
# which its files were made differ between two builds from the same inputs.
#
#   build.sh OUT.img           the image
#   build.sh --probe OUT       only rtprobe, to be run outside a container
#   build.sh --inputs          print what the result depends on, to be hashed

set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
BUSYBOX=/bin/busybox
SIZE_MIB=16
# Any fixed time and ids do.
EPOCH=1767225600
UUID=6e6f7661-7274-4000-8000-6c6162677374
export PATH=$PATH:/usr/sbin:/sbin LC_ALL=C TZ=UTC

function compile {
    gcc -static -O2 -std=gnu11 -Wall -Wextra -Werror \
        -o "$1" "$HERE/rtprobe.c" -lm
}

# A link for each applet, so that PATH finds it.
function add_busybox {
    local root=$1 applet
    install -m 755 "$BUSYBOX" "$root/bin/busybox"
    for applet in $("$BUSYBOX" --list); do
        case $applet in
            busybox | init) ;;
            *) ln -s busybox "$root/bin/$applet" ;;
        esac
    done
}

function fill {
    local root=$1 dir
    for dir in bin dev etc mnt proc root run sbin sys tmp usr/bin usr/sbin \
        var/log; do
        mkdir -p "$root/$dir"
    done
    add_busybox "$root"
    compile "$root/bin/rtprobe"
    install -m 755 "$HERE/init" "$root/sbin/init"
    install -m 755 "$HERE/udhcpc.script" "$root/etc/udhcpc.script"
    echo 'root::0:0:root:/root:/bin/sh' >"$root/etc/passwd"
    echo 'root:x:0:' >"$root/etc/group"
    echo rtprobe >"$root/etc/hostname"
    find "$root" -exec touch -h -d "@$EPOCH" {} +
}

function build {
    local out=$1 image=$work/image
    mkdir "$work/root"
    fill "$work/root"
    truncate -s "${SIZE_MIB}M" "$image"
    E2FSPROGS_FAKE_TIME=$EPOCH mkfs.ext4 -q -F -L rtprobe -U "$UUID" \
        -O ^has_journal -E "hash_seed=$UUID,root_owner=0:0" \
        -d "$work/root" "$image"
    e2fsck -fn "$image" >"$work/fsck.log" 2>&1 ||
        { cat "$work/fsck.log" >&2; exit 1; }
    mv "$image" "$out"
}

function print_inputs {
    cd "$HERE"
    sha256sum build.sh init rtprobe.c udhcpc.script
    sha256sum <"$BUSYBOX"
    gcc --version | sed -n 1p
    mkfs.ext4 -V 2>&1 | sed -n 1p
}

umask 022
case $# in
    1)
        if [ "$1" = --inputs ]; then
            print_inputs
            exit
        fi
        # In the directory of the result, so that it is moved in one step.
        work=$(mktemp -d "$1.XXXXXX")
        trap 'rm -rf "$work"' EXIT
        build "$1"
        ;;
    2)
        [ "$1" = --probe ]
        work=$(mktemp -d "$2.XXXXXX")
        trap 'rm -rf "$work"' EXIT
        compile "$work/rtprobe"
        mv "$work/rtprobe" "$2"
        ;;
    *)
        sed -n '3,/^$/s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
esac
