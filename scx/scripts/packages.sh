#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Install the Debian packages that scx/ needs, after those of kernel/.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8

"$here/../kernel/scripts/packages.sh"
missing=
for p in clang-19 llvm-19 libelf-dev zlib1g-dev zstd cpio; do
    case $(dpkg-query -W -f '${Status}' "$p" 2>/dev/null) in
        *' installed') ;;
        *) missing="$missing $p" ;;
    esac
done
if [ -n "$missing" ]; then
    echo "packages: installing$missing" >&2
    apt-get -qq -o DPkg::Lock::Timeout=600 update
    # shellcheck disable=SC2086
    apt-get -qq -o DPkg::Lock::Timeout=600 install -y --no-install-recommends \
        $missing
fi
