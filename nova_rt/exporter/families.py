# SPDX-License-Identifier: Apache-2.0
"""The metrics: their names, their help, and how a reading becomes them.

Labels are ``server`` (a UUID), ``cpu`` (a number) and ``kind`` (one of a list
in this project), nothing else: their number is bounded, and no name that a
user has chosen is among them. Only ``nova_rt_server_info``, which is off by
default, has texts of others.
"""

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import core

from nova_rt.exporter.reading import (
    ContainerState,
    CountsFile,
    HostBandwidth,
    Reading,
    Source,
)
from nova_rt.formats import counts
from nova_rt.host.interface import Usage
from nova_rt.reservation.admission import Capacity
from nova_rt.reservation.extra_specs import Enforcement
from nova_rt.reservation.reservation import PPM, Reservation

_Row = tuple[tuple[str, ...], float]


def collect(reading: Reading) -> Iterator[core.Metric]:
    """Turn a reading into metrics.

    :returns: everything readable, and ``nova_rt_up``, which names the sources
        that could not be read
    """
    yield _gauge(
        'up',
        'Whether this source of metrics could be read; if not, what it would '
        'say is missing.',
        ('kind',),
        [((source,), source not in reading.failed) for source in Source],
    )
    yield _gauge(
        'exporter_reading_seconds',
        'How long the reading took that these metrics are of.',
        (),
        [((), reading.took_s)],
    )
    if reading.kernel is not None:
        yield from _collect_host(reading.kernel)
    if reading.servers is not None:
        yield from _collect_claims(reading)
    yield from _collect_states(reading.states)
    if reading.counted is not None:
        yield from _collect_counts(reading.counted)


def _collect_host(kernel: HostBandwidth) -> Iterator[core.Metric]:
    found = kernel.capability
    yield _gauge(
        'host_interface_info',
        'The interface of the kernel, as the kind; always 1.',
        ('kind',),
        [((found.name,), 1)],
    )
    yield _gauge(
        'host_guarantees',
        'Whether the kernel guarantees reservations; if not, it limits.',
        (),
        [((), found.enforcement is Enforcement.GUARANTEE)],
    )
    yield _gauge(
        'host_prepared',
        'Whether containers can be given reservations as the host is.',
        (),
        [((), found.prepared)],
    )
    yield from _collect_capacity(
        'ceiling', 'what groups can hold in all', found.ceiling
    )
    if kernel.offered is not None:
        yield from _collect_capacity(
            'capacity', 'what servers can be promised', kernel.offered
        )
    if kernel.free is not None:
        yield from _collect_capacity(
            'free', 'what the next server can be promised', kernel.free
        )
    pool = found.ceiling.spare
    if pool is not None:
        yield from _collect_pool(pool, kernel.pool_usage)


def _collect_pool(
    pool: Reservation, used: Mapping[int, Usage]
) -> Iterator[core.Metric]:
    yield _gauge(
        'host_cpu_pool_ratio',
        'Bandwidth of a CPU that its pool of spare bandwidth has.',
        ('cpu',),
        _per_cpu(dict.fromkeys(used, pool.ppm)),
    )
    yield _counter(
        'host_cpu_pool_used_seconds',
        'Time for which servers that had used up their runtime ran on the '
        'CPU by its pool.',
        ('cpu',),
        [
            ((str(cpu),), usage.used_us / 1_000_000)
            for cpu, usage in sorted(used.items())
        ],
    )
    yield _counter(
        'host_cpu_pool_throttled_periods',
        'Periods in which the pool of the CPU was used up.',
        ('cpu',),
        [
            ((str(cpu),), usage.throttled or 0)
            for cpu, usage in sorted(used.items())
        ],
    )


def _collect_capacity(
    name: str, what: str, capacity: Capacity
) -> Iterator[core.Metric]:
    yield _gauge(
        f'host_cpu_{name}_ratio',
        f'Bandwidth of a CPU: {what}.',
        ('cpu',),
        _per_cpu(capacity.cpus),
    )
    yield _gauge(
        f'host_{name}_cpus',
        f'Bandwidth of the host, in CPUs: {what}.',
        (),
        [((), capacity.total_ppm / PPM)],
    )


def _collect_claims(reading: Reading) -> Iterator[core.Metric]:
    # With the overhead that admission counts, so that a full host looks full.
    ceiling = Capacity({})
    if reading.kernel is not None:
        ceiling = reading.kernel.capability.ceiling
    cpus = dict.fromkeys(ceiling.cpus, 0) | ceiling.sum_by_cpu(reading.claims)
    yield from _collect_capacity(
        'reserved', 'what its servers hold, running or not', Capacity(cpus)
    )
    servers = reading.servers or ()
    yield _gauge(
        'server_running',
        'Whether the container of this real-time server runs.',
        ('server',),
        [((each.uuid,), each.pid is not None) for each in servers],
    )
    yield _gauge(
        'server_record_readable',
        'Whether the record of the reservation in the domain can be read.',
        ('server',),
        [((each.uuid,), each.record is not None) for each in servers],
    )
    named = [(each.uuid, each.details) for each in servers if each.details]
    if named:
        yield _gauge(
            'server_info',
            'What Nova has written about the server; always 1.',
            ('server', 'project', 'flavor', 'name'),
            [
                ((uuid, found.project, found.flavor, found.name), 1)
                for uuid, found in named
            ],
        )
    known = [
        (each.uuid, each.record) for each in servers if each.record is not None
    ]
    yield _gauge(
        'server_guaranteed',
        'Whether the server was promised a guarantee, not only a limit.',
        ('server',),
        [
            ((uuid,), rec.request.enforcement is Enforcement.GUARANTEE)
            for uuid, rec in known
        ],
    )
    yield _gauge(
        'server_cpu_reserved_ratio',
        'Bandwidth of a CPU that the server must have while it runs.',
        ('server', 'cpu'),
        [
            ((uuid, str(cpu)), rec.ppm / PPM)
            for uuid, rec in known
            for cpu in rec.cpus
        ],
    )


