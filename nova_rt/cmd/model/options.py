# SPDX-License-Identifier: Apache-2.0
"""Options of the commands, and their meaning together."""

import argparse
from collections.abc import Callable
from typing import Any, TypeVar

from nova_rt import exception
from nova_rt.cmd.model import samples
from nova_rt.model import guarantee, services, units
from nova_rt.model.limits import Limits
from nova_rt.reservation import cpulist, spec_values
from nova_rt.reservation.reservation import Reservation

#: Linux's default limit of reservations on a CPU, see sched_rt_runtime_us.
USUAL_PPM = 950_000

_VCPUS = spec_values.Number(1, cpulist.MAX_PACKED)
#: Requests that can come at the same instant.
MOST_AT_ONCE = 100_000
_BURST = spec_values.Number(1, MOST_AT_ONCE)
_USUAL = Limits()

#: Values of --arrivals that are no files.
POISSON, PERIODIC = 'poisson', 'periodic'

_NEITHER = (None, None)

_T = TypeVar('_T')


def reader(read: Callable[[str], _T]) -> Callable[[str], _T]:
    """Turn a refusal of a text into argparse's error, with the reason.

    :returns: the same function, for ``type=``
    """

    def checked(text: str) -> _T:
        try:
            return read(text)
        except (exception.Unanswerable, exception.InvalidRequest) as err:
            raise argparse.ArgumentTypeError(str(err)) from err

    return checked


def whole_us(text: str) -> int:
    """Read a time that a reservation can have.

    :returns: microseconds
    :raises InvalidQuantity: if it is none, or no whole number of them
    """
    exact = units.duration_s(text) * 1e6
    found = round(exact)
    if abs(exact - found) > 1e-6 or not found:
        raise exception.InvalidQuantity(
            f'{text!r} is not a whole number of microseconds'
        )
    return found


def number(name: str, values: spec_values.Number) -> Callable[[str], int]:
    """Read a whole number in bounds.

    :returns: the reader, for ``type=``
    """
    return reader(lambda text: values.parse(name, text))


def bandwidth(text: str) -> float:
    """Read a part of a CPU in percent.

    :returns: a fraction
    :raises InvalidQuantity: if it is none
    """
    return 1.0 if text in {'100', '100%'} else units.percentile(text)


# Name -> reader or bounds, name of its value, default, help.
_OPTIONS: dict[
    str, tuple[Callable[[str], Any] | spec_values.Number, str, Any, str]
] = {
    'rate': (
        units.rate_per_s, 'RATE', None,
        'Requests of all clients together, such as 500/s or 257/100ms. '
        'With a file of arrivals it is theirs by default.',
    ),
    'deadline': (
        units.duration_s, 'TIME', None,
        'From sending a request to having the answer, such as 10ms.',
    ),
    'percentile': (
        units.percentile, 'PERCENT', None,
        'How many of the requests must be in time, such as 99.',
    ),
    'reservation': (
        Reservation.parse, 'Q/P', None,
        'Runtime and period of each vCPU in microseconds, such as '
        '1400/2000.',
    ),
    'service-time': (
        units.duration_s, 'TIME', None,
        'Mean CPU time of a request at full speed, such as 1ms.',
    ),
    'latency': (
        units.delay_s, 'TIME', 0.0,
        'Of the network, one way, such as 0.1ms. Default: none.',
    ),
    'vcpus': (
        _VCPUS, 'N', 1,
        'Number of vCPUs, with a worker on each. Default: 1.',
    ),
    'wake-up': (
        units.delay_s, 'TIME', 0.0,
        'What it takes of the CPU to wake up for a request, such as '
        '2us; added to each CPU time. Default: none.',
    ),
    'link': (
        units.link_bit_per_s, 'RATE', None,
        'Rate to which the link is shaped, such as 64Mbit.',
    ),
    'request-size': (
        units.size_bit, 'SIZE', None,
        'Mean size of a request with all its headers, such as 1KiB.',
    ),
    'jitter': (
        units.delay_s, 'TIME', 0.0,
        'Of periodic requests, the most that one is late, at random. '
        'Default: none.',
    ),
    'batch': (
        _BURST, 'N', 1,
        'So many requests come together. Default: 1.',
    ),
    'burst': (
        _BURST, 'N', None,
        'Requests that can come at the same instant, at most.',
    ),
    'longest': (
        units.duration_s, 'TIME', None,
        'CPU time of any request, at most, such as 2ms.',
    ),
    'period': (
        whole_us, 'TIME', None,
        'Take this period, such as 2ms. Default: the best one.',
    ),
    'min-period': (
        whole_us, 'TIME', _USUAL.min_period_us,
        'Shortest period that the cloud allows. Default: '
        f'{units.tell_duration(_USUAL.min_period_us / 1e6)}.',
    ),
    'max-period': (
        whole_us, 'TIME', _USUAL.max_period_us,
        'Longest period that the cloud allows. Default: '
        f'{units.tell_duration(_USUAL.max_period_us / 1e6)}.',
    ),
    'max-bandwidth': (
        bandwidth, 'PERCENT', _USUAL.max_bandwidth,
        'The most of a CPU that a host promises, such as 95. '
        'Default: 100.',
    ),
    'overhead': (
        units.delay_s, 'TIME', _USUAL.overhead_us / 1e6,
        'What switching takes of each runtime. Default: '
        f'{_USUAL.overhead_us:g}us.',
    ),
}  # fmt: skip


