#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# HCBS-Test-Suite, which scripts/suite.sh builds: what its run_tests.sh runs in
# "all", and its stress tests, some of them for a shorter time. Prints "suite
# <test> pass|fail|skip <what it says>" for each; scripts/suite.py judges. The
# argument names a part: "all", or "deadline" for the tests beside deadline tasks
# alone, whose admission depends on the number of CPUs.
part=${1:-all}
cg=/sys/fs/cgroup
cpus=$(nproc)
export TESTBINDIR=/suite

# What its programs print, as one line for each test. Where several have the same
# name, as in the random stress, one that fails counts.
results() {
    awk -v cpus="$cpus" '
        function end(  line) {
            if (name == "") return
            if (!(name in result)) order[++n] = name
            count[name]++
            if (result[name] != "fail") {
                result[name] = verdict
                text[name] = detail
            }
            name = ""
        }
        /^\[[a-z]+\] .*: (Success|Failure|Skipped)/ {
            end()
            verdict = /: Success/ ? "pass" : /: Failure/ ? "fail" : "skip"
            detail = ""
            name = $0
            sub(/^\[[a-z]+\] /, "", name)
            sub(/: (Success|Failure|Skipped).*/, "", name)
        }
        /^    (Reason|Details): / {
            detail = $0
            sub(/^ *[A-Z][a-z]*: /, "", detail)
        }
        END {
            end()
            for (i = 1; i <= n; i++) {
                name = order[i]
                if (count[name] > 1 && result[name] == "pass")
                    text[name] = count[name] " of them"
                print "suite", cpus "/" name, result[name], text[name]
            }
        }' /tmp/out
}

begin() { # name, program of the suite, arguments
    name=$1 program=$2
    shift 2
    echo "| $name begins at $(cut -d ' ' -f 1 /proc/uptime) s"
    timeout 600 "/suite/$program" "$@" >/tmp/out 2>&1
    status=$?
    sed 's/^/| /' /tmp/out
}

# What one test leaves behind is no matter of the next.
clean() {
    killall -9 yes tools 2>/dev/null
    for i in 1 2 3 4 5; do
        [ -d $cg/g0 ] || return 0
        [ "$i" -eq 1 ] || sleep 0.2
        rmdir $cg/g0 2>/dev/null
    done
    echo "| g0 cannot be removed"
}

ended() {
    echo "suite $cpus/$name fail ended with $status: $(tail -n 1 /tmp/out)"
}

run() { # name, program, arguments
    export BATCH_TEST_CUSTOM_NAME="$1"
    begin "$@"
    unset BATCH_TEST_CUSTOM_NAME
    results >/tmp/results
    # It ends with 1 after a failure that it reports.
    ! grep -q ' fail ' /tmp/results || status=0
    if [ $status -eq 0 ] && [ -s /tmp/results ]; then
        cat /tmp/results
    else
        ended
    fi
    clean
}

# Many tests with names of their own; the first that fails doesn't end it.
constraints() {
    export BATCH_TEST=1
    begin constraints constraints_cgroup_setup
    unset BATCH_TEST
    results
    [ $status -eq 0 ] || ended
    clean
}

tool() { # name, program, arguments
    begin "$@"
    if [ $status -eq 0 ]; then
        echo "suite $cpus/$name pass"
    else
        said=$(sed 's/^Error: //' /tmp/out | head -n 1)
        echo "suite $cpus/$name fail $said"
    fi
}

# Version 2 if it has reservations. A kernel without the series has limits, and
# in version 1 only: mounted in the same place, under the name that the suite
# looks for.
mount -t cgroup2 none $cg || exit 1
if [ -e $cg/cpu.rt.max ]; then
    version=2
    umount $cg || exit 1
else
    version=1
    umount $cg || exit 1
    for i in 1 2 3 4 5; do
        mount -t cgroup -o cpu cgroup2 $cg && break
        sleep 1
    done
    [ -e $cg/cpu.rt_runtime_us ] || exit 1
fi
echo "| version $version of control groups"

if [ "$part" = all ]; then
    tool mount-cgroup-fs tools mount-cgroup-fs
    tool move-to-root tools move-to-root
    tool mount-cgroup-cpu tools mount-cgroup-cpu
    tool mount-debug-fs tools mount-debug-fs
    tool hrtick tools hrtick -e
    # What it sets up before all others.
    tool cgroup-setup-900 tools cgroup-setup -r 900
else
    /suite/tools mount-cgroup-cpu && /suite/tools hrtick -e || exit 1
fi
if [ $version -eq 2 ]; then
    echo '900000 1000000' >$cg/cpu.rt.max || exit 1
else
    echo 900000 >$cg/cpu.rt_runtime_us || exit 1
fi

deadline() {
    for r in 10 20 30; do
        run deadline-$r regression deadline -r $r -p 100 -t 60
    done
}

if [ "$part" = deadline ]; then
    deadline
    exit
fi

constraints

# Values CPU by CPU, of an older interface: the suite asks before it uses them.
begin time-multi tools check-multicpu
echo "suite $cpus/time-multi $([ $status -eq 0 ] && echo fail it is there ||
    echo skip "$(tail -n 1 /tmp/out)")"
for n in 1 5; do
    # Its times are in ticks of 10 ms, and until a task is in the group nothing
    # limits it; with the smallest budgets, that takes the suite a while.
    tasks=one-task seconds=10
    [ $n -eq 1 ] || tasks=five-tasks seconds=60
    for set in 'one-cpu 40 0' 'two-cpus 30 0-1' 'four-cpus 20 0-3' \
        'eight-cpus 10 0-7' 'all-cpus 5'; do
        # shellcheck disable=SC2086
        set -- $set
        [ "$tasks-$1" != five-tasks-all-cpus ] || seconds=180
        run "$tasks-$1" time uni -n $n -r "$2" -p 100 ${3:+--cpu-set $3} \
            -t $seconds
    done
done

run fair-server regression fair-server -t 60
for r in 10 50 80; do
    run fifo-$r regression fifo -r $r -p 100 -t 60
done
deadline
run migration stress task-migration -r 1 -p 100 -P 0.1 -t 30
run affinity stress task-pinning -r 1 -p 100 -P 0.1 --cpu-set1 0 \
    --cpu-set2 1 -t 30

run stress-setup stress cgroup-setup -r 20 -R 90 -p 100 -t 5
run stress-runtime stress cgroup-runtime -r 20 -R 90 -p 100 -P 0.05 -t 5
run stress-pinning stress task-pinning -r 20 -p 100 -P 0.05 --cpu-set1 0,2 \
    --cpu-set2 1,3 -t 5
run stress-priority stress task-priority -r 20 -p 100 -P 0.05 -t 5
run stress-migration stress task-migration -r 20 -p 100 -P 0.05 -t 5
run stress-class stress task-sched-class -r 20 -p 100 -P 0.05 -t 5
run stress-random stress all -n 12 -t 2 --seed 42
