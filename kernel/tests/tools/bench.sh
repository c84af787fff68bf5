#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# perf's scheduler benchmarks, with nothing reserved: "value <name> <us>". Each is
# the mean of 20 runs: messages of many tasks take up to 9 % more or less time, by
# the order in which they happen to run. The standard deviation of a run is 3 %, so
# that of a ratio of two means is 0.9 %.

runs=20

value() { # name, the number's unit and what comes after it, command
    name=$1 pattern=$2
    shift 2
    for _ in $(seq "$runs"); do
        "$@" >/tmp/out 2>&1 || exit 1
        sed 's/^/| /' /tmp/out >&2
        sed -n "
            s/^ *Total time://
            s#^ *\([0-9.]*\) *$pattern.*#\1#p" /tmp/out
    done >/tmp/numbers
    [ "$(grep -c . /tmp/numbers)" -eq "$runs" ] || exit 1
    awk -v name="$name" '
        { sum += $1 } END { printf "value %s %.4f\n", name, sum / NR }' /tmp/numbers
}

value perf_pipe_us_per_op usecs/op perf bench sched pipe -l 10000
value perf_pipe_threads_us_per_op usecs/op perf bench sched pipe -T -l 10000
value perf_messaging_s '\[sec\]' perf bench sched messaging -p -g 5 -l 100
value perf_messaging_threads_s '\[sec\]' \
    perf bench sched messaging -p -t -g 5 -l 100
