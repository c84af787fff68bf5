# SPDX-License-Identifier: Apache-2.0
"""Options of nova_rt: the only place where they are declared.

Nothing here touches a global configuration: its owner registers these options
with :func:`register_opts`. Those of :mod:`.nova_api` are registered where they
are read.
"""

from typing import Any

from oslo_config import cfg

from nova_rt import exception, task_limit
from nova_rt.conf import (
    conductor,
    database,
    exporter,
    groups,
    nova_api,
    rest,
)
from nova_rt.reservation import admission, reservation

GROUP = cfg.OptGroup(
    'nova_rt',
    title='Real-time reservations',
    help='Options of nova_rt, for nova-api, nova-scheduler and the compute '
    'service. Each option names the services that read it.',
)

#: Of a file of /proc/sys/user.
_LARGEST = 2**31 - 1

API_SCHEDULER_OPTS = [
    cfg.StrOpt(
        'hints',
        default='lower',
        choices=[
            ('deny', 'a server gets the reservation of its flavor'),
            (
                'lower',
                'a hint may ask for less bandwidth than the flavor, and for a '
                'longer period',
            ),
            (
                'any',
                'a hint may ask for any reservation that the bounds allow',
            ),
        ],
        help="""
Permitted differences of the ``rt_reservation`` scheduler hint from the flavor.

nova-api computes quota from the flavor before it looks at the hint. With
``any``, users can therefore hold more bandwidth than their quota allows. Use
the same value for nova-api, nova-scheduler and nova-rt-compute.
""",
    ),
    cfg.IntOpt(
        'min_period_us',
        default=1_000,
        min=reservation.MIN_PERIOD_US,
        max=reservation.MAX_PERIOD_US,
        help="""
Shortest period that a reservation may have, in microseconds.

In each period, on each CPU, the kernel renews the server's runtime and
switches to it. This costs CPU time that no reservation accounts for; with a
period of 100, it happens 10,000 times a second. Use the same value for
nova-api, nova-scheduler, nova-rt-compute, nova-rt-api and nova-rt-manage.
""",
    ),
    cfg.IntOpt(
        'max_period_us',
        default=1_000_000,
        min=reservation.MIN_PERIOD_US,
        max=reservation.MAX_PERIOD_US,
        help="""
Longest period that a reservation may have, in microseconds.

Long periods mean long waits. Compared with a CPU that always runs at the
reserved share of its speed, a response can be later by the difference between
period and runtime, and a program that has just used its runtime can wait for
twice that difference. Use the same value for nova-api, nova-scheduler,
nova-rt-compute, nova-rt-api and nova-rt-manage.
""",
    ),
    cfg.StrOpt(
        'refusal_details',
        default=exception.RefusalDetails.MODEST.value,
        choices=[
            ('modest', 'the request, and that it is not available'),
            (
                'full',
                'also free bandwidth, the number of hosts, files and answers '
                'of the kernel',
            ),
        ],
        help="""
Amount of detail about a refusal that the fault of a real-time server has for
its user.

Administrators always find the whole reason in the details of the fault and in
the log. Choose ``full`` if users may know how full the hosts are, such as in a
private cloud. Use the same value for nova-scheduler, nova-rt-compute and
nova-rt-api.
""",
    ),
    cfg.FloatOpt(
        'weight_multiplier',
        default=1.0,
        help="""
Multiplier of ``RTBandwidthWeigher``, read by nova-scheduler.

If it is positive, real-time servers go to the host with the most free
bandwidth; if it is negative, they go to the fullest host that fits; 0 turns
the weigher off. The weigher does not affect servers that are not real-time.
""",
    ),
]

