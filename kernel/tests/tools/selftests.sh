#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The kernel's own selftests of the scheduler and of control groups. Prints
# "self <program>:<test> pass|fail|skip" for each; who fails is judged by
# comparing kernels. The argument names a part: "brief" are those of the
# scheduler and of the groups that it schedules, "memory" those of memory, of
# which some need swap or huge pages, and "cpuset" scripts that take 8 CPUs.
part=${1:-brief}

result() { # name, exit status
    case $2 in
        0) echo "self $1 pass" ;;
        4) echo "self $1 skip" ;;
        *) echo "self $1 fail" ;;
    esac
}

# Programs that say "ok 1 name", "not ok 2 name", "ok 3 # SKIP name".
tap() {
    echo "| $1 begins at $(cut -d ' ' -f 1 /proc/uptime) s"
    timeout 300 "./$1" >/tmp/out 2>&1
    status=$?
    sed 's/^/| /' /tmp/out
    sed -n "
        s/^ok [0-9]* # SKIP \([^ ]*\).*/self $1:\1 skip/p; t
        s/^ok [0-9]* \([^ ]*\).*/self $1:\1 pass/p; t
        s/^not ok [0-9]* \([^ ]*\).*/self $1:\1 fail/p" /tmp/out
    # A program that breaks off, or that has nothing to run on here.
    result "$1" $status
}

plain() {
    echo "| $1 begins at $(cut -d ' ' -f 1 /proc/uptime) s"
    timeout "${2:-300}" "./$1" >/tmp/out 2>&1
    status=$?
    tail -n 30 /tmp/out | sed 's/^/| /'
    result "$1" $status
}

cd /kselftest/cgroup || exit 1
mount -t cgroup2 none /sys/fs/cgroup || exit 1
case $part in
    brief)
        for t in test_core test_cpu test_cpuset test_freezer test_kill \
            test_pids; do
            tap $t
        done
        umount /sys/fs/cgroup
        cd ../sched || exit 1
        plain cs_prctl_test
        ;;
    memory)
        for t in test_memcontrol test_kmem test_hugetlb_memcg test_zswap; do
            tap $t
        done
        ;;
    cpuset)
        plain test_cpuset_prs.sh 3000
        plain test_stress.sh
        umount /sys/fs/cgroup
        mkdir -p /tmp/v1
        # Controllers change trees when nothing uses them any more.
        for i in 1 2 3 4 5; do
            mount -t cgroup -o cpuset none /tmp/v1 && break
            sleep 1
        done
        plain test_cpuset_v1_hp.sh
        ;;
    *)
        exit 1
        ;;
esac
