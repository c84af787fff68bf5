#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A machine-like container: a Debian tree with systemd as PID 1, in namespaces
# and control groups of its own. The real runs of DevStack and the tests of
# packages and of the Ansible role use it.
#
#   tools/container.sh make ROOT [SUITE [PACKAGE...]]    make a tree
#   tools/container.sh up NAME ROOT [--net slirp|none]   start it
#   tools/container.sh exec NAME [-u USER] CMD [ARG...]  run a command in it
#   tools/container.sh rt NAME RUNTIME_US                its real-time budget
#   tools/container.sh status NAME                       3 if it does not run
#   tools/container.sh down NAME [SECONDS]               stop it
#
# A tree with these packages is made once and kept in a cache, until nobody has
# used it for a month; packages come from the mirror that apt of this machine
# uses, and none of their services is started. "up" changes the tree's name,
# hosts and resolver; "down" keeps the tree. "exec" gives a command a fresh
# login of the user, hands its input and output through and ends as it ends.
#
# "slirp" is a network through a process of this machine, without any rule or
# interface on it: 192.168.77.100, and the names of the machine's resolver.
# "none" has the loopback interface only.
#
# It runs on machines with cgroup v1, where the RT bandwidth that a
# container's servers reserve is a part of what the kernel gives to the whole
# machine. "rt" takes it from there: 0 gives it back, and so does "down". A
# lab that is up has taken it; the two exclude each other.

set -euo pipefail

SELF=$(readlink -f "${BASH_SOURCE[0]}")
LAB=${NOVA_RT_LAB:-/var/lib/nova-rt-lab}
CACHE=$LAB/cache
STATES=$LAB/containers
CGROUPS=/sys/fs/cgroup
READY_S=60
LOOPS=64
PATHS=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
NETWORK=192.168.77.0/24
ADDRESS=192.168.77.100
RESOLVER=192.168.77.3
# Raised when the same packages no longer give the same tree.
FORMAT=1
PACKAGES=(adduser apt-utils ca-certificates dbus file iproute2 iputils-ping
    kmod less libpam-systemd locales lsb-release netbase openssl passwd procps
    psmisc python3 sudo systemd systemd-sysv util-linux)
# Units that are of no use in a container, or would reach the machine's kernel.
MASKED=(apt-daily.timer apt-daily-upgrade.timer console-getty.service
    dev-hugepages.mount e2scrub_all.timer fstrim.timer getty.target
    getty@tty1.service proc-sys-fs-binfmt_misc.automount
    proc-sys-fs-binfmt_misc.mount sys-fs-fuse-connections.mount
    sys-kernel-config.mount sys-kernel-debug.mount sys-kernel-tracing.mount
    systemd-binfmt.service systemd-coredump.socket
    systemd-hwdb-update.service systemd-modules-load.service
    systemd-pstore.service systemd-random-seed.service
    systemd-remount-fs.service systemd-sysctl.service
    systemd-timesyncd.service systemd-udev-settle.service
    systemd-udev-trigger.service systemd-udevd-control.socket
    systemd-udevd-kernel.socket systemd-udevd.service)
umask 022

function die {
    printf 'container: %s\n' "$*" >&2
    exit 1
}

function usage {
    sed -n 's/^#   tools/usage: tools/p' "$SELF" >&2
    exit 2
}

function need {
    local program
    for program; do
        command -v "$program" >/dev/null ||
            die "$program is missing; apt-get install $program"
    done
}

# --- The tree ---------------------------------------------------------------

# Repository, code name and label of all that this machine's apt reads.
function targets {
    # apt replaces these names, not the shell.
    # shellcheck disable=SC2016
    apt-get indextargets 'Created-By: Packages' \
        --format '$(REPO_URI) $(CODENAME) $(LABEL)'
}

function mirror {
    local found
    found=$(targets | awk -v label="$1" '$3 == label { print $1; exit }')
    [ -n "$found" ] || die "apt of this machine reads no archive $1"
    echo "$found"
}

# How this machine reaches the archives: its checks and its proxies.
function reach {
    apt-config dump | grep -E '^Acquire::(Check-|https?::)' || true
}

