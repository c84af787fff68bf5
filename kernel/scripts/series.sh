#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# git am of the series on a pristine tree; after each patch the scheduler and
# the control groups are built, with RT_GROUP_SCHED and without. After the last fix of
# mainline and each patch that follows, the kernel boots and shows that RT tasks of
# groups are limited, for the sake of whoever bisects. SERIES=full does so after each
# patch. Before that checkpatch may say nothing but what is listed here, with the
# reason.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
work=${NOVA_RT_KERNEL:-/var/lib/nova-rt-kernel}
. "$here/scripts/compile.sh"
base=$("$here/scripts/fetch.sh")
key=$(cat "$here"/patches/*.patch "$here/config/test.config" | sha256sum | cut -c1-16)
tree=$work/am-$key
compiler "$tree"
rm -rf "$tree" "$tree.o" "$tree.off"
cp -a --reflink=auto "$base" "$tree"
cd "$tree"
git init -q -b base .
git config gc.auto 0
git config user.name nova_rt
git config user.email nova-rt@example.org
git add -A -f .
git commit -q -m base

configure() { # out, lines
    mkdir -p "$1"
    make -s O="$1" tinyconfig
    ./scripts/kconfig/merge_config.sh -m -O "$1" "$1/.config" \
        "$here/config/test.config" "$2" >/dev/null
    make -s O="$1" olddefconfig
}
echo '# CONFIG_RT_GROUP_SCHED is not set' >"$tree.off.config"
configure "$tree.o" /dev/null
configure "$tree.off" "$tree.off.config"

# 0000 to 0005, 0023: the commits are mainline's, which the tree here does not have.
# 0011: for_each_rt_group() is a loop with a condition; no parentheses fit.
# 0012: scoped_guard() after a declaration and a blank line is taken for another
#       declaration.
# 0012: pr_cont_cgroup_path() prints the path of a group, and nothing else does.
# 0013: whether it is the same jiffy or another one, whichever comes first.
# 0020: the new file is in kernel/sched/, which MAINTAINERS has.
cat >"$tree.known" <<EOF
0000 Unknown commit id '63ba8422f876', maybe rebased or not pulled?
0001 Unknown commit id 'a110a81c52a9', maybe rebased or not pulled?
0002 Unknown commit id 'a110a81c52a9', maybe rebased or not pulled?
0003 Unknown commit id 'a110a81c52a9', maybe rebased or not pulled?
0004 Unknown commit id '9f239df55546', maybe rebased or not pulled?
0005 Unknown commit id '9f239df55546', maybe rebased or not pulled?
0011 Macros with complex values should be enclosed in parentheses
0012 Missing a blank line after declarations
0012 Avoid logging continuation uses where feasible
0013 Comparing get_jiffies_64() is almost always wrong; prefer time_after64, time_before64 and friends
0020 added, moved or deleted file(s), does MAINTAINERS need updating?
0023 Unknown commit id 'd245698d727a', maybe rebased or not pulled?
EOF
for p in "$here"/patches/*.patch; do
    ./scripts/checkpatch.pl --no-tree --terse --show-types "$p" || :
done >"$tree.said"
grep -q '^total: ' "$tree.said" || {
    echo 'FAILED: checkpatch does not run'
    exit 1
}
sed -n 's/^.*\/\(00[0-9]*\)-[^:]*:[0-9]*: [A-Z]*:[A-Z_]*: /\1 /p' \
    "$tree.said" >"$tree.complaints"
if grep -vxFf "$tree.known" "$tree.complaints"; then
    echo 'FAILED: checkpatch'
    exit 1
fi
echo "checkpatch: $(wc -l <"$tree.complaints") complaints, all of them known"

boots() { # the name of a patch
    case $1 in
    000[0-5]-*) [ "${SERIES:-}" = full ] ;;
    esac
}

compile() { # out
    # shellcheck disable=SC2086
    nice -n "${BUILD_NICE:-10}" make -s O="$1" CC="$cc" HOSTCC="$cc" \
        -j"${JOBS:-$(nproc)}" kernel/sched/ kernel/cgroup/ >"$tree.log" 2>&1 || {
        cat "$tree.log"
        return 1
    }
    ! grep 'warning:' "$tree.log"
}

fail() { # the name of a patch
    echo "FAILED: $1"
    exit 1
}

number=0
for p in "$here"/patches/*.patch; do
    name=$(basename "$p") number=$((number + 1))
    git am -q "$p"
    if ! compile "$tree.o" || ! compile "$tree.off"; then
        fail "$name"
    fi
    done=built
    if boots "$name"; then
        image=$(PATCHES=$number "$here/scripts/build.sh" hcbs) || fail "$name"
        "$here/scripts/guest.sh" "$image" bisect 1 "$tree.guest" || {
            cat "$tree.guest"
            fail "$name"
        }
        done="boots, $(grep -o 'limited: .*' "$tree.guest")"
    fi
    echo "$name: $done"
done
rm -rf "$tree" "$tree.o" "$tree.off" "$tree.off.config" "$tree.log" \
    "$tree.guest" "$tree.known" "$tree.said" "$tree.complaints"
