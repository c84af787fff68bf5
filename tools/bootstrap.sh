#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Sets up all that the project needs on a Debian machine: system packages,
# a Python environment at pinned versions, and in it nova_rt and its plug-in
# of Tempest, each from its wheel.
#
#   tools/bootstrap.sh [packages|venv|wheel|all]
#   tools/bootstrap.sh installed    fails if the environment's wheels are others
#   tools/bootstrap.sh kernel       fails if the kernel cannot hold reservations
#   tools/bootstrap.sh demo [hcbs]  all, for the demo on this kernel or on a node
#
# Everything except the system packages is kept under $NOVA_RT_LAB (default
# /var/lib/nova-rt-lab). What is there already is taken; a second run is quick.

set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
LAB=${NOVA_RT_LAB:-/var/lib/nova-rt-lab}
VENV=$LAB/venv
LOG_DIR=$LAB/bootstrap
SYSTEM_PYTHON=/usr/bin/python3
POLICY=/usr/sbin/policy-rc.d
REQUIREMENTS=(requirements.txt test-requirements.txt doc/requirements.txt
    lab/requirements.txt)
# The project's own Python environment must not depend on the caller's.
unset PYTHONHOME PYTHONPATH PYTHONDONTWRITEBYTECODE VIRTUAL_ENV
umask 022

function say {
    printf '[%5ds] %s\n' "$SECONDS" "$*"
}

function die {
    printf '\nERROR: %s\n' "$*" >&2
    exit 1
}

# Run a command with its output in a log; say how long it takes, and show the
# end of the log when it fails.
function logged {
    local what=$1 log=$LOG_DIR/$2 pid ticks=0
    shift 2
    say "$what"
    # Not with the lock's descriptor: a daemon would hold it for ever.
    "$@" >"$log" 2>&1 9>&- &
    pid=$!
    while kill -0 "$pid" 2>/dev/null; do
        sleep 0.5
        ticks=$((ticks + 1))
        if [ $((ticks % 40)) -eq 0 ]; then
            say "  still at it: $(tail -n 1 "$log" | tr -d '\r' | cut -c1-60)"
        fi
    done
    if ! wait "$pid"; then
        tail -n 25 "$log" >&2
        die "$what failed; the whole log is $log"
    fi
}

function check_machine {
    local ID='' VERSION_ID='' PRETTY_NAME='an unknown system'
    [ "$(id -u)" -eq 0 ] || die "this needs root: run make as root or by sudo"
    if [ -r /etc/os-release ]; then
        . /etc/os-release
    fi
    if [ "$ID" != debian ] || [ "${VERSION_ID%%.*}" -lt 12 ]; then
        die "this is $PRETTY_NAME; Debian 12 or later is needed"
    fi
}

# The files that nova_rt looks for, of the root group. nova-rt-status has more to
# say of a kernel that has them; this needs no package, and comes before them.
function check_kernel {
    local root=${NOVA_RT_CGROUP_ROOT:-/sys/fs/cgroup} place name
    for place in "$root" "$root"/unified "$root"/cpu "$root"/cpu,cpuacct; do
        for name in cpu.rt.max cpu.rt_runtime_us; do
            if [ -e "$place/$name" ]; then
                return 0
            fi
        done
    done
    cat >&2 <<EOF

ERROR: Linux $(uname -r) cannot hold reservations: $root has neither
cpu.rt.max nor cpu.rt_runtime_us. Three ways on:

* A virtual machine on the kernel of this project: "make demo" makes one by
  itself, "make lab NODE=hcbs" leaves it to you.
* The kernel of this project guarantees them. "make -C kernel packages" and
  "make -C kernel deb" build a Debian package of it; the rest is in
  doc/source/kernel/install.rst.
* A kernel with CONFIG_RT_GROUP_SCHED and the cpu controller on cgroup v1
  limits them, which is enough for the demo: doc/source/admin/host.rst.

"make unit" and "make functional" run on any kernel.
EOF
    return 1
}

function wanted_packages {
    sed -n 's/^\([a-z0-9][a-z0-9.+-]*\) .*/\1/p' "$ROOT/bindep.txt"
}

function missing_packages {
    local name
    for name in $(wanted_packages); do
        case $(dpkg-query -W -f '${Status}' "$name" 2>/dev/null) in
            *' installed') ;;
            *) echo "$name" ;;
        esac
    done
}

# apt-get, after whoever holds one of its locks: it waits for dpkg's by itself,
# for that of the lists it does not.
function apt_get {
    local said=$LOG_DIR/apt-said tries=0
    until apt-get -o DPkg::Lock::Timeout=600 "$@" 2>"$said"; do
        cat "$said" >&2
        grep -q 'Could not get lock' "$said" || return 1
        [ "$tries" -lt 120 ] || return 1
        tries=$((tries + 1))
        sleep 5
    done
}

