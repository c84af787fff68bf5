#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The kernel's own selftests of the scheduler and of control groups. Prints
# "self <program>:<test> pass|fail|skip" for each; who fails is judged by
# comparing kernels. Those of memory that need swap or huge pages skip. With
# "brief" the long ones are left out.
brief=${1:-}

result() { # name, exit status
    case $2 in
        0) echo "self $1 pass" ;;
        4) echo "self $1 skip" ;;
        *) echo "self $1 fail" ;;
    esac
}

# Programs that say "ok 1 name", "not ok 2 name", "ok 3 # SKIP name".
tap() {
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
    timeout "${2:-300}" "./$1" >/tmp/out 2>&1
    status=$?
    tail -n 30 /tmp/out | sed 's/^/| /'
    result "$1" $status
}

cd /kselftest/cgroup || exit 1
mount -t cgroup2 none /sys/fs/cgroup || exit 1
for t in test_core test_cpu test_cpuset test_freezer test_kill test_pids; do
    tap $t
done
if [ -z "$brief" ]; then
    for t in test_memcontrol test_kmem test_hugetlb_memcg test_zswap; do
        tap $t
    done
    plain test_cpuset_prs.sh 1500
    plain test_stress.sh
fi
umount /sys/fs/cgroup
mkdir -p /tmp/v1
# Controllers leave the other hierarchy when nothing uses them any more.
for i in 1 2 3 4 5; do
    mount -t cgroup -o cpuset none /tmp/v1 && break
    sleep 1
done
plain test_cpuset_v1_hp.sh
umount /tmp/v1
cd ../sched || exit 1
plain cs_prctl_test
