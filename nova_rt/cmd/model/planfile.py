# SPDX-License-Identifier: Apache-2.0
"""Plans from a YAML file: hosts, and services that need reservations.

Input is untrusted: each fault is told with its place.
"""

import argparse
from collections.abc import Callable
import dataclasses
from typing import Any

from nova_rt import exception
from nova_rt.cmd.model import options, samples, values, yamlfile
from nova_rt.model import planner, services, sizing, units
from nova_rt.model.limits import Limits
from nova_rt.reservation import cpulist
from nova_rt.reservation.admission import Capacity
from nova_rt.reservation.reservation import PPM, Reservation

_MAX_HOSTS = 5_000
_MAX_SERVERS = 20_000
# Servers times hosts: a plan of so many takes some seconds.
_MAX_PAIRS = 2_000_000


@dataclasses.dataclass(frozen=True)
class Planned:
    """The contents of a file.

    :ivar hosts: at least one
    :ivar servers: in the order of the file
    """

    hosts: list[planner.CandidateHost]
    servers: list[planner.PlannedServer]


def read(path: str, limits: Limits) -> Planned:
    """Read a plan and size its services.

    :param limits: of reservations; the most of a CPU comes from the
        hosts
    :returns: hosts and servers
    :raises InvalidQuantity: if it cannot be read; says the place
    :raises Unanswerable: if a service cannot have its reservation
    """
    found = values.Fields(
        'the file', yamlfile.load(path), {'hosts', 'services'}
    )
    hosts = _read_hosts(found.take('hosts', values.read_list))
    best = max(max(host.capacity.cpus.values()) for host in hosts)
    limits = dataclasses.replace(limits, max_bandwidth=best / PPM)
    servers = _read_services(found.take('services', values.read_list), limits)
    if len(hosts) * len(servers) > _MAX_PAIRS:
        raise exception.InvalidQuantity(
            f'{len(servers)} servers on {len(hosts)} hosts take too long: '
            'plan for a part of them'
        )
    return Planned(hosts, servers)


def _read_hosts(given: list[Any]) -> list[planner.CandidateHost]:
    hosts: list[planner.CandidateHost] = []
    for number, each in enumerate(given, 1):
        fields = values.Fields(
            f'host {number}', each, {'name', 'count', 'cpus', 'capacity'}
        )
        name = fields.take('name', values.read_name, f'host-{number}')
        count = fields.take('count', values.whole(_MAX_HOSTS), 1)
        cpus = fields.take('cpus', values.read_cpus)
        ppm = fields.take(
            'capacity', values.text(values.capacity_ppm), options.USUAL_PPM
        )
        capacity = Capacity(dict.fromkeys(cpus, ppm))
        hosts += [
            planner.CandidateHost(each, capacity)
            for each in _names(name, count)
        ]
        _check_number('hosts', len(hosts), _MAX_HOSTS)
    _check_names('hosts', [host.name for host in hosts])
    return hosts


_NEEDS: dict[str, Callable[[Any], Any]] = {
    'rate': values.text(units.rate_per_s),
    'deadline': values.text(units.duration_s),
    'percentile': values.text(units.percentile),
}
_MORE: dict[str, Callable[[Any], Any]] = {
    'service-time': values.text(units.duration_s),
    'distribution': values.one_of('exponential', 'constant'),
    'measured': values.text(str),
    'csv-column': values.text(str),
    'csv-unit': values.one_of(*samples.UNITS),
    'latency': values.text(units.delay_s),
    'split': values.flag,
    'polling': values.flag,
    'wake-up': values.text(units.delay_s),
    'link': values.text(units.link_bit_per_s),
    'request-size': values.text(units.size_bit),
    'arrivals': values.one_of(options.POISSON, options.PERIODIC),
    'jitter': values.text(units.delay_s),
    'batch': values.whole(options.MOST_AT_ONCE),
    'period': values.text(options.whole_us),
}


def _read_services(
    given: list[Any], limits: Limits
) -> list[planner.PlannedServer]:
    servers: list[planner.PlannedServer] = []
    for number, each in enumerate(given, 1):
        fields = values.Fields(
            f'service {number}', each,
            {'name', 'count', 'vcpus', 'reservation', *_NEEDS, *_MORE},
        )  # fmt: skip
        name = fields.take('name', values.read_name, f'service-{number}')
        fields.place = f'service {number} ({name})'
        count = fields.take('count', values.whole(_MAX_SERVERS), 1)
        vcpus = fields.take('vcpus', values.whole(cpulist.MAX_PACKED), 1)
        reservation = _reserve(fields, vcpus, limits)
        servers += [
            planner.PlannedServer(each, vcpus, reservation)
            for each in _names(name, count)
        ]
        _check_number('servers', len(servers), _MAX_SERVERS)
    _check_names('servers', [server.name for server in servers])
    return servers


def _reserve(fields: values.Fields, vcpus: int, limits: Limits) -> Reservation:
    """The reservation of a service: given, or computed."""
    if 'reservation' in fields:
        for key in (*_NEEDS, *_MORE):
            if key in fields:
                raise exception.InvalidQuantity(
                    f'{fields.place} has both reservation and {key}: leave '
                    'out one of them'
                )
        found: Reservation = fields.take(
            'reservation', values.text(Reservation.parse)
        )
        return found
    needs = {key: fields.take(key, read) for key, read in _NEEDS.items()}
    parser = argparse.ArgumentParser()
    options.add_service(parser)
    # What is not there is as without the option of that name.
    asked = parser.parse_args([])
    asked.vcpus, asked.period = vcpus, None
    for key, read in _MORE.items():
        if key in fields:
            setattr(asked, key.replace('-', '_'), fields.take(key, read))
    try:
        return sizing.size(
            services.choose(options.service(asked)).model, needs['rate'],
            needs['deadline'], needs['percentile'], limits, asked.period,
        ).reservation  # fmt: skip
    except exception.Unanswerable as err:
        raise exception.InvalidQuantity(f'{fields.place}: {err}') from err


def _names(name: str, count: int) -> list[str]:
    if count == 1:
        return [name]
    return [f'{name}-{number}' for number in range(1, count + 1)]


def _check_number(what: str, number: int, most: int) -> None:
    if number > most:
        raise exception.InvalidQuantity(
            f'there are more than {most} {what}: plan for a part of them'
        )


def _check_names(what: str, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise exception.InvalidQuantity(f'two {what} are named {name}')
        seen.add(name)
