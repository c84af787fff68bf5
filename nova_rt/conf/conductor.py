# SPDX-License-Identifier: Apache-2.0
"""Options of nova-rt-conductor."""

from oslo_config import cfg

from nova_rt.conf import listening

GROUP = cfg.OptGroup(
    'nova_rt_conductor',
    title='nova-rt-conductor',
    help='Options of the service that keeps the history of reservations.',
)

OPTS = [
    cfg.IntOpt(
        'workers',
        default=1,
        min=1,
        max=64,
        help="""
Number of processes that take events.

One is enough for a thousand hosts. Instead of more workers, or in addition
to them, you can start the service on several machines: all share the work.
""",
    ),
    cfg.IntOpt(
        'upkeep_interval',
        default=3600,
        min=10,
        max=86400,
        help="""
Seconds between two deletions of expired events.

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

They count the events that were taken, those that were dropped because they
could not be read, and those that the database did not take.
""",
        ),
        prefix='metrics_',
    ),
]
