#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# git am of the series on a pristine tree; after each patch the scheduler and
# the control groups are built, with RT_GROUP_SCHED and without.
# SERIES=full links a kernel after each patch as well. Before that checkpatch may
# say nothing but what is listed here, with the reason.
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

# 0003: for_each_rt_group() is a loop with a condition; no parentheses fit.
# 0004: scoped_guard() after a declaration and a blank line is taken for another
#       declaration.
# 0008: the new file is in kernel/sched/, which MAINTAINERS has.
# 0018: pr_cont_cgroup_path() prints the path of a group, and nothing else does.
# 0019 to 0021, 0026: the commits are mainline's, which the tree here does not have.
# 0022: a line of mainline's that 0009 had changed.
cat >"$tree.known" <<EOF
0003 Macros with complex values should be enclosed in parentheses
0004 Missing a blank line after declarations
0008 added, moved or deleted file(s), does MAINTAINERS need updating?
0018 Avoid logging continuation uses where feasible
0019 Unknown commit id '9f239df55546', maybe rebased or not pulled?
0020 Unknown commit id 'a110a81c52a9', maybe rebased or not pulled?
0021 Unknown commit id 'a110a81c52a9', maybe rebased or not pulled?
0022 line length of 101 exceeds 100 columns
0026 Unknown commit id '9f239df55546', maybe rebased or not pulled?
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

for p in "$here"/patches/*.patch; do
    git am -q "$p"
    target='kernel/sched/ kernel/cgroup/'
    [ "${SERIES:-}" != full ] || target=bzImage
    for out in "$tree.o" "$tree.off"; do
        # shellcheck disable=SC2086
        nice -n "${BUILD_NICE:-10}" make -s O="$out" CC="$cc" HOSTCC="$cc" \
            -j"${JOBS:-$(nproc)}" $target >"$tree.log" 2>&1 || {
            cat "$tree.log"
            echo "FAILED: $(basename "$p")"
            exit 1
        }
        if grep 'warning:' "$tree.log"; then
            echo "FAILED: $(basename "$p")"
            exit 1
        fi
    done
    echo "built: $(basename "$p")"
done
rm -rf "$tree" "$tree.o" "$tree.off" "$tree.off.config" "$tree.log" \
    "$tree.known" "$tree.said" "$tree.complaints"
