#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What the root of a container can do to reservations, to the host and to
# others: it tries, prints a line for each attempt and fails if one succeeds.
#
#   attack.sh [OTHER_PID [OTHER_GROUP]]
#
# OTHER_PID is a process outside of the container, by the host's number;
# OTHER_GROUP the path of a control group that others' groups are in. Lines are
#
#   <kind> <tab> <attempt> <tab> <result> <tab> <what was said>
#
# The kind is "breach" (must be refused) or "way": what a container's root may
# do, because it is confined to its own namespaces and its own groups. A way is
# tried because it may lead to a breach; the breaches are tried once more behind
# it. The result of a breach is
#
#   refused    EACCES, EPERM or EROFS, and nothing else
#   unseen     there is no such file, process or entry for this root
#   absent     the attempt cannot be made here: no such file or tool
#   SUCCEEDED  it was done
#   UNCLEAR    it failed by something else, behind the check of permissions
#
# The exit code is the number of those that succeeded or are unclear.
#
# Nothing is changed if an attempt succeeds: files are written what they hold,
# and cgroup.kill a word that it does not know.
#
# A container's root may make namespaces of its own, mount there what a user
# namespace may mount, and lower its own priority. It may change no group, not
# even its own.

export PATH=/bin:/sbin:/usr/bin:/usr/sbin LC_ALL=C
other_pid=${1:-}
other_group=${2:-}
tab=$(printf '\t')
work=$(mktemp -d /tmp/attack.XXXXXX) || exit 99
breaches=0
tried=0

if [ "$(awk '{ print $1, $2, $3; exit }' /proc/self/uid_map)" \
    = '0 0 4294967295' ]; then
    echo 'attack.sh: not in a user namespace: this root is the host'\''s' >&2
    exit 99
fi

# What a command says goes to a file; these read it without a process more, since
# there are thousands of attempts.
heard() {
    heard=
    last=
    while IFS= read -r line || [ -n "$line" ]; do
        heard="$heard$line
"
        last=$line
    done <"$work/said"
    # Without the command's own name, the path, and tabs.
    last=${last##*: }
    while :; do
        case $last in
            *"$tab"*) last=${last%%"$tab"*}${last#*"$tab"} ;;
            *) return ;;
        esac
    done
}

report() {
    printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4"
}

# attempt NAME COMMAND...: whether it succeeds, which is a breach.
attempt() {
    name=$1
    shift
    tried=$((tried + 1))
    if "$@" >"$work/said" 2>&1; then
        breaches=$((breaches + 1))
        heard
        report breach "$name" SUCCEEDED "$last"
        return 0
    fi
    heard
    return 1
}

# breach NAME COMMAND...: it must be refused.
breach() {
    attempt "$@" && return
    case $heard in
        # The last is busybox's mount, of EPERM.
        *'Permission denied'* | *'Operation not permitted'* | \
            *'Read-only file system'* | *'are you root?'*)
            report breach "$name" refused "$last"
            ;;
        *'No such file'* | *'No such process'* | *'nonexistent directory'*)
            report breach "$name" unseen "$last"
            ;;
        *'not found'* | *'does not support'*)
            report breach "$name" absent "$last"
            ;;
        *)
            breaches=$((breaches + 1))
            report breach "$name" UNCLEAR "$last"
            ;;
    esac
    return 1
}

# look NAME COMMAND...: there must be nothing for it to find.
look() {
    attempt "$@" && return
    report breach "$name" unseen "$last"
    return 1
}

# way NAME COMMAND...: it may succeed.
way() {
    name=$1
    shift
    if "$@" >"$work/said" 2>&1; then
        report way "$name" 'done' ''
        return 0
    fi
    heard
    report way "$name" refused "$last"
    return 1
}

# absent NAME REASON: nothing to try it on.
absent() {
    report breach "$1" absent "$2"
}

# Write to a file what its first line holds. The subshell: a redirection that
# fails ends some shells. By echo: busybox's printf says nothing of a write that
# fails.
rewrite() {
    (
        text=
        { IFS= read -r text <"$1"; } 2>/dev/null
        echo "${text:-0}" >"$1"
    )
}

put() {
    (echo "$2" >"$1")
}

# Control groups

cgroup_mounts() {
    awk '{ for (i = 7; i < NF; i++) if ($i == "-" &&
        ($(i + 1) == "cgroup" || $(i + 1) == "cgroup2")) print $5 }' \
        /proc/self/mountinfo | sort -u
}

groups() {
    find "$1" -maxdepth 5 -type d ! -path '*/attack-*' 2>/dev/null
}

# Files that anybody may write to.
writable_files() {
    find "$1" -maxdepth 1 -type f -perm /222 2>/dev/null
}

