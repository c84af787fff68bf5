#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Test admission, parser and check.py on this machine.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

gcc -g -O1 -Wall -Wextra -Werror -D_GNU_SOURCE -fsanitize=address,undefined \
    -fno-sanitize-recover=undefined -I"$here/src" -o "$out/test" \
    "$here/tests/test_table.c" "$here/src/table.c" "$here/src/request.c"
"$out/test"
python3 -B -m unittest discover -s "$here/scripts"
