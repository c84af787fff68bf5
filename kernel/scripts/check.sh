#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check.sh [full]: run the tests in QEMU and print their logs' results.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
work=${NOVA_RT_KERNEL:-/var/lib/nova-rt-kernel}
logs=$work/logs
mkdir -p "$logs"
base=$("$here/scripts/build.sh" base)
hcbs=$("$here/scripts/build.sh" hcbs)
failed=

run() { # kernel test cpus log
    if "$here/scripts/guest.sh" "$1" "$2" "$3" "$logs/$4"; then
        echo "passed: $2 on $3 CPU(s)"
    else
        echo "FAILED: $2 on $3 CPU(s), see $logs/$4"
        failed="$failed $2"
    fi
    grep -aE 'FAIL|WARNING|BUG:|Oops|DONE' "$logs/$4" || :
}

run "$base" control 1 control.log
run "$hcbs" supply 1 supply.log
echo
echo 'Without and with the series. Columns: periods, least and most us in a'
echo 'period, periods too short, too long, longest gap (us), accounted (ppm).'
python3 "$here/scripts/table.py" "$logs/control.log" "$logs/supply.log"
echo
run "$hcbs" refuse1 1 refuse1.log
run "$hcbs" refuse 1 refuse.log
run "$hcbs" percpu 4 percpu.log
run "$hcbs" migrate 4 migrate.log
run "$hcbs" pi 1 pi.log
run "$hcbs" beside 1 beside.log
run "$base" regress 1 regress-base.log
run "$hcbs" regress 1 regress.log
echo 'Nothing reserved: value, without the series, with it, ratio'
awk '$1 == "value" && NR == FNR { old[$2] = $3; next }
    $1 == "value" { printf "%-18s %9d %9d %6.3f\n", $2, old[$2], $3, $3 / old[$2] }' \
    "$logs/regress-base.log" "$logs/regress.log"
run "$hcbs" supply 1 supply2.log
one=$(sha256sum <"$logs/supply.log") two=$(sha256sum <"$logs/supply2.log")
if [ "$one" = "$two" ]; then
    echo "passed: both logs of supply have the hash $(echo "$one" | cut -c1-16)"
else
    echo "FAILED: the logs of supply differ"
    failed="$failed hash"
fi

if [ "${1:-}" = full ]; then
    debug=$("$here/scripts/build.sh" hcbs debug)
    GUEST_SHIFT=2 run "$debug" stress 4 stress.log
fi
[ -z "$failed" ] || { echo "failed:$failed"; exit 1; }