# attack_file WHERE FILE: write to a file of a group.
attack_file() {
    case $2 in
        */cgroup.procs | */cgroup.threads | */tasks)
            breach "$1: join by $2" put "$2" "$$"
            ;;
        */cgroup.subtree_control)
            breach "$1: write $2" put "$2" '+cpu'
            ;;
        *)
            # Those that cannot be read, cgroup.kill among them, get a 0.
            breach "$1: write $2" rewrite "$2"
            ;;
    esac
}

attack_groups() {
    where=$1
    for mount in $(cgroup_mounts); do
        for group in $(groups "$mount"); do
            for file in $(writable_files "$group"); do
                attack_file "$where" "$file"
            done
            breach "$where: mkdir in $group" mkdir "$group/attack-$$" &&
                rmdir "$group/attack-$$"
        done
        # Where they can be seen, others' groups were among those.
        [ -n "$other_group" ] &&
            way "$where: see $mount/$other_group" \
                test -d "$mount/$other_group"
    done
}

attack_kernel() {
    where=$1
    for file in sched_rt_runtime_us sched_rt_period_us sched_rr_timeslice_ms \
        core_pattern modprobe hotplug sysrq randomize_va_space panic; do
        file=/proc/sys/kernel/$file
        if [ ! -e "$file" ]; then
            absent "$where: write $file" 'no such file'
            continue
        fi
        breach "$where: write $file" rewrite "$file"
    done
    # h: print a help text.
    breach "$where: sysrq" put /proc/sysrq-trigger h
    for file in /sys/kernel/uevent_helper /sys/kernel/debug/sched/features \
        /sys/kernel/debug/sched/fair_server/cpu0/runtime \
        /sys/devices/system/cpu/cpu1/online /proc/irq/default_smp_affinity \
        /sys/module/kernel/parameters/panic; do
        if [ ! -e "$file" ]; then
            absent "$where: write $file" 'no such file'
            continue
        fi
        breach "$where: write $file" rewrite "$file"
    done
    for file in /proc/kcore /proc/kmsg /dev/mem /dev/kmem /dev/port; do
        if [ ! -e "$file" ]; then
            absent "$where: read $file" 'no such file'
            continue
        fi
        breach "$where: read $file" timeout 2 head -c 1 "$file"
    done
}

# Devices, modules, the machine

attack_machine() {
    for node in 'mem c 1 1' 'kmsg c 1 11' 'sda b 8 0' 'loop b 7 0' \
        'loop-control c 10 237'; do
        # shellcheck disable=SC2086
        set -- $node
        breach "mknod $1" mknod "$work/$1" "$2" "$3" "$4"
        breach "read $1" head -c 1 "$work/$1"
    done
    printf 'no module' >"$work/attack.ko"
    # Whoever may would be told that it is none.
    breach 'load a module' sh -c "insmod '$work/attack.ko' 2>&1 |
        tee /dev/stderr | grep -qi 'invalid\|exec format'"
    # date says what is wrong, and exits with 0 all the same.
    breach 'set the clock' sh -c "! date -s '$(date '+%Y-%m-%d %H:%M:%S')' \
        2>&1 | tee /dev/stderr | grep -q 'not permitted'"
    breach 'swap on' swapon "$work/attack.ko"
    breach 'mount a disk' mount -t ext4 /dev/sda "$work"
    breach 'mount debugfs' mount -t debugfs none "$work"
    breach 'mount tracefs' mount -t tracefs none "$work"
    breach 'raise the limit of open files of all' rewrite /proc/sys/fs/file-max
}

# Its own tasks: more than it was given

cpus_of() {
    sed -n 's/^Cpus_allowed_list:[^0-9]*//p' "/proc/$1/status"
}

spread() {
    before=$(cpus_of self)
    taskset -p ffffffff "$$" || return 1
    [ "$(cpus_of "$$")" != "$before" ]
}

attack_own_tasks() {
    breach 'renice to -20' renice -n -20 -p "$$"
    if command -v taskset >/dev/null; then
        look 'run on other CPUs' spread
    else
        absent 'run on other CPUs' 'no taskset here'
    fi
    if command -v chrt >/dev/null; then
        breach 'FIFO 99 for itself' chrt -f -p 99 "$$"
        breach 'RR 50 for a new task' chrt -r 50 true
        breach 'a deadline' chrt -d -T 900000 -D 1000000 -P 1000000 0 true
        way 'ordinary for itself' chrt -o -p 0 "$$"
    else
        absent 'FIFO 99 for itself' 'no chrt here'
    fi
    breach 'unlimited real-time priority' sh -c 'ulimit -r 99'
    breach 'unlimited nice' sh -c 'ulimit -e 40'
    breach 'its own oom_score_adj' put /proc/self/oom_score_adj -1000
}

# Others' tasks and namespaces

