#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Put a pristine source tree under the work directory, verified by hash, and
# print its path: that of the first file of base/ that can be had, else that of
# any version which the archive has and the series applies to. The file that it
# comes from is .base in the tree. A tarball that KERNEL_TARBALL names is taken
# if base/ knows it. Exits with 69 (EX_UNAVAILABLE) if there is no source.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
work=${NOVA_RT_KERNEL:-/var/lib/nova-rt-kernel}

say() { echo "fetch: $*" >&2; }

# One at a time: two would unpack into the same directory.
mkdir -p "$work/locks"
exec 8>"$work/locks/fetch"
flock 8

if [ -n "${KERNEL_TARBALL:-}" ]; then
    sum=$(sha256sum <"$KERNEL_TARBALL" | cut -d' ' -f1)
    base=$(grep -l "^tarball_sha256=$sum\$" "$here"/base/* | head -n 1)
    [ -n "$base" ] || {
        say "no file of base/ has the hash of $KERNEL_TARBALL: $sum"
        exit 1
    }
    exec "$here/scripts/fetch-one.sh" "$base"
fi

# One choice for all that is built from it, until the list is another one. The
# file in the tree, since other checkouts come and go.
choice=$work/base-choice-$(cat "$here"/base/* | sha256sum | cut -c1-16)
base=$(cat "$choice" 2>/dev/null || :)
if [ -e "$base" ]; then
    exec "$here/scripts/fetch-one.sh" "$base"
fi
for base in "$here"/base/* any; do
    code=0
    if [ "$base" = any ]; then
        base=$("$here/scripts/fetch-any.sh") || code=$?
    fi
    [ "$code" -ne 0 ] ||
        tree=$("$here/scripts/fetch-one.sh" "$base") || code=$?
    if [ "$code" -eq 0 ]; then
        echo "$tree/.base" >"$choice"
        echo "$tree"
        exit
    fi
    # A wrong hash, or no room: no other version helps.
    [ "$code" -eq 69 ] || exit "$code"
done
say "no source: the archive has none of base/, and no other that fits"
exit 69