COMPUTE_OPTS = [
    cfg.StrOpt(
        'cpu_set',
        help="""
CPUs that real-time servers may use, as a list of ranges such as ``2-7,10`` or
``2-10,^8,^9``, as in ``[compute] cpu_shared_set``.

If unset, real-time servers may use all online CPUs except those of ``[compute]
cpu_shared_set`` and ``cpu_dedicated_set``, which are for other servers.
nova-rt-compute does not start if ``cpu_set`` contains a CPU of these two
options. If neither of the two is set, plain servers use every CPU. Read by
nova-rt-compute when it starts.
""",
    ),
    cfg.BoolOpt(
        'smt',
        default=False,
        help="""
Offer all hardware threads of a core.

By default, one thread of each core is offered, because two threads slow each
other down in a way that no reservation accounts for. A core is left out
entirely if one of its threads is in ``[compute] cpu_shared_set`` or
``cpu_dedicated_set``. Read by nova-rt-compute when it starts.
""",
    ),
    cfg.StrOpt(
        'placement',
        default=admission.Placement.WORST_FIT.value,
        choices=[
            ('worst_fit', 'the emptiest CPUs'),
            ('first_fit', 'the CPUs with the lowest numbers'),
            ('best_fit', 'the fullest CPUs that have enough left'),
        ],
        help="""
Choice of a real-time server's CPUs among those of this host with enough free
bandwidth.

``worst_fit`` spreads the load, so that every server keeps the most slack
beside it. ``best_fit`` keeps empty CPUs whole for large reservations, and
``first_fit`` keeps the highest numbers free. The extra spec ``rt:numa`` takes
precedence. Running servers stay where they are. Read by nova-rt-compute when
it starts.
""",
    ),
    cfg.IntOpt(
        'reserved_ppm',
        default=0,
        min=0,
        max=reservation.PPM,
        help="""
Bandwidth to keep back from reservations, in ppm of a CPU.

It is kept back on each CPU, or once for the host if the kernel sums over the
whole host, in addition to the bandwidth that the kernel itself keeps back.
Read by nova-rt-compute when it starts.
""",
    ),
    cfg.StrOpt(
        'spare_pool',
        regex='^[0-9]{1,9}/[0-9]{1,9}$',
        help="""
Pool of spare bandwidth on each CPU of this host, as a runtime and a period in
microseconds, such as ``1000/10000``.

It serves urgent tasks of servers whose flavor has ``rt:spare`` while they have
used up their own runtime. Its bandwidth is kept from reservations once on each
CPU, however many servers share it. A CPU with a pool cannot go off line. It
needs the kernel of this project: nova-rt-compute does not start on another
one. If unset, there is no pool, and servers that need one are not started any
more. Consider shorter periods first. Read by nova-rt-compute when it starts.
""",
    ),
    cfg.StrOpt(
        'partition',
        help="""
Control group below which libvirt puts containers.

If unset, it is the default of libvirt: ``machine.slice`` if systemd is the
init system, otherwise ``machine``. nova-rt-compute assigns bandwidth to this
group and expects to be the only program that does. Read by nova-rt-compute
when it starts, and by its privileged helper, which works only in this group.
""",
    ),
    cfg.StrOpt(
        'id_pool',
        default='2000224256:147128320',
        help="""
User and group IDs of this host for containers, as ``<first ID>:<number of
IDs>``.

Each server, plain or real-time, has its own 65,536 of them while it is defined
on this host, so that root of one container is not a user of any other
container. Both numbers are multiples of 65,536. The pool must not contain an
ID of an account of this host, or of a line of ``/etc/subuid`` or
``/etc/subgid`` except root's; a line ``root:2000224256:147128320`` keeps
``useradd`` from assigning its IDs. If several services create containers on
one machine, each needs its own pool.

The default has 2,245 ranges and does not overlap the IDs that useradd,
systemd, SSSD and FreeIPA assign by default. If the pool is empty, containers
have no user namespaces: see ``allow_host_root``. Read by nova-rt-compute when
it starts, and by its privileged helper, which maps no other IDs.
""",
    ),
    cfg.BoolOpt(
        'allow_host_root',
        default=False,
        help="""
Permit an empty ``id_pool``: containers then have no user namespaces, and the
root user of every container is the root user of this host.

That user can write to the control groups of the whole host and keeps
``CAP_SYS_NICE``, and little protects the rest of the host. nova-rt-compute
does not start with an empty ``id_pool`` unless this option is set. Set it only
if you trust every user of the cloud as you trust root. Read by nova-rt-compute
when it starts.
""",
    ),
    cfg.IntOpt(
        'max_inotify_instances',
        default=64,
        min=1,
        max=_LARGEST,
        help="""
Largest number of inotify instances, and of fanotify groups, of one container.

The kernel also counts them towards the limit of this host's root user,
``fs.inotify.max_user_instances`` (128 by default), which all containers share.
Raise that limit above this option times the number of servers. Read by the
privileged helper of nova-rt-compute when a container starts, and when
nova-rt-compute starts.
""",
    ),
    cfg.IntOpt(
        'max_inotify_watches',
        default=65536,
        min=1,
        max=_LARGEST,
        help="""
Largest number of inotify watches, and of fanotify marks, of one container.

See ``max_inotify_instances``; the host's limit is
``fs.inotify.max_user_watches``.
""",
    ),
    cfg.IntOpt(
        'max_namespaces',
        default=256,
        min=0,
        max=_LARGEST,
        help="""
Largest number of namespaces of each kind that one container can create; with
0, it can create none.

Containers and browsers inside a container need some. See
``max_inotify_instances``.
""",
    ),
    cfg.IntOpt(
        'max_tasks',
        default=4096,
        min=0,
        max=task_limit.VALUES.maximum,
        help="""
Largest number of processes and threads of one container, unless its flavor has
the extra spec ``lxc:max_tasks``; with 0, nova_rt sets no limit.

All containers share the process IDs of this host, ``kernel.pid_max``. The
container's ``libvirt_lxc`` counts as well. Read by nova-rt-compute when it
starts, and applied when a container starts.
""",
    ),
    cfg.IntOpt(
        'verify_interval',
        default=60,
        min=0,
        help="""
Seconds between checks that the kernel holds every reservation; 0 turns them
off.

If a check finds a difference (in the reservation, the CPUs or the owner of the
files), nova-rt-compute repairs it and logs an error. It stops a server if the
kernel refuses to hold its reservation at two checks. A check also removes
control groups that libvirt has left behind after containers ended. Read by
nova-rt-compute when it starts.
""",
    ),
    cfg.BoolOpt(
        'adapt',
        default=True,
        help="""
Let the runtime of a server follow its load, if its flavor has ``rt:adapt``,
and boost servers that start, if it has ``rt:startup_runtime``.

nova-rt-compute reads the use of such servers ten times a second, and moves
their runtime within the bounds of the flavor, by bandwidth that is free on
their CPUs. If this option is off, servers get the runtime that they were last
recorded with when nova-rt-compute starts, and keep it. Read by nova-rt-compute
when it starts.
""",
    ),
    cfg.IntOpt(
        'max_stops_per_minute',
        default=1,
        min=0,
        help="""
Largest number of running real-time servers of this host that nova-rt-compute
may stop within a minute; 0 for none.

A check stops a server only if the kernel has refused twice to hold its
reservation. If that happens to many servers at once, the host is the cause,
and the others keep running without their reservations until the host is
repaired or their turn comes. With 0, such servers are only reported. Whatever
the value, a server that is being started never runs without its reservation.
Read by nova-rt-compute when it starts.
""",
    ),
    cfg.BoolOpt(
        'report',
        default=False,
        help="""
Send events of reservations to the history that nova-rt-conductor keeps.

Set this option if there is a conductor on the message bus of this host. Events
wait in a durable queue of the message bus until a conductor takes them. No
server waits for an event to be sent. Read by nova-rt-compute when it starts.
""",
    ),
    cfg.StrOpt(
        'history_topic',
        default='nova_rt_history',
        regex='^[a-zA-Z0-9_-]{1,64}$',
        help="""
Topic of the notifications that carry events to nova-rt-conductor.

Their queue on the message bus has this name with ``.info`` behind it. Use the
same value for nova-rt-compute and nova-rt-conductor.
""",
    ),
]


_GROUPS = (
    (GROUP, API_SCHEDULER_OPTS + COMPUTE_OPTS),
    (conductor.GROUP, conductor.OPTS),
    (database.GROUP, database.OPTS),
    (exporter.GROUP, exporter.OPTS),
    (rest.GROUP, rest.OPTS),
)


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the options of this project on a configuration."""
    groups.register(conf, _GROUPS)


def list_opts() -> list[tuple[cfg.OptGroup, list[Any]]]:
    """All options, for the sample configuration and the documentation."""
    every = (*_GROUPS, (nova_api.GROUP, nova_api.list_opts()))
    return [(group, list(opts)) for group, opts in every]
