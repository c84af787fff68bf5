#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Test admission, parser, servers, connections and check.py on this machine.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

build() {
    gcc -g -O1 -Wall -Wextra -Werror -D_GNU_SOURCE -fsanitize=address,undefined \
        -fno-sanitize-recover=undefined -I"$here/src" "$@"
}

build -o "$out/table" "$here/tests/test_table.c" "$here/src/table.c" \
    "$here/src/request.c"
"$out/table"
build -O2 -o "$out/cbs" "$here/tests/test_cbs.c"
"$out/cbs"
build -Wno-sign-compare -o "$out/clients" "$here/tests/test_clients.c" \
    "$here/src/clients.c"
"$out/clients" "$out/socket"
python3 -B -m unittest discover -s "$here/scripts"