def _collect_states(
    states: Mapping[str, ContainerState],
) -> Iterator[core.Metric]:
    yield _gauge(
        'server_drifted',
        'Whether the kernel holds something else than the record of this '
        'running server says.',
        ('server',),
        [
            ((uuid,), state.drifted)
            for uuid, state in states.items()
            if state.drifted is not None
        ],
    )
    yield _gauge(
        'server_cpu_actual_ratio',
        'Bandwidth of a CPU that this running server has now; another than '
        'the reserved one if its reservation follows its load, or it is '
        'boosted.',
        ('server', 'cpu'),
        [
            ((uuid, str(cpu)), state.actual.ppm / PPM)
            for uuid, state in states.items()
            if state.actual is not None
            for cpu in state.actual.cpus
        ],
    )
    used = [
        ((uuid, str(cpu)), usage)
        for uuid, state in states.items()
        for cpu, usage in (state.usage or {}).items()
    ]
    labels = ('server', 'cpu')
    yield _counter(
        'server_cpu_used_seconds',
        'Time for which real-time tasks of the server ran on the CPU, since '
        'its container started; on a host that only limits, all its tasks.',
        labels,
        [(names, usage.used_us / 1_000_000) for names, usage in used],
    )
    yield _counter(
        'server_cpu_periods',
        'Periods in which the server was given runtime on the CPU, since its '
        'container started.',
        labels,
        [
            (names, usage.periods)
            for names, usage in used
            if usage.periods is not None
        ],
    )
    yield _counter(
        'server_cpu_throttled_periods',
        'Periods in which the server used up its runtime on the CPU, since '
        'its container started.',
        labels,
        [
            (names, usage.throttled)
            for names, usage in used
            if usage.throttled is not None
        ],
    )
    yield _counter(
        'server_cpu_pool_used_seconds',
        'The part of the used time that the pool of the CPU has given.',
        labels,
        [
            (names, usage.spare_us / 1_000_000)
            for names, usage in used
            if usage.spare_us is not None
        ],
    )
    yield _counter(
        'server_cpu_pool_waits',
        'Times that the server began to wait for the pool of the CPU.',
        labels,
        [
            (names, usage.spare_waits)
            for names, usage in used
            if usage.spare_waits is not None
        ],
    )


def _collect_counts(counted: CountsFile) -> Iterator[core.Metric]:
    yield _gauge(
        'compute_last_write_timestamp_seconds',
        'When nova-rt-compute wrote its counters, in seconds since 1970; it '
        'does so every minute.',
        (),
        [((), counted.at)],
    )
    found = counted.counts
    if found.verified_at:
        yield _gauge(
            'compute_last_verification_timestamp_seconds',
            'When nova-rt-compute has last seen to the end of a check of all '
            'servers, in seconds since 1970.',
            (),
            [((), found.verified_at)],
        )
    yield _counter(
        'events',
        'Events of reservations on this host, by kind.',
        ('kind',),
        [((kind,), found.by_kind.get(kind, 0)) for kind in counts.KINDS],
    )
    yield _counter(
        'refusals',
        'Refusals by this host, by what was refused.',
        ('kind',),
        [((what,), found.by_action.get(what, 0)) for what in counts.ACTIONS],
    )
    yield _counter(
        'adaptations',
        'Decisions to move the runtime of a server, by result.',
        ('kind',),
        [
            ((what,), found.by_adaptation.get(what, 0))
            for what in counts.ADAPTATIONS
        ],
    )
    yield _gauge(
        'frozen_servers',
        'Servers whose reservation does not follow their load, since their '
        'use cannot be read.',
        (),
        [((), found.frozen)],
    )
    yield _counter(
        'history_dropped_events',
        'Events that are missing in the history, because nova-rt-compute '
        'could not send them.',
        (),
        [((), found.dropped)],
    )
    yield _counter(
        'repairs',
        'Containers that had drifted and were given their reservation again.',
        (),
        [((), found.by_kind.get('repaired', 0))],
    )


def _per_cpu(cpus: Mapping[int, int]) -> list[_Row]:
    return [((str(cpu),), ppm / PPM) for cpu, ppm in sorted(cpus.items())]


def _gauge(
    name: str, text: str, labels: tuple[str, ...], rows: Iterable[_Row]
) -> core.Metric:
    family = core.GaugeMetricFamily(f'nova_rt_{name}', text, labels=labels)
    for values, number in rows:
        family.add_metric(values, float(number))
    return family


def _counter(
    name: str, text: str, labels: tuple[str, ...], rows: Iterable[_Row]
) -> core.Metric:
    family = core.CounterMetricFamily(f'nova_rt_{name}', text, labels=labels)
    for values, number in rows:
        family.add_metric(values, number)
    return family
