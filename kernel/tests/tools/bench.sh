#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# perf's scheduler benchmarks, with nothing reserved: "value <name> <us>".

value() { # name, the number's unit and what comes after it, command
    name=$1 pattern=$2
    shift 2
    "$@" >/tmp/out 2>&1 || exit 1
    sed 's/^/| /' /tmp/out
    number=$(sed -n "
        s/^ *Total time://
        s#^ *\([0-9.]*\) *$pattern.*#\1#p" /tmp/out)
    [ -n "$number" ] || exit 1
    echo "value $name $number"
}

value perf_pipe_us_per_op usecs/op perf bench sched pipe -l 50000
value perf_pipe_threads_us_per_op usecs/op perf bench sched pipe -T -l 50000
value perf_messaging_s '\[sec\]' perf bench sched messaging -p -g 5 -l 250
value perf_messaging_threads_s '\[sec\]' \
    perf bench sched messaging -p -t -g 5 -l 250