def add(
    parser: argparse._ActionsContainer, *names: str, required: bool = False
) -> None:
    """Offer some of the options that have a value.

    :param names: of the options, without dashes in front
    """
    for name in names:
        read, metavar, default, text = _OPTIONS[name]
        checked = (
            number(f'--{name}', read)
            if isinstance(read, spec_values.Number)
            else reader(read)
        )
        parser.add_argument(
            f'--{name}', type=checked, metavar=metavar, default=default,
            required=required, help=text,
        )  # fmt: skip


def add_service(parser: argparse.ArgumentParser) -> None:
    """Add the options of a service and of its arrivals."""
    group = parser.add_argument_group('service')
    add(group, 'service-time')
    group.add_argument(
        '--distribution', choices=('exponential', 'constant'),
        help='How CPU times vary. Default: exponential.',
    )  # fmt: skip
    group.add_argument(
        '--measured', metavar='CSV',
        help='Take the CPU times from a file instead; see the command fit.',
    )  # fmt: skip
    samples.add_options(group)
    add_requests(parser, group)


def add_requests(
    parser: argparse.ArgumentParser, group: argparse._ActionsContainer
) -> None:
    """Offer the rest of :func:`add_service`, without CPU times."""
    add(group, 'latency', 'vcpus')
    group.add_argument(
        '--split', action='store_true',
        help='Each vCPU has a queue of its own (RSS, SO_REUSEPORT, pinned '
        'threads), and each request or batch goes to one of them at random. '
        'Default: one queue for all.',
    )  # fmt: skip
    group.add_argument(
        '--polling', action='store_true',
        help='The workers never sleep, as with DPDK: a request can wait for '
        '2 (P - Q).',
    )  # fmt: skip
    add(group, 'wake-up', 'link', 'request-size')
    group.add_argument(
        '--conservative', action='store_true',
        help="For a link: the papers' bound, not the exact percentile.",
    )  # fmt: skip
    group = parser.add_argument_group('arrivals')
    group.add_argument(
        '--arrivals', metavar='poisson|periodic|CSV', default=POISSON,
        help='How requests come: at random, evenly, or at the instants of a '
        'file. Those keep their CPU times if --measured has as many. '
        'Default: poisson.',
    )  # fmt: skip
    samples.add_options(group, 'arrivals')
    add(group, 'jitter', 'batch')


def add_always(parser: argparse.ArgumentParser) -> None:
    """Add the options of a bound that no request exceeds."""
    group = parser.add_argument_group('bound that no request exceeds')
    add(group, 'burst', 'longest')