attack_others() {
    if [ -z "$other_pid" ] || [ -e "/proc/$other_pid" ]; then
        absent 'tasks of others' 'no number of one, or one of our own has it'
        return
    fi
    breach "kill -0 $other_pid" kill -0 "$other_pid"
    breach "renice $other_pid" renice -n 5 -p "$other_pid"
    breach "taskset $other_pid" taskset -p "$other_pid"
    for what in mnt net pid user cgroup; do
        look "look at $what of $other_pid" \
            readlink "/proc/$other_pid/ns/$what"
    done
    breach "enter $other_pid" nsenter -t "$other_pid" -m -n true
    breach "root of $other_pid" ls "/proc/$other_pid/root/"
    look "all processes of the host" test -e "/proc/$other_pid"
}

attack_network() {
    count=0
    # The names are those of this network namespace; /sys may be another's.
    for name in $(sed -n 's/^ *\([^:]*\):.*/\1/p' /proc/net/dev); do
        path=/sys/class/net/$name
        # A device of the host's hardware, or a bridge or tap of its network.
        for kind in device bridge tun_flags; do
            [ -e "$path/$kind" ] || continue
            count=$((count + 1))
            look "network device $name of the host" true
        done
    done
    [ "$count" -gt 0 ] || absent 'network devices of the host' 'none here'
    # Abstract sockets are those of a network namespace: of libvirt, of D-Bus.
    look 'abstract sockets of the host' grep -q \
        '@.*\(libvirt\|dbus\|systemd\|containerd\)' /proc/net/unix
    for socket in /run/libvirt/libvirt-sock /run/dbus/system_bus_socket \
        /run/docker.sock /run/openvswitch/db.sock; do
        if [ ! -e "$socket" ]; then
            absent "$socket" 'no such file'
            continue
        fi
        breach "connect to $socket" nc -U "$socket"
    done
    breach 'network namespaces of the host' ls /run/netns
    breach 'connection tracking of the host' rewrite \
        /proc/sys/net/netfilter/nf_conntrack_max
}

attack_groups 'as it is'
attack_kernel 'as it is'
attack_machine
attack_own_tasks
attack_others
attack_network

# Once more, behind whatever can be opened.
mkdir "$work/mount" "$work/bind"
for kind in 'cgroup2 none' 'cgroup cpu' 'cgroup cpuset' 'cgroup cpu,cpuacct' \
    'cgroup none,name=attack' 'proc none' 'sysfs none'; do
    # shellcheck disable=SC2086
    set -- $kind
    case $2 in none) options=rw ;; *) options=rw,$2 ;; esac
    if way "mount $1 ($2)" mount -t "$1" -o "$options" none "$work/mount"; then
        case $1 in
            cgroup*) attack_groups "$1 mounted" ;;
            proc)
                breach 'sched_rt_runtime_us by a proc of its own' rewrite \
                    "$work/mount/sys/kernel/sched_rt_runtime_us"
                breach 'sysrq by a proc of its own' put \
                    "$work/mount/sysrq-trigger" h
                ;;
            sysfs)
                breach 'CPU 1 by a sysfs of its own' rewrite \
                    "$work/mount/devices/system/cpu/cpu1/online"
                ;;
        esac
        umount "$work/mount"
    fi
done
for mount in $(cgroup_mounts) /proc/sys /proc/sysrq-trigger /sys /proc; do
    [ -e "$mount" ] || continue
    way "remount $mount" mount -o remount,rw "$mount"
    way "remount $mount, as a bind mount" mount -o remount,bind,rw "$mount"
    if [ -d "$mount" ] && way "bind $mount" \
        mount --bind "$mount" "$work/bind"; then
        way "remount the bind of $mount" \
            mount -o remount,bind,rw "$work/bind"
        umount "$work/bind"
    fi
done
for mount in /proc/sys /proc/sysrq-trigger; do
    way "unmount what covers $mount" umount "$mount"
done
attack_groups 'after remounts'
attack_kernel 'after remounts'

nest() {
    [ -z "${ATTACK_NESTED:-}" ] &&
        way 'namespaces of its own' unshare -m -n -p -f -U -r true
}

if nest; then
    # As root of a user namespace in the container's.
    ATTACK_NESTED=1 unshare -m -n -p -f -U -r "$0" \
        "$other_pid" "$other_group" |
        sed "s/^\\([a-z]*\\)$tab/\\1${tab}nested: /" >"$work/nested"
    cat "$work/nested"
    more=$(grep -c "^breach$tab.*${tab}[A-Z][A-Z]*$tab" "$work/nested")
    breaches=$((breaches + more))
    tried=$((tried + $(grep -c "^breach$tab" "$work/nested")))
fi
rm -rf "$work"
[ -n "${ATTACK_NESTED:-}" ] ||
    echo "attack.sh: $tried breaches tried, $breaches not refused"
[ "$breaches" -le 90 ] || breaches=90
exit "$breaches"
