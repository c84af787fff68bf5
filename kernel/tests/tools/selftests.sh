#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The kernel's own selftests of the scheduler and of control groups. Prints
# "self <program>:<test> pass|fail|skip" for each; who fails is judged by
# comparing kernels. The argument names a part: "brief" are those of the
# scheduler and of the groups that it schedules, "memory" those of memory, for a
# kernel with selftest.config, and "cpuset" scripts that take 8 CPUs.
part=${1:-brief}
into=

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
    # Some miss an event that they wait for (test_freezer), on any kernel: a
    # failure is one that comes three times.
    for _ in 1 2 3; do
        # The words of a command that may be none.
        # shellcheck disable=SC2086
        timeout 300 $into "./$1" >/tmp/out 2>&1
        status=$?
        case $status in 0 | 4) break ;; esac
    done
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
        # A root that gives pages back and keeps names that are not there,
        # swap, and a loopback device with a name.
        mkdir /tmp/disk
        mke2fs /dev/ram0 >/dev/null && mount -t ext2 /dev/ram0 /tmp/disk &&
            mkswap /dev/ram1 >/dev/null && swapon /dev/ram1 &&
            ip link set lo up || exit 1
        mount -o remount,memory_recursiveprot,memory_hugetlb_accounting \
            /sys/fs/cgroup || exit 1
        mkdir /tmp/disk/etc && echo '::1 localhost' >/tmp/disk/etc/hosts
        for d in proc sys dev; do
            mkdir /tmp/disk/$d && mount -o rbind /$d /tmp/disk/$d || exit 1
        done
        cp test_* /tmp/disk && into='chroot /tmp/disk' || exit 1
        # A kernel without memory says so, with a call trace. What else it
        # says is a complaint.
        dmesg -n 1
        for t in test_memcontrol test_kmem test_hugetlb_memcg test_zswap; do
            [ $t != test_zswap ] ||
                echo 1 >/sys/module/zswap/parameters/enabled
            [ $t != test_hugetlb_memcg ] ||
                echo 20 >/proc/sys/vm/nr_hugepages
            tap $t
            dmesg -c | grep -E -f /tools/complaints | grep -v 'Call Trace' || :
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
