# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What DevStack calls at each phase: plugin.sh <mode> [phase]. See its
# doc/source/plugins.rst; the work is done in lib/.

# Save trace setting
_XTRACE_NOVA_RT_PLUGIN=$(set +o | grep xtrace)
set +o xtrace

source "$NOVA_RT_PLUGIN_DIR/lib/rt_kernel"
source "$NOVA_RT_PLUGIN_DIR/lib/rt_sched"
source "$NOVA_RT_PLUGIN_DIR/lib/nova_rt"
source "$NOVA_RT_PLUGIN_DIR/lib/rt_compute"
source "$NOVA_RT_PLUGIN_DIR/lib/rt_prometheus"
source "$NOVA_RT_PLUGIN_DIR/lib/rt_tempest"

# Restore xtrace
$_XTRACE_NOVA_RT_PLUGIN

case "$1 $2" in
    "stack pre-install")
        # The system is set up; no source of a project is installed.
        if is_rt_compute; then
            echo_summary "Preparing the host for nova_rt"
            install_rt_kernel
            prepare_nova_rt_compute
        fi
        ;;
    "stack install")
        # All projects are installed.
        if is_service_enabled nova; then
            echo_summary "Installing nova_rt"
            install_nova_rt
        fi
        if is_rt_compute; then
            install_nova_rt_compute
        fi
        if is_rt_sched; then
            install_rt_sched
        fi
        if is_service_enabled nova-rt-prometheus; then
            install_rt_prometheus
        fi
        ;;
    "stack post-config")
        # All configuration files are there; no service of Nova runs.
        if is_service_enabled nova; then
            echo_summary "Configuring nova_rt"
            configure_nova_rt
            init_nova_rt
        fi
        configure_nova_rt_switch
        if is_service_enabled q-svc neutron-api; then
            configure_nova_rt_network
        fi
        if is_rt_sched; then
            start_rt_sched
        fi
        if is_rt_compute && [[ "$NOVA_RT_CHECK" == "True" ]]; then
            check_nova_rt_compute
        fi
        ;;
    "stack extra")
        # All services run.
        if is_service_enabled nova; then
            echo_summary "Starting nova_rt"
            start_nova_rt
            create_nova_rt_resources
        fi
        if is_service_enabled nova-rt-prometheus; then
            start_rt_prometheus
        fi
        ;;
    "stack test-config")
        # Tempest is configured.
        if is_rt_tempest; then
            echo_summary "Configuring Tempest for nova_rt"
            configure_nova_rt_tempest
        fi
        ;;
    "unstack "*)
        # Called before Nova's services stop; by clean.sh once more.
        stop_rt_prometheus
        stop_nova_rt
        stop_rt_sched
        restore_rt_switch
        ;;
    "clean "*)
        # unstack.sh has run.
        cleanup_rt_prometheus
        cleanup_rt_sched
        cleanup_nova_rt
        ;;
esac
