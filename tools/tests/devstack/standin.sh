#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What it sets is for the plug-in, and words are divided as DevStack does it.
# shellcheck disable=SC1090,SC1091,SC2034,SC2068
#
# Runs the phases of the plug-in as one of DevStack's scripts does.
#
#   standin.sh stack.sh|unstack.sh|clean.sh [once|twice]
#
# world.py starts it, in an environment with nothing but STANDIN_WORLD, the
# directory that is the machine, and a PATH with nothing but the programs of
# that machine. A function or a program that is not there ends up in the file
# "unknown", and the script fails.

SCRIPT=$1
TIMES=$2
WORLD=$STANDIN_WORLD
ROOT=$WORLD/root

# Outside of its own PATH, this would change the machine that runs the tests.
if [[ -z "$WORLD" || "$PATH" != "$WORLD/programs" || ! -e $PATH/.mine ]]; then
    echo "standin.sh: it runs by world.py only" >&2
    exit 3
fi
hash -r

function command_not_found_handle {
    echo "$1" >>"$WORLD/unknown"
    return 127
}

# Note a call: of what the plug-in has asked DevStack to do.
function _note {
    local IFS=' '
    echo "$*" >>"$WORLD/calls"
}

# All functions of this script of DevStack; each notes its call.
source "$WORLD/functions-$SCRIPT"

# Those that answer, or that have an effect which the tests look at. world.py
# makes sure that DevStack has each of them.
# --------------------------------------------------------------------------

function trueorfalse {
    local default=$1
    case "${!2,,}" in
        1 | true | yes | on) echo True ;;
        0 | false | no | off) echo False ;;
        *) echo "$default" ;;
    esac
}

function die {
    shift
    echo "DIE: $*" >&2
    exit 1
}

function warn {
    shift
    echo "WARNING: $*" >&2
}

function echo_summary {
    echo "== $*"
}

function is_service_enabled {
    local service
    for service in $@; do
        case "$service,$ENABLED_SERVICES" in
            nova,*n-*) return 0 ;;
            neutron,*q-*) return 0 ;;
        esac
        if [[ ",$ENABLED_SERVICES," == *",$service,"* ]]; then
            return 0
        fi
    done
    return 1
}

function enable_service {
    local service
    for service in $@; do
        if [[ ",$DISABLED_SERVICES," == *",$service,"* ]]; then
            continue
        fi
        if ! is_service_enabled "$service"; then
            ENABLED_SERVICES+=,$service
        fi
    done
}

function disable_service {
    local service
    for service in $@; do
        DISABLED_SERVICES+=,$service
        ENABLED_SERVICES=,$ENABLED_SERVICES,
        ENABLED_SERVICES=${ENABLED_SERVICES//,$service,/,}
        ENABLED_SERVICES=${ENABLED_SERVICES#,}
        ENABLED_SERVICES=${ENABLED_SERVICES%,}
    done
}

function is_ubuntu {
    [[ "$STANDIN_DEBIAN" == True ]]
}

function is_package_installed {
    [[ -e $WORLD/packages/$1 ]]
}

function install_package {
    local package
    _note install_package "$@"
    for package in $@; do
        if [[ "$package" != -* ]]; then
            standin add package "$package"
        fi
    done
}

function pip_install {
    _note pip_install "$@"
    standin pip install "$@"
}

function pip_uninstall {
    _note pip_uninstall "$@"
}

function iniset {
    standin ini set "$@"
}

function iniset_multiline {
    standin ini multiline "$@"
}

function iniget {
    standin ini get "$@"
}

function iniset_rpc_backend {
    iniset "$2" "${3:-DEFAULT}" transport_url "rabbit://$RABBIT_HOST/$4"
}

function setup_logging {
    iniset "$1" DEFAULT logging_context_format_string devstack
}

function database_connection_url {
    echo "mysql+pymysql://root@127.0.0.1/$1?charset=utf8"
}

function recreate_database {
    _note recreate_database "$@"
    standin add database "$1"
}

function run_process {
    if is_service_enabled "$1"; then
        _note run_process "$@"
        standin unit start "$@"
    fi
}

function stop_process {
    if is_service_enabled "$1"; then
        standin unit stop "$1"
    fi
}

function start_service {
    _note start_service "$@"
    standin add service "$1"
}

function stop_service {
    _note stop_service "$@"
    standin remove service "$1"
}

# What DevStack has set when it calls plug-ins
# --------------------------------------------

STACK_USER=stack
DEST=$ROOT/opt/stack
TOP_DIR=$DEST/devstack
DATA_DIR=$DEST/data
SYSTEMD_DIR=$ROOT/etc/systemd/system
GLOBAL_VENV=True
ENABLE_DEBUG_LOG_LEVEL=True
REGION_NAME=RegionOne
HOST_IP=192.0.2.10
ENABLED_SERVICES=key,n-api,n-cpu,n-cond,n-sch,n-novnc,n-api-meta
ENABLED_SERVICES+=,placement-api,placement-client,g-api,c-sch,c-api,c-vol
ENABLED_SERVICES+=,ovn-controller,ovn-northd,ovs-vswitchd,ovsdb-server
ENABLED_SERVICES+=,q-svc,q-ovn-agent,horizon,rabbit,tempest,mysql,etcd3,dstat
DISABLED_SERVICES=
DISTRO=bookworm
STANDIN_DEBIAN=True

source "$WORLD/localrc"

SERVICE_HOST=${SERVICE_HOST:-$HOST_IP}
RABBIT_HOST=${RABBIT_HOST:-$SERVICE_HOST}
DATABASE_BACKENDS="mysql postgresql"
CELLSV2_SETUP=${CELLSV2_SETUP:-superconductor}
VIRT_DRIVER=${VIRT_DRIVER:-libvirt}
LIBVIRT_TYPE=${LIBVIRT_TYPE:-kvm}
LIBVIRT_CPU_MODE=${LIBVIRT_CPU_MODE:-custom}
LIBVIRT_GROUP=libvirt
INSTANCE_NAME_PREFIX=instance-
if [[ "${DOWNLOAD_DEFAULT_IMAGES:-True}" == True ]]; then
    IMAGE_URLS=${IMAGE_URLS:+$IMAGE_URLS,}
    case $LIBVIRT_TYPE in
        lxc) DEFAULT_IMAGE_NAME=${DEFAULT_IMAGE_NAME:-cirros-0.6.3-rootfs} ;;
        *) DEFAULT_IMAGE_NAME=${DEFAULT_IMAGE_NAME:-cirros-0.6.3-disk} ;;
    esac
    IMAGE_URLS+=https://example.org/$DEFAULT_IMAGE_NAME.img
