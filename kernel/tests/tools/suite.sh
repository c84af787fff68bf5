#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the programs of HCBS-Test-Suite in /root/test_suite, one by one, with the
# parameters of its own script but other times, and says what each said. The
# argument is a pattern of names; all is the default.

cd /root/test_suite || exit 1
export BATCH_TEST=1 TESTBINDIR=/root/test_suite
mount -t cgroup2 none /sys/fs/cgroup || exit 1

only=${1:-*}

run() { # name, command
    case $1 in
        # shellcheck disable=SC2254
        setup.* | $only) ;;
        *) return ;;
    esac
    export BATCH_TEST_CUSTOM_NAME=
    case $1 in
        *.*) ;;
        *) BATCH_TEST_CUSTOM_NAME=$1 ;;
    esac
    echo "SUITE $*"
    shift
    timeout -s KILL 300 /root/shim "./$@" </dev/null 2>&1 | sed 's/^/| /'
    # What a test that failed leaves behind.
    killall -9 yes tools 2>/dev/null
    for group in /sys/fs/cgroup/*/; do
        # Until the kernel has done with its tasks.
        for _ in 1 2 3 4 5 6 7 8 9; do
            [ ! -d "$group" ] || rmdir "$group" 2>/dev/null || sleep 0.1
        done
    done
}

run setup.mount tools mount-cgroup-cpu
run setup.debugfs tools mount-debug-fs
run setup.hrtick tools hrtick -e
run setup.root tools cgroup-setup -r 900
# Several tests in one program, which names them.
run constraints.all constraints_cgroup_setup
run_time() { # tasks, seconds
    run time-$1-one-cpu time uni -n $1 -r 40 -p 100 --cpu-set 0 -t $2
    run time-$1-two-cpus time uni -n $1 -r 30 -p 100 --cpu-set 0-1 -t $2
    run time-$1-four-cpus time uni -n $1 -r 20 -p 100 --cpu-set 0-3 -t $2
    run time-$1-all-cpus time uni -n $1 -r 5 -p 100 -t $2
}
run_time 1 10
for runtime in 10 20 30; do
    run deadline-$runtime regression deadline -r $runtime -p 100 -t 60
done
run migration stress task-migration -r 1 -p 100 -P 0.1 -t 20
run affinity stress task-pinning -r 1 -p 100 -P 0.1 \
    --cpu-set1 0 --cpu-set2 1 -t 20
run stress-groups stress cgroup-setup -r 20 -R 90 -p 100 -t 10
run stress-runtime stress cgroup-runtime -r 20 -R 60 -p 100 -P 0.5 -t 10
run stress-priority stress task-priority -r 50 -p 100 -P 0.5 -t 10
run stress-class stress task-sched-class -r 50 -p 100 -P 0.5 -t 10
run fair-server regression fair-server -t 60
for runtime in 10 50 80; do
    run fifo-$runtime regression fifo -r $runtime -p 100 -t 60
done
# It counts from the start of the first task, and allows 0.01 CPUs.
run_time 5 60