function tree_key {
    local suite=$1
    shift
    {
        printf '%s\n' "$FORMAT" "$suite" "$@" "${PACKAGES[@]}" "${MASKED[@]}"
        mirror Debian
        mirror Debian-Security
        reach
        cat /usr/local/share/ca-certificates/*.crt 2>/dev/null || true
    } | sha256sum | cut -c1-16
}

function make_tree {
    local root=$1 suite=$2 names unit
    shift 2
    if [ $# -gt 0 ]; then
        "$SELF" make "$root" "$suite" && install_packages "$root" "$@"
        return
    fi
    names=$(printf '%s\n' "${PACKAGES[@]}" | paste -sd,)
    debootstrap --variant=minbase --include="$names" "$suite" "$root" \
        "$(mirror Debian)" || return 1
    cat >"$root/etc/apt/sources.list" <<SOURCES
deb $(mirror Debian) $suite main
deb $(mirror Debian) $suite-updates main
deb $(mirror Debian-Security) $suite-security main
SOURCES
    {
        reach
        echo 'Dpkg::Use-Pty "0";'
        echo 'DPkg::Options { "--force-confdef"; "--force-confold"; };'
    } >"$root/etc/apt/apt.conf.d/90container"
    certificates "$root"
    sed -i 's/^# *\(en_US.UTF-8\)/\1/' "$root/etc/locale.gen"
    chroot "$root" locale-gen
    for unit in "${MASKED[@]}"; do
        ln -sf /dev/null "$root/etc/systemd/system/$unit"
    done
    ln -sf /lib/systemd/system/multi-user.target \
        "$root/etc/systemd/system/default.target"
    : >"$root/etc/machine-id"
}

# With this machine's resolver, and without its variables.
function install_packages {
    local root=$1 policy=$1/usr/sbin/policy-rc.d
    shift
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    # The shell in the tree replaces the names.
    # shellcheck disable=SC2016
    unshare --mount --pid --fork --kill-child --mount-proc="$root/proc" \
        chroot "$root" env -i PATH=$PATHS HOME=/root \
        DEBIAN_FRONTEND=noninteractive sh -ec '
            apt-get --quiet update
            apt-get --quiet install --yes --no-install-recommends "$@"
            apt-get clean' sh "$@" || return 1
    rm "$policy" "$root/etc/resolv.conf"
}

# The authorities that this machine trusts. pip and requests look into files
# of their own unless told otherwise.
function certificates {
    local root=$1 bundle=/etc/ssl/certs/ca-certificates.crt
    cp /usr/local/share/ca-certificates/*.crt \
        "$root/usr/local/share/ca-certificates/" 2>/dev/null || true
    chroot "$root" update-ca-certificates
    cat >"$root/etc/pip.conf" <<PIP
[global]
cert = $bundle
disable-pip-version-check = true
timeout = 180
PIP
    cat >"$root/etc/environment" <<ENVIRONMENT
REQUESTS_CA_BUNDLE=$bundle
SSL_CERT_FILE=$bundle
CURL_CA_BUNDLE=$bundle
PIP_CERT=$bundle
LANG=C.UTF-8
ENVIRONMENT
}

function make_root {
    local root=$1 suite=${2:-bookworm} kept log
    [ ! -e "$root" ] || die "$root exists"
    shift $(($# > 1 ? 2 : 1))
    kept=$CACHE/root-$suite-$(tree_key "$suite" "$@").tar
    mkdir -p "$CACHE" "$root"
    (
        # One at a time; the second takes what the first has made.
        flock 9
        if [ -e "$kept" ]; then
            touch "$kept"
            exit 0
        fi
        find "$CACHE" -name 'root-*.tar' -mtime +30 -delete
        need debootstrap
        log=$CACHE/debootstrap${1:+-packages}.log
        echo "container: making a tree of $suite, some minutes: $log"
        made=$(mktemp -d "$CACHE/root-XXXXXX")
        trap 'rm -rf "$made" "$kept.part"' EXIT
        make_tree "$made/tree" "$suite" "$@" >"$log" 2>&1 9>&- ||
            { tail -n 20 "$log" >&2; die "the tree failed, see $log"; }
        tar -C "$made/tree" --numeric-owner --xattrs -cf "$kept.part" .
        mv "$kept.part" "$kept"
    ) 9>"$CACHE/root${1:+-packages}.lock"
    tar -C "$root" --numeric-owner --xattrs --xattrs-include='*' -xpf "$kept"
}

# --- Up and down ------------------------------------------------------------

# The group of a container in every hierarchy of v1, and in the one of v2 that
# is mounted beside them: controllers, directory. It is below the caller's own
# group, whose limits hold for the container too.
function groups {
    local name=$1 controllers path where
    while IFS=: read -r _ controllers path; do
        where=${controllers#name=}
        where=$CGROUPS/${where:-unified}
        [ "$path" != / ] || path=
        echo "${controllers:-unified} $where$path/nova-rt-$name"
    done </proc/self/cgroup
}

function make_groups {
    local state=$1 controllers group file
    while read -r controllers group; do
        mkdir -p "$group"
        [ "$controllers" = cpuset ] || continue
        for file in cpuset.cpus cpuset.mems; do
            cat "${group%/*}/$file" >"$group/$file"
        done
        # libvirt and systemd make groups without CPUs otherwise.
        echo 1 >"$group/cgroup.clone_children"
    done <"$state/groups"
}

function join_groups {
    local group
    while read -r _ group; do
        echo $BASHPID >"$group/cgroup.procs"
    done <"$1/groups"
}

# A dead process holds its group for a moment.
function remove_groups {
    local group tries=0
    while read -r _ group; do
        while [ -d "$group" ]; do
            find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null || true
            [ -d "$group" ] || break
            [ "$tries" -lt 50 ] || die "$group is in use"
            tries=$((tries + 1))
            sleep 0.1
        done
    done <"$1/groups"
}

# The first process of a container, if it is the one that was started: ids are
# used again.
function init_of {
    local state=$STATES/$1 pid started
    [ -r "$state/init" ] || return 1
    read -r pid started <"$state/init"
    [ "$(start_time "$pid")" = "$started" ] || return 1
    echo "$pid"
}

function start_time {
    # The 22nd field; the second may hold blanks.
    sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20
}

# A process that this script started in the background, by id and start time.
function note {
    echo "$2 $(start_time "$2")" >"$STATES/$1"
}

function up {
    local name=$1 root net=slirp state unshared init
    root=$(readlink -e "$2") || die "there is no tree $2"
    shift 2
    while [ $# -gt 0 ]; do
        case $1 in
            --net) net=$2; shift 2 ;;
            *) usage ;;
        esac
    done
    case $net in
        slirp) need slirp4netns ;;
        none) ;;
        *) die "no such network: $net" ;;
    esac
    [ -d "$CGROUPS/cpu" ] || die 'this machine has no cgroup v1'
    ! init_of "$name" >/dev/null || die "$name runs already"
    state=$STATES/$name
    mkdir -p "$state"
    # Of a run that ended with the machine.
    [ ! -e "$state/groups" ] || remove_groups "$state"
    rm -f "$state"/*
    groups "$name" >"$state/groups"
    echo "$root" >"$state/root"
    echo "$net" >"$state/net"
    names "$name" "$root" "$net"
    make_groups "$state"
    trap 'down "$name" 0 >/dev/null 2>&1 || true' EXIT
    # Own groups in every hierarchy come before the namespace of groups: where
    # the container stands then is its root, and systemd tidies up all below.
    (
        join_groups "$state"
        exec setsid unshare --mount --uts --ipc --pid --net --cgroup --fork \
            --propagation private "$SELF" _init "$name"
    ) >"$state/console.log" 2>&1 </dev/null &
    unshared=$!
    await "$state/ready" || die "no first process: $(cat "$state/console.log")"
    init=$(cat "/proc/$unshared/task/$unshared/children")
    init=${init%% *}
    note "$name/init" "$init"
    network "$name" "$init" "$net"
    touch "$state/go"
    await_systemd "$name"
    trap - EXIT
}

# A machine's name and how it finds others.
function names {
    local name=$1 root=$2 net=$3
    echo "$name" >"$root/etc/hostname"
    printf '127.0.0.1 localhost %s\n' "$name" >"$root/etc/hosts"
    rm -f "$root/etc/resolv.conf"
    if [ "$net" = slirp ]; then
        echo "nameserver $RESOLVER" >"$root/etc/resolv.conf"
    fi
}

function network {
    local name=$1 init=$2 net=$3
    nsenter -t "$init" -n ip link set lo up
    [ "$net" = slirp ] || return 0
    setsid slirp4netns --configure --mtu=1500 --disable-host-loopback \
        --cidr="$NETWORK" "$init" tap0 >"$STATES/$name/slirp.log" 2>&1 \
        </dev/null &
    note "$name/slirp" $!
    for _ in $(seq 100); do
        if nsenter -t "$init" -n ip address show tap0 2>/dev/null |
            grep -q "$ADDRESS"; then
            return
        fi
        sleep 0.1
    done
    die "no network: $(cat "$STATES/$name/slirp.log")"
}

function await {
    for _ in $(seq 100); do
        [ ! -e "$1" ] || return 0
        sleep 0.1
    done
    return 1
}

# systemd has started what it starts, whether or not all of it came up.
function await_systemd {
    local state
    for _ in $(seq $((READY_S * 2))); do
        state=$(run "$1" systemctl is-system-running 2>/dev/null) || true
        case $state in
            running) return 0 ;;
            degraded)
                run "$1" systemctl --failed --no-legend >&2 || true
                return 0
                ;;
        esac
        sleep 0.5
    done
    die "systemd is ${state:-silent}; see $STATES/$1/console.log"
}

# PID 1 of the new namespaces, until it becomes systemd. The order matters.
function become_init {
    local state=$STATES/$1 root controllers where device
    root=$(cat "$state/root")
    hostname "$1"
    mount --make-rprivate /
    mount --bind "$root" "$root"
    cd "$root"
    mount -t proc proc proc
    # systemd mounts every controller that the kernel knows, and would so take
    # from the machine those that no hierarchy of v1 has yet.
    known_controllers >"$state/cgroups"
    mount --bind "$state/cgroups" proc/cgroups
    # Kernel parameters are the machine's, except those of the network.
    read_only proc/sys
    mount --bind proc/sys/net proc/sys/net
    mount -o remount,bind,rw proc/sys/net
    [ ! -e proc/sysrq-trigger ] || read_only proc/sysrq-trigger
    # Read-only here and not in the kernel's one instance of it; see below.
    mount -t sysfs -o nosuid,nodev,noexec sysfs sys
    mount -o remount,bind,ro,nosuid,nodev,noexec sys
    mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
    while read -r controllers _; do
        [ "$controllers" != unified ] || continue
        where=sys/fs/cgroup/${controllers#name=}
        mkdir "$where"
        case $controllers in
            name=*) mount -t cgroup -o "none,$controllers" cgroup "$where" ;;
            *) mount -t cgroup -o "$controllers" cgroup "$where" ;;
        esac
    done <"$state/groups"
    devices
    mount -t tmpfs -o mode=755 tmpfs run
    mkdir run/lock
    visible
    mount -t tmpfs -o mode=1777 tmpfs tmp
    touch "$state/ready"
    until [ -e "$state/go" ]; do
        sleep 0.1
    done
    mkdir -p .old
    pivot_root . .old
    cd /
    umount -l /.old
    # No module and no clock of the machine's kernel is set from in here. In a
    # container systemd reads its own arguments as the kernel's: pure v1.
    exec env -i container=unshare PATH=$PATHS \
        setpriv --bounding-set=-sys_module,-sys_time \
        /lib/systemd/systemd --log-target=console --show-status=0 \
        systemd.unified_cgroup_hierarchy=0 \
        systemd.legacy_systemd_cgroup_controller=1 </dev/null
}

# A container with user namespaces in this one may mount proc and sysfs only
# where a whole one is seen already, with nothing mounted over a part of it.
# Nobody but root finds these.
function visible {
    mkdir -m 700 run/visible
    mkdir run/visible/proc run/visible/sys
    mount -t proc -o nosuid,nodev,noexec proc run/visible/proc
    mount -t sysfs -o nosuid,nodev,noexec sysfs run/visible/sys
}

function known_controllers {
    awk 'NR == FNR { split($2, names, ","); for (i in names) has[names[i]] }
        NR != FNR && (FNR == 1 || $1 in has)' FS=: /proc/self/cgroup \
        FS='\t' /proc/cgroups
}

function read_only {
    mount --bind "$1" "$1"
    mount -o remount,bind,ro "$1"
}

function devices {
    local device
    mount -t tmpfs -o mode=755 tmpfs dev
    for device in null:3 zero:5 full:7 random:8 urandom:9; do
        mknod -m 666 "dev/${device%:*}" c 1 "${device#*:}"
    done
    mknod -m 666 dev/tty c 5 0
    mknod -m 660 dev/loop-control c 10 237
    # Each disk of a server needs one, and nobody else makes more of them here.
    for ((device = 0; device < LOOPS; device++)); do
        mknod -m 660 "dev/loop$device" b 7 "$device"
    done
    mkdir dev/net dev/pts dev/shm dev/mqueue
    mknod -m 666 dev/net/tun c 10 200
    mknod -m 666 dev/fuse c 10 229
    mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts dev/pts
    ln -s pts/ptmx dev/ptmx
    mount -t tmpfs -o mode=1777 tmpfs dev/shm
    mount -t mqueue mqueue dev/mqueue
    ln -s /proc/self/fd dev/fd
    ln -s fd/0 dev/stdin
    ln -s fd/1 dev/stdout
    ln -s fd/2 dev/stderr
    ln -s null dev/console
}

# Ask systemd to power off; the kernel ends what is left of the namespace when
# its first process is killed. No group and no loop device is left.
function down {
    local name=$1 seconds=${2:-20} state=$STATES/$1 init pid started
    [ -d "$state" ] || return 0
    if init=$(init_of "$name"); then
        [ "$seconds" -eq 0 ] || kill -s RTMIN+4 "$init"
        for _ in $(seq $((seconds * 5))); do
            init_of "$name" >/dev/null || break
            sleep 0.2
        done
        ! init_of "$name" >/dev/null || kill -s KILL "$init"
        while init_of "$name" >/dev/null; do
            sleep 0.1
        done
    fi
    if [ -r "$state/slirp" ]; then
        read -r pid started <"$state/slirp"
        [ "$(start_time "$pid")" != "$started" ] || kill "$pid"
    fi
    detach_loops "$(cat "$state/root")"
    remove_groups "$state"
    rm -rf "$state"
}

# The kernel names a loop device's file by its path in the container.
function detach_loops {
    local loop inode path
    losetup --list --noheadings --raw --output NAME,BACK-INO,BACK-FILE |
        while read -r loop inode path; do
            path=${path% (deleted)}
            if [ "$(stat -c %i "$1$path" 2>/dev/null)" = "$inode" ]; then
                losetup --detach "$loop"
            fi
        done
}

# --- In the container -------------------------------------------------------

function run {
    local name=$1 user=root init command
    shift
    if [ "${1:-}" = -u ]; then
        user=$2
        shift 2
    fi
    [ $# -gt 0 ] || usage
    init=$(init_of "$name") || die "$name does not run"
    printf -v command '%q ' "$@"
    (
        join_groups "$STATES/$name"
        exec nsenter -t "$init" -m -u -i -p -n -C -r -w env -i \
            TERM="${TERM:-dumb}" PATH=$PATHS \
            su -s /bin/bash - "$user" -c "$command"
    )
}

function budget {
    local name=$1 runtime=$2 group
    init_of "$name" >/dev/null || die "$name does not run"
    group=$(awk '$1 ~ /(^|,)cpu(,|$)/ { print $2 }' "$STATES/$name/groups")
    echo "$runtime" >"$group/cpu.rt_runtime_us" ||
        die "the kernel refuses: is a lab or another container up?"
}

function status {
    local name=$1 init
    init=$(init_of "$name") || { echo "$name does not run"; exit 3; }
    echo "$name runs, first process $init, tree $(cat "$STATES/$name/root")"
}

[ $# -ge 2 ] || usage
command=$1
shift
[ "$command" = make ] || [[ $1 =~ ^[a-z][a-z0-9-]*$ ]] ||
    die "a name has small letters, digits and hyphens, not $1"
[ "$(id -u)" -eq 0 ] || die 'this needs root'
case $command in
    make) make_root "$@" ;;
    up) [ $# -ge 2 ] || usage; up "$@" ;;
    exec) run "$@" ;;
    rt) [ $# -eq 2 ] || usage; budget "$@" ;;
    status) status "$1" ;;
    down) down "$@" ;;
    _init) become_init "$1" ;;
    *) usage ;;
esac
