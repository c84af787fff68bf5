#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# perf's scheduler benchmarks, with nothing reserved: "value <name> <us>". Each is
# the median of five runs: messages of many tasks take some percent more or less
# time, by the order in which they happen to run.

value() { # name, the number's unit and what comes after it, command
    name=$1 pattern=$2
    shift 2
    for _ in 1 2 3 4 5; do
        "$@" >/tmp/out 2>&1 || exit 1
        sed 's/^/| /' /tmp/out >&2
        sed -n "
            s/^ *Total time://
            s#^ *\([0-9.]*\) *$pattern.*#\1#p" /tmp/out
    done | sort -n >/tmp/numbers
    [ "$(grep -c . /tmp/numbers)" -eq 5 ] || exit 1
    echo "value $name $(sed -n 3p /tmp/numbers)"
}

value perf_pipe_us_per_op usecs/op perf bench sched pipe -l 10000
value perf_pipe_threads_us_per_op usecs/op perf bench sched pipe -T -l 10000
value perf_messaging_s '\[sec\]' perf bench sched messaging -p -g 5 -l 100
value perf_messaging_threads_s '\[sec\]' \
    perf bench sched messaging -p -t -g 5 -l 100
