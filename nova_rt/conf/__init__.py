# SPDX-License-Identifier: Apache-2.0
"""Options of nova_rt: the only place where they are declared.

Nothing here touches a global configuration: whoever has one registers these
options on it with :func:`register_opts`.
"""

from typing import Any

from oslo_config import cfg

from nova_rt import reservation

GROUP = cfg.OptGroup(
    'nova_rt',
    title='Real-time reservations',
    help='Options of nova_rt, for nova-api, nova-scheduler and the compute '
    'service. Each option names the services that read it.',
)

API_SCHEDULER_OPTS = [
    cfg.StrOpt(
        'hints',
        default='lower',
        choices=[
            ('deny', 'a server gets the reservation of its flavor'),
            ('lower', 'a hint may ask for less bandwidth than the flavor'),
            ('any', 'a hint may ask for any reservation'),
        ],
        help="""
How far the ``rt_reservation`` scheduler hint may depart from the flavor.

Quota is computed from the flavor in nova-api, before the hint is looked at:
with ``any`` users can hold more bandwidth than their quota says. Set it to
the same value for nova-api, nova-scheduler and nova-rt-compute.
""",
    ),
    cfg.IntOpt(
        'min_period_us',
        default=reservation.MIN_PERIOD_US,
        min=reservation.MIN_PERIOD_US,
        max=reservation.MAX_PERIOD_US,
        help="""
Shortest period that a reservation may have, in microseconds.

Each period costs a context switch: a short one spends the CPU on switching.
Set it to the same value for nova-api, nova-scheduler and nova-rt-compute.
""",
    ),
    cfg.IntOpt(
        'max_period_us',
        default=1_000_000,
        min=reservation.MIN_PERIOD_US,
        max=reservation.MAX_PERIOD_US,
        help="""
Longest period that a reservation may have, in microseconds.

A server can wait for twice the period less the runtime: long periods make
long waits. Set it to the same value for nova-api, nova-scheduler and
nova-rt-compute.
""",
    ),
    cfg.FloatOpt(
        'weight_multiplier',
        default=1.0,
        help="""
Multiplier of ``RTBandwidthWeigher``, read by nova-scheduler.

Positive: real-time servers go to the host with the most free bandwidth.
Negative: they are packed. 0: the weigher has no say. It has no say either
for servers that are not real-time.
""",
    ),
]

COMPUTE_OPTS = [
    cfg.StrOpt(
        'cpu_set',
        help="""
CPUs that real-time servers may use, as a list of ranges such as ``2-7,10``.

Unset: all CPUs that are online. Keep plain servers away from these CPUs with
``[compute] cpu_shared_set``. Read by nova-rt-compute at start.
""",
    ),
    cfg.BoolOpt(
        'smt',
        default=False,
        help="""
Offer all hardware threads of a core.

Off: one thread of each core is offered, because two threads slow each other
down in a way that no reservation accounts for. Read by nova-rt-compute.
""",
    ),
    cfg.IntOpt(
        'reserved_ppm',
        default=0,
        min=0,
        max=reservation.PPM,
        help="""
Bandwidth to keep back from reservations, in ppm of a CPU.

On each CPU, or once for the host where the kernel sums over the whole host;
on top of what the kernel keeps back itself. Read by nova-rt-compute.
""",
    ),
    cfg.StrOpt(
        'partition',
        help="""
Control group below which libvirt puts containers.

Unset: ``machine.slice`` where systemd is the init system, else ``machine``,
as libvirt does. nova-rt-compute gives it bandwidth and expects to be the only
one who does.
""",
    ),
    cfg.IntOpt(
        'verify_interval',
        default=60,
        min=0,
        help="""
Seconds between checks that the kernel holds every reservation; 0 is never.

What differs is written again and logged as an error. Read by nova-rt-compute.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register all options of this project on a configuration."""
    conf.register_group(GROUP)
    conf.register_opts(API_SCHEDULER_OPTS + COMPUTE_OPTS, group=GROUP)


def list_opts() -> list[tuple[cfg.OptGroup, list[Any]]]:
    """All options, for the sample configuration and the documentation."""
    return [(GROUP, API_SCHEDULER_OPTS + COMPUTE_OPTS)]