def service(given: argparse.Namespace) -> services.Service:
    """Put the options of :func:`add_service` together.

    :returns: the service
    :raises InvalidQuantity: if they contradict each other, or some are
        missing
    """
    recorded = given.arrivals not in {POISSON, PERIODIC}
    measured = given.measured is not None
    for wrong, text in (
        (
            (given.service_time is None) != measured,
            'give either --service-time or --measured: the CPU time of a '
            'request, or a file of many',
        ),
        (
            measured and given.distribution,
            '--distribution is not for --measured: the file has it',
        ),
        (
            not measured and (given.csv_column, given.csv_unit) != _NEITHER,
            '--csv-column and --csv-unit are for --measured',
        ),
        (
            not recorded
            and (given.arrivals_column, given.arrivals_unit) != _NEITHER,
            '--arrivals-column and --arrivals-unit are for a file',
        ),
        (
            given.jitter and given.arrivals != PERIODIC,
            '--jitter is for --arrivals periodic',
        ),
        (given.batch > 1 and recorded, '--batch is not for a file'),
        (
            (given.link is None) != (given.request_size is None),
            '--link and --request-size go together',
        ),
        (
            given.conservative and given.link is None,
            '--conservative is for --link',
        ),
    ):
        if wrong:
            raise exception.InvalidQuantity(text)
    link = None
    if given.link is not None:
        link = services.Link(
            given.link, given.request_size, given.conservative
        )
    times_s: list[float] = []
    if measured:
        times_s = samples.read(
            given.measured, given.csv_column, given.csv_unit
        )
    instants_s: list[float] = []
    if recorded:
        instants_s = samples.read(
            given.arrivals, given.arrivals_column, given.arrivals_unit,
            'arrivals',
        )  # fmt: skip
        if measured and len(times_s) != len(instants_s):
            raise exception.InvalidQuantity(
                f'there are {len(instants_s)} instants and {len(times_s)} CPU '
                'times: each request has one of both'
            )
    return services.Service(
        (given.service_time or 0.0) + given.wake_up,
        given.distribution == 'constant',
        [time_s + given.wake_up for time_s in times_s],
        given.latency, given.vcpus, given.split, given.polling, link,
        given.arrivals == PERIODIC, given.jitter, given.batch, instants_s,
    )  # fmt: skip


def rate_per_s(given: argparse.Namespace, service: services.Service) -> float:
    """The rate that is given, or that of a file.

    :returns: requests/s
    :raises InvalidQuantity: without both
    """
    found: float | None = given.rate
    if service.instants_s:
        # Here, because only this needs numpy. It checks the file, too.
        from nova_rt.model import trace

        of_file = trace.rate_of(list(service.instants_s))
        return of_file if found is None else found
    if found is None:
        raise exception.InvalidQuantity(
            'give --rate, or a file with --arrivals'
        )
    return found


def limits(given: argparse.Namespace) -> Limits:
    """Put the options of a reservation that is to be chosen together.

    :returns: the limits, the usual ones where a command has no option
    :raises InvalidQuantity: if they contradict each other
    """
    return Limits(
        getattr(given, 'min_period', _USUAL.min_period_us),
        getattr(given, 'max_period', _USUAL.max_period_us),
        getattr(given, 'max_bandwidth', _USUAL.max_bandwidth),
        given.overhead * 1e6,
    )


def arrivals(
    given: argparse.Namespace, service: services.Service, rate_per_s: float
) -> guarantee.Arrivals | None:
    """Put the options of :func:`add_always` together.

    Periodic requests that are all the same need none.

    :returns: None where there is no such bound
    :raises InvalidQuantity: if one is missing, or the service has more than
        one CPU
    """
    if (given.burst is None) != (given.longest is None):
        raise exception.InvalidQuantity('--burst and --longest go together')
    known = service.cpus == 1 and service.link is None and not service.polling
    if given.burst is None:
        if known and service.periodic and service.constant:
            return service.worst(rate_per_s, service.service_s)
        return None
    if not known:
        raise exception.InvalidQuantity(
            'a bound that no request exceeds is for one vCPU without a link, '
            'and for servers that sleep'
        )
    return guarantee.Arrivals.of(given.burst, rate_per_s, given.longest)
