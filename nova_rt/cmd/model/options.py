# SPDX-License-Identifier: Apache-2.0
"""Options of the commands, and what they mean together."""

import argparse
from collections.abc import Callable
from typing import TypeVar

from nova_rt import exception
from nova_rt.cmd.model import samples
from nova_rt.model import guarantee, services, units
from nova_rt.model.limits import Limits
from nova_rt.reservation import cpulist, spec_values
from nova_rt.reservation.reservation import Reservation

#: Linux's default limit of reservations on a CPU, see sched_rt_runtime_us.
USUAL_PPM = 950_000

_VCPUS = spec_values.Number(1, cpulist.MAX_PACKED)
_BURST = spec_values.Number(1, 100_000)
_USUAL = Limits()

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


def add_rate(
    parser: argparse._ActionsContainer, required: bool = True
) -> None:
    """Offer ``--rate``."""
    parser.add_argument(
        '--rate', required=required, type=reader(units.rate_per_s),
        metavar='RATE',
        help='Requests of all clients together, such as 500/s.',
    )  # fmt: skip


def add_deadline(
    parser: argparse._ActionsContainer, required: bool = True
) -> None:
    """Offer ``--deadline``."""
    parser.add_argument(
        '--deadline', required=required, type=reader(units.duration_s),
        metavar='TIME',
        help='From sending a request to having the answer, such as 10ms.',
    )  # fmt: skip


def add_percentile(
    parser: argparse._ActionsContainer, required: bool = True
) -> None:
    """Offer ``--percentile``."""
    parser.add_argument(
        '--percentile', required=required, type=reader(units.percentile),
        metavar='PERCENT',
        help='How many of the requests must be in time, such as 99.',
    )  # fmt: skip


def add_reservation(parser: argparse.ArgumentParser) -> None:
    """Offer ``--reservation``."""
    parser.add_argument(
        '--reservation', required=True, type=reader(Reservation.parse),
        metavar='Q/P',
        help='Runtime and period of each vCPU in microseconds, such as '
        '1400/2000.',
    )  # fmt: skip


def add_service(parser: argparse.ArgumentParser) -> None:
    """Offer what describes a service."""
    group = parser.add_argument_group('service')
    add_times(group)
    group.add_argument(
        '--vcpus', default=1, type=number('--vcpus', _VCPUS), metavar='N',
        help='Number of vCPUs, with a worker on each. Default: 1.',
    )  # fmt: skip
    group.add_argument(
        '--link', type=reader(units.link_bit_per_s), metavar='RATE',
        help='Rate to which the link is shaped, such as 64Mbit.',
    )  # fmt: skip
    group.add_argument(
        '--request-size', type=reader(units.size_bit), metavar='SIZE',
        help='Mean size of a request with all its headers, such as 1KiB.',
    )  # fmt: skip
    group.add_argument(
        '--conservative', action='store_true',
        help="For a link: the papers' bound, not the exact percentile.",
    )  # fmt: skip


def add_times(group: argparse._ActionsContainer) -> None:
    """Offer CPU times and the latency."""
    group.add_argument(
        '--service-time', type=reader(units.duration_s), metavar='TIME',
        help='Mean CPU time of a request at full speed, such as 1ms.',
    )  # fmt: skip
    group.add_argument(
        '--distribution', choices=('exponential', 'constant'),
        help='How CPU times vary. Default: exponential.',
    )  # fmt: skip
    group.add_argument(
        '--measured', metavar='CSV',
        help='Take the CPU times from a file instead; see the command fit.',
    )  # fmt: skip
    samples.add_options(group)
    add_latency(group, 0.0)


def add_latency(
    group: argparse._ActionsContainer, default: float | None = None
) -> None:
    """Offer ``--latency``.

    :param default: seconds; None where it matters whether it was given
    """
    group.add_argument(
        '--latency', default=default, type=reader(units.delay_s),
        metavar='TIME',
        help='Of the network, one way, such as 0.1ms. Default: none.',
    )  # fmt: skip


def add_always(parser: argparse.ArgumentParser) -> None:
    """Offer what a bound that no request exceeds is about."""
    group = parser.add_argument_group('bound that no request exceeds')
    group.add_argument(
        '--burst', type=number('--burst', _BURST), metavar='N',
        help='Requests that can come at the same instant, at most.',
    )  # fmt: skip
    group.add_argument(
        '--longest', type=reader(units.duration_s), metavar='TIME',
        help='CPU time of any request, at most, such as 2ms.',
    )  # fmt: skip