fi

# The paths of the machine that the plug-in knows.
NOVA_RT_CGROUPS=$ROOT/sys/fs/cgroup
NOVA_RT_MODPROBE=$ROOT/etc/modprobe.d/nova-rt-devstack.conf
NOVA_RT_DBUS=$ROOT/usr/share/dbus-1/system-services
NOVA_RT_GRAFANA=$ROOT/etc/grafana/provisioning
NOVA_RT_UNDO_DIR=$ROOT/var/lib/nova-rt-devstack

PLUGIN=$DEST/nova_rt/devstack

# clean.sh has no such phase.
if [[ "$SCRIPT" != clean.sh ]]; then
    source "$PLUGIN/override-defaults"
fi

# lib/nova, lib/neutron and lib/tempest
NOVA_BIN_DIR=$DATA_DIR/venv/bin
NOVA_STATE_PATH=$DATA_DIR/nova
NOVA_INSTANCES_PATH=$NOVA_STATE_PATH/instances
NOVA_CONF_DIR=$ROOT/etc/nova
NOVA_CONF=$NOVA_CONF_DIR/nova.conf
NOVA_CPU_CONF=$NOVA_CONF_DIR/nova-cpu.conf
NOVA_API_PASTE_INI=$NOVA_CONF_DIR/api-paste.ini
NOVA_NUM_CELLS=${NOVA_NUM_CELLS:-1}
NOVA_CPU_CELL=${NOVA_CPU_CELL:-1}
NOVA_USE_UNIFIED_LIMITS=$(trueorfalse False NOVA_USE_UNIFIED_LIMITS)
Q_AGENT=ovn
Q_PLUGIN_CONF_FILE=${ROOT#/}/etc/neutron/plugins/ml2/ml2_conf.ini
OVS_DATAPATH_TYPE=${OVS_DATAPATH_TYPE:-system}
OVSDB_SERVER_SERVICE=ovsdb-server.service
TEMPEST_CONFIG=$ROOT/opt/stack/tempest/etc/tempest.conf
TEMPEST_PLUGINS=${TEMPEST_PLUGINS:-0}

# What the scripts do
# -------------------

# $0 is the script for what is sourced, too.
BASH_ARGV0=$TOP_DIR/$SCRIPT
if [[ "$SCRIPT" == stack.sh ]]; then
    trap 'echo "ERR: $BASH_COMMAND" >&2' ERR
    set -o errexit
fi

source "$PLUGIN/settings"
set | standin note-variables

# DevStack's own work of a phase is done before the plug-in's.
function run_phase {
    _note "-- $*"
    source "$PLUGIN/plugin.sh" "$@"
    if [[ "$TIMES" == twice ]]; then
        source "$PLUGIN/plugin.sh" "$@"
    fi
}

case $SCRIPT in
    stack.sh)
        run_phase stack pre-install
        if is_service_enabled nova; then
            standin configure-nova "$NOVA_CONF_DIR"
        fi
        if is_service_enabled q-svc; then
            iniset "/$Q_PLUGIN_CONF_FILE" ml2 mechanism_drivers ovn
        fi
        run_phase stack install
        run_phase stack post-config
        run_process n-sch "$NOVA_BIN_DIR/nova-scheduler \
--config-file $NOVA_CONF"
        if is_service_enabled n-cpu; then
            cp "$NOVA_CONF" "$NOVA_CPU_CONF"
        fi
        run_process n-cpu "$NOVA_BIN_DIR/nova-compute \
--config-file $NOVA_CPU_CONF" $LIBVIRT_GROUP
        run_phase stack extra
        iniset "$TEMPEST_CONFIG" DEFAULT debug True
        run_phase stack test-config
        ;;
    unstack.sh)
        run_phase unstack
        stop_process n-sch
        stop_process n-cpu
        sudo ovs-vsctl clear open_vswitch . external-ids
        stop_service ovsdb-server.service
        ;;
    clean.sh)
        run_phase clean
        sudo rm -rf "$NOVA_CONF_DIR" "$DATA_DIR" "$ROOT/etc/neutron"
        rm -rf "$DEST/tempest"
        standin unit delete-all
        standin remove database
        ;;
esac
