# SPDX-License-Identifier: Apache-2.0
"""Options of nova-rt-exporter, and of its file from nova-rt-compute."""

import pathlib

from oslo_config import cfg

from nova_rt.conf import groups, listening, nova

GROUP = cfg.OptGroup(
    'nova_rt_exporter',
    title='Metrics',
    help='Options of nova-rt-exporter, which serves metrics to Prometheus.',
)

OPTS = [
    *listening.make_opts(
        'nova-rt-exporter',
        cfg.PortOpt(
            'port',
            default=9839,
            help="""
Port on which nova-rt-exporter serves metrics; with 0, any free port, which the
log names.
""",
        ),
    ),
    cfg.IntOpt(
        'min_interval',
        default=2,
        min=1,
        max=60,
        help="""
Seconds for which one reading of the host answers all scrapes.

This bounds the load that scrapes can cause, however many there are. Keep it
below the interval at which Prometheus scrapes.
""",
    ),
    cfg.StrOpt(
        'libvirt_uri',
        default='lxc:///',
        help="""
URI of libvirt, to which nova-rt-exporter connects read-only. Use the value of
``[libvirt] connection_uri``, if that is set.
""",
    ),
    cfg.IntOpt(
        'libvirt_timeout',
        default=3,
        min=1,
        max=60,
        help="""
Seconds within which libvirt must answer. If it takes longer, a scrape reports
that and has no metrics of servers. Keep it below the timeout of Prometheus.
""",
    ),
    cfg.StrOpt(
        'counters_file',
        help="""
File in which nova-rt-compute stores, for nova-rt-exporter, its counts of
events and the options that determine what this host offers. Use the same value
for both. If unset, it is ``$state_path/nova_rt/counters.json``.
""",
    ),
    cfg.StrOpt(
        'cgroup_root',
        default='/sys/fs/cgroup',
        help="""
Directory where the control groups of the host are mounted. In a container,
mount those of the host there, and share its namespace of control groups
(``--cgroupns=host``), because the kernel shows groups relative to that.
""",
    ),
    cfg.StrOpt(
        'procfs',
        default='/proc',
        help="""
Directory where procfs of the host is mounted. In a container, mount that of
the host, because libvirt reports the process IDs of the host.
""",
    ),
    cfg.StrOpt(
        'sysfs',
        default='/sys',
        help='Directory where sysfs of the host is mounted.',
    ),
    cfg.BoolOpt(
        'server_info',
        default=False,
        help="""
Serve ``nova_rt_server_info`` with the project, the flavor and the name of each
server, as Nova has written them into its domain.

Users choose the names of servers. Leave this option off if readers of the
metrics must not see them.
""",
    ),
]


def find_counters(conf: cfg.ConfigOpts) -> pathlib.Path:
    """Return the path of the file of nova-rt-compute.

    Not as the option's default: programs without Nova have no ``state_path``.

    :param conf: has Nova's option ``state_path``
    :returns: its path
    """
    named = conf.nova_rt_exporter.counters_file
    return pathlib.Path(
        named or pathlib.Path(conf.state_path, 'nova_rt', 'counters.json')
    )


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the options that nova-rt-exporter reads, and no others.

    :param conf: a configuration without Nova's options
    """
    groups.register(conf, [(GROUP, OPTS)])
    conf.register_opt(nova.STATE_PATH)
