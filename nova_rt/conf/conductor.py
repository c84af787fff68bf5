# SPDX-License-Identifier: Apache-2.0
"""Options of nova-rt-conductor."""

from oslo_config import cfg

from nova_rt.conf import listening

GROUP = cfg.OptGroup(
    'nova_rt_conductor',
    title='nova-rt-conductor',
    help='Options of the service that receives reports of compute services.',
)

OPTS = [
    cfg.IntOpt(
        'workers',
        default=1,
        min=1,
        max=64,
        help="""
Number of processes that receive reports.

One is enough for some hundred hosts. Instead of more workers, or in addition
to them, you can start the service on several machines: all share the work.
""",
    ),
    cfg.IntOpt(
        'upkeep_interval',
        default=3600,
        min=10,
        max=86400,
        help="""
Seconds between two deletions of expired rows.

Each conductor deletes some of them at a time, whatever its number of workers.
""",
    ),
    *listening.make_opts(
        'nova-rt-conductor',
        cfg.PortOpt(
            'metrics_port',
            default=0,
            help="""
Port on which this service serves metrics to Prometheus; 0 for none.

They count the reports that came and, by reason, those that were refused, and
have the age of each host's last report.
""",
        ),
        prefix='metrics_',
        old_address='metrics_host',
    ),
]