def add_overhead(parser: argparse.ArgumentParser) -> None:
    """Offer ``--overhead``."""
    parser.add_argument(
        '--overhead', default=_USUAL.overhead_us / 1e6,
        type=reader(units.delay_s), metavar='TIME',
        help='What switching takes of each runtime. Default: '
        f'{_USUAL.overhead_us:g}us.',
    )  # fmt: skip


def add_periods(parser: argparse.ArgumentParser) -> None:
    """Offer ``--min-period`` and ``--max-period``."""
    for name, default, word in (
        ('min', _USUAL.min_period_us, 'Shortest'),
        ('max', _USUAL.max_period_us, 'Longest'),
    ):
        parser.add_argument(
            f'--{name}-period', default=default, type=reader(whole_us),
            metavar='TIME',
            help=f'{word} period that the cloud allows. Default: '
            f'{units.tell_duration(default / 1e6)}.',
        )  # fmt: skip


def add_period(group: argparse._ActionsContainer) -> None:
    """Offer ``--period``."""
    group.add_argument(
        '--period', type=reader(whole_us), metavar='TIME',
        help='Take this period, such as 2ms. Default: the best one.',
    )  # fmt: skip


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Offer what bounds a reservation that is to be chosen."""
    add_period(parser)
    add_periods(parser)
    parser.add_argument(
        '--max-bandwidth', default=_USUAL.max_bandwidth,
        type=reader(bandwidth), metavar='PERCENT',
        help='The most of a CPU that a host promises, such as 95. '
        'Default: 100.',
    )  # fmt: skip
    add_overhead(parser)


def bandwidth(text: str) -> float:
    """Read a part of a CPU in percent.

    :returns: a fraction
    :raises InvalidQuantity: if it is none
    """
    return 1.0 if text in {'100', '100%'} else units.percentile(text)


def service(given: argparse.Namespace) -> services.Service:
    """Put the options of :func:`add_service` together.

    :returns: the service
    :raises InvalidQuantity: if they contradict each other, or some are
        missing
    """
    if (given.service_time is None) == (given.measured is None):
        raise exception.InvalidQuantity(
            'give either --service-time or --measured: the CPU time of a '
            'request, or a file of many'
        )
    if given.measured is not None and given.distribution:
        raise exception.InvalidQuantity(
            '--distribution is not for --measured: the file has it'
        )
    if given.measured is None and (
        given.csv_column is not None or given.csv_unit is not None
    ):
        raise exception.InvalidQuantity(
            '--csv-column and --csv-unit are for --measured'
        )
    if (given.link is None) != (given.request_size is None):
        raise exception.InvalidQuantity(
            '--link and --request-size go together'
        )
    if given.conservative and given.link is None:
        raise exception.InvalidQuantity('--conservative is for --link')
    link = None
    if given.link is not None:
        link = services.Link(
            given.link, given.request_size, given.conservative
        )
    if given.measured is not None:
        return services.Service(
            times=services.Times.MEASURED,
            samples_s=samples.read(
                given.measured, given.csv_column, given.csv_unit
            ),
            latency_s=given.latency, cpus=given.vcpus, link=link,
        )  # fmt: skip
    return services.Service(
        times=services.Times(given.distribution or 'exponential'),
        service_s=given.service_time,
        latency_s=given.latency, cpus=given.vcpus, link=link,
    )  # fmt: skip


def limits(
    given: argparse.Namespace, max_bandwidth: float = _USUAL.max_bandwidth
) -> Limits:
    """Put the options of :func:`add_choice`, or some of them, together.

    :param max_bandwidth: where there is no option for it
    :returns: the limits
    :raises InvalidQuantity: if they contradict each other
    """
    return Limits(
        getattr(given, 'min_period', _USUAL.min_period_us),
        getattr(given, 'max_period', _USUAL.max_period_us),
        getattr(given, 'max_bandwidth', max_bandwidth),
        given.overhead * 1e6,
    )


def arrivals(given: argparse.Namespace) -> guarantee.Arrivals | None:
    """Put the options of :func:`add_always` together.

    :returns: None without them
    :raises InvalidQuantity: if one is missing, or the service has more than
        one CPU
    """
    if (given.burst is None) != (given.longest is None):
        raise exception.InvalidQuantity('--burst and --longest go together')
    if given.burst is None:
        return None
    if given.vcpus > 1 or given.link is not None:
        raise exception.InvalidQuantity(
            'a bound that no request exceeds is for one vCPU without a link'
        )
    return guarantee.Arrivals.of(given.burst, given.rate, given.longest)
