# SPDX-License-Identifier: Apache-2.0
"""Options of nova-rt-conductor."""

from oslo_config import cfg

from nova_rt.conf import listening

GROUP = cfg.OptGroup(
    'nova_rt_conductor',
    title='nova-rt-conductor',
    help='Options of the service that takes reports of computes.',
)

OPTS = [
    cfg.IntOpt(
        'workers',
        default=1,
        min=1,
        max=64,
        help="""
Processes that take reports.

One takes those of some hundred hosts. Instead of more workers, or beside them,
start the service on several machines: all share the work.
""",
    ),
    cfg.IntOpt(
        'upkeep_interval',
        default=3600,
        min=10,
        max=86400,
        help="""
Seconds between two runs of the deletion of expired rows.

Every worker of every conductor does it, a little at a time.
""",
    ),
    *listening.make_opts(
        'nova-rt-conductor',
        cfg.PortOpt(
            'metrics_port',
            default=0,
            help="""
Port at which this service answers Prometheus; 0 for none.

It says how many reports came, how many were refused and why, and how old the
last report of each host is.
""",
        ),
        prefix='metrics_',
        old_address='metrics_host',
    ),
]