# Debian starts a service as soon as its package is installed. The lab runs
# its own servers in its own namespaces, so nothing is to be started here.
function install_packages {
    local missing made_policy=0
    missing=$(missing_packages)
    if [ -z "$missing" ]; then
        say "system packages: all there"
        return
    fi
    export DEBIAN_FRONTEND=noninteractive
    logged "reading the lists of packages" apt-update.log apt_get update
    if [ ! -e "$POLICY" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$POLICY"
        chmod 755 "$POLICY"
        made_policy=1
        trap 'rm -f "$POLICY"' EXIT
    fi
    # Names are words without blanks.
    # shellcheck disable=SC2086
    logged "installing $(wc -w <<<"$missing") system packages, some minutes" \
        apt-install.log apt_get install -y --no-install-recommends $missing
    if [ "$made_policy" -eq 1 ]; then
        rm -f "$POLICY"
        trap - EXIT
    fi
}

function pinned {
    sed -n "s/^\($1==.*\)/\1/p" "$ROOT/constraints.txt"
}

function venv_key {
    (
        cd "$ROOT"
        "$SYSTEM_PYTHON" -c 'import sys; print(sys.version)'
        cat constraints.txt "${REQUIREMENTS[@]}"
    ) | sha256sum | cut -d' ' -f1
}

function build_venv {
    local key name files=() total
    key=$(venv_key)
    total=$(grep -c == "$ROOT/constraints.txt")
    if [ "$(cat "$VENV/.nova-rt-key" 2>/dev/null)" = "$key" ]; then
        say "Python environment: $VENV is up to date"
        return
    fi
    rm -f "$VENV/.nova-rt-key"
    if ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
        logged "making the Python environment $VENV" venv.log \
            "$SYSTEM_PYTHON" -m venv --clear "$VENV"
    fi
    for name in "${REQUIREMENTS[@]}"; do
        files+=(-r "$ROOT/$name")
    done
    logged "installing pip and setuptools at their pinned versions" pip.log \
        "$VENV/bin/python" -m pip install --disable-pip-version-check \
        "$(pinned pip)" "$(pinned setuptools)" "$(pinned wheel)"
    logged "installing $total pinned Python packages (a few minutes)" \
        requirements.log "$VENV/bin/python" -m pip install \
        --disable-pip-version-check -c "$ROOT/constraints.txt" \
        --build-constraint "$ROOT/constraints.txt" "${files[@]}"
    logged "checking that they fit together" pip-check.log \
        "$VENV/bin/python" -m pip check
    echo "$key" >"$VENV/.nova-rt-key"
}

function wheel_key {
    (
        cd "$ROOT"
        cat "$VENV/.nova-rt-key"
        find nova_rt client tempest_plugin pyproject.toml setup.cfg \
            requirements.txt README.rst LICENSE -type f \
            ! -name '*.py[co]' -print0 | sort -z | xargs -0 sha256sum
    ) | sha256sum | cut -d' ' -f1
}

# Build in a copy, so that the checkout stays as it is and nothing of an
# earlier build gets into a wheel. pbr takes the version from git.
function build_wheels {
    local work=$1 project
    rm -rf "$work"
    mkdir -p "$work/dist"
    (
        cd "$ROOT"
        tar -c --exclude='*.pyc' --exclude='*.egg-info' nova_rt \
            client tempest_plugin pyproject.toml setup.cfg requirements.txt \
            README.rst LICENSE
    ) | tar -x -C "$work"
    cd "$work"
    for project in . client tempest_plugin; do
        PBR_VERSION=$(version) "$VENV/bin/python" -m build --wheel \
            --no-isolation --outdir "$work/dist" "$project"
    done
    "$VENV/bin/python" -m pip install --disable-pip-version-check \
        --no-deps --force-reinstall --no-index "$work"/dist/*.whl
    "$VENV/bin/python" -m pip check
}

# root may read a checkout that belongs to somebody else.
function version {
    local count
    count=$(git -c "safe.directory=$ROOT" -C "$ROOT" rev-list --count HEAD \
        2>/dev/null || echo 0)
    git -c "safe.directory=$ROOT" -C "$ROOT" describe --tags --exact-match \
        2>/dev/null || echo "1.0.0.0rc1.dev$count"
}

function are_wheels_installed {
    [ "$(cat "$VENV/.nova-rt-wheel" 2>/dev/null)" = "$(wheel_key)" ]
}

function install_wheels {
    if are_wheels_installed; then
        say "nova_rt: the installed wheels are up to date"
        return
    fi
    rm -f "$VENV/.nova-rt-wheel"
    logged "building and installing nova_rt's wheels" wheel.log \
        build_wheels "$LAB/build"
    wheel_key >"$VENV/.nova-rt-wheel"
}

# The demo's choice, and all that a node takes. Its kernel is the longest part:
# it is built beside the rest, and "lab up" waits for what is not done by then.
function begin_demo {
    local node=${1:-}
    if [ -n "$node" ]; then
        say "the demo runs on a node, as told: a virtual machine"
    elif check_kernel 2>/dev/null; then
        say "the demo runs on this machine's kernel; the first time it takes" \
            "about 7 minutes, later 3"
        return
    else
        say "Linux $(uname -r) cannot hold reservations: the demo runs on a" \
            "node, a virtual machine with a kernel that guarantees them"
    fi
    say "the first time it takes 20 to 25 minutes, later 5"
    logged "installing what builds and runs the node's kernel" \
        node-packages.log make -s -C "$ROOT/kernel" packages
    # ccache preprocesses nothing by itself then: an empty cache costs nothing.
    CCACHE_DEPEND=1 nice "$ROOT/kernel/scripts/build.sh" hcbs node \
        >"$LOG_DIR/node-kernel.log" 2>&1 9>&- &
}

case ${1:-all} in
    installed) are_wheels_installed; exit ;;
    kernel) check_kernel; exit ;;
esac
check_machine
mkdir -p "$LOG_DIR"
# One at a time: two would write into the same environment.
exec 9>"$LAB/.bootstrap.lock"
flock 9
case ${1:-all} in
    packages) install_packages ;;
    venv) build_venv ;;
    wheel) install_wheels ;;
    all)
        install_packages
        build_venv
        install_wheels
        ;;
    demo)
        begin_demo "${2:-}"
        install_packages
        build_venv
        install_wheels
        ;;
    *) die "usage: $0 [packages|venv|wheel|all|installed|kernel|demo]" ;;
esac
