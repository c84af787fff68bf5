# SPDX-License-Identifier: Apache-2.0
"""``reservation|rate|deadline|latency``: each from the others."""

import argparse
import dataclasses
from typing import Any

from nova_rt import exception
from nova_rt.cmd.model import (
    answers,
    columns,
    existing,
    links,
    options,
    question,
)
from nova_rt.model import guarantee, questions, services, sizing
from nova_rt.model.limits import Limits
from nova_rt.reservation.reservation import Reservation as Pair

# Numbers of vCPUs that are compared.
_SEVERAL = (1, 2, 3, 4, 6, 8)


class Ask(question.Question):
    """A command about one service."""

    ON_DEMAND = frozenset({'Flavor set'})

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options that describe the service."""
        options.add_service(parser)
        parser.add_argument(
            '--plot', metavar='FILE',
            help='Draw response times against reservations into a file such '
            'as x.png, x.svg or x.pdf; needs matplotlib.',
        )  # fmt: skip


def _tell(
    point: answers.Point, given: argparse.Namespace, more: dict[str, Any]
) -> dict[str, Any]:
    """Answer, and draw a plot if asked to.

    :param more: properties of the answer
    """
    said = answers.tell(point) | more
    if given.link is not None:
        said['Link'] = links.tell(
            given.link, given.request_size, point.rate_per_s, point.fraction
        )
    if given.plot is not None:
        from nova_rt.cmd.model import plot

        plot.draw(point, given.plot)
    return answers.arrange(said)


def _read(
    given: argparse.Namespace,
) -> tuple[services.Choice, float, guarantee.Arrivals | None, Limits]:
    """The model of a service, its rate, its worst arrivals, the limits."""
    limits = options.limits(given)
    choice = services.choose(options.service(given))
    rate = options.rate_per_s(given, choice.service)
    return choice, rate, options.arrivals(given, choice.service, rate), limits


def _always(
    given: argparse.Namespace,
    arrivals: guarantee.Arrivals | None,
    point: answers.Point,
) -> dict[str, Any]:
    """The bound that no request exceeds."""
    if arrivals is None:
        return {}
    try:
        longest_s = questions.longest_s(
            arrivals, point.reservation, given.latency, point.limits
        )
    except exception.Unstable as err:
        # If all of them were so long.
        return {'Never above': columns.Told(None, 'no bound', str(err))}
    return {'Never above': columns.Duration(longest_s)}


def add_needs(parser: argparse.ArgumentParser) -> None:
    """Add the needs of a service, and bounds of its reservation."""
    options.add_always(parser)
    options.add(
        parser, 'period', 'min-period', 'max-period', 'max-bandwidth',
        'overhead',
    )  # fmt: skip
    parser.add_argument(
        '--flavors', metavar='FILE',
        help='Choose among the flavors of a file as well, which openstack '
        'flavor list --long -f json prints; - for the standard input.',
    )  # fmt: skip
    parser.add_argument(
        '--compare-vcpus', action='store_true',
        help='Size for other numbers of vCPUs as well.',
    )  # fmt: skip


class Reservation(Ask):
    """Compute the reservation that a service needs.

    With --percentile, so many of its requests meet the deadline. With --burst
    and --longest and no percentile, all of them do, on a host that
    guarantees.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the needs of a service."""
        super().add_arguments(parser)
        options.add(parser, 'rate')
        options.add(parser, 'deadline', required=True)
        options.add(parser, 'percentile')
        add_needs(parser)

    def answer(self, given: argparse.Namespace) -> dict[str, Any]:
        """Choose runtime and period."""
        if given.percentile is None:
            return self._for_all(given)
        flavors = []
        if given.flavors is not None:
            flavors = existing.read(given.flavors)
        choice, rate, arrivals, limits = _read(given)
        found = sizing.size(
            choice.model, rate, given.deadline, given.percentile, limits,
            given.period,
        )  # fmt: skip
        point = answers.Point(
            choice, rate, found.reservation, given.vcpus, limits,
            given.percentile, given.deadline, found.rule,
        )  # fmt: skip
        said: dict[str, Any] = {'In time': columns.Percent(_share(point))}
        if flavors:
            said['Existing flavor'] = existing.choose(
                flavors, given.vcpus, given.percentile,
                lambda pair: _share(dataclasses.replace(
                    point, reservation=pair)),
                lambda pair: questions.max_rate_per_s(
                    choice.model, pair, given.deadline, given.percentile,
                    limits),
                rate,
            )  # fmt: skip
        if given.compare_vcpus:
            said['Other vCPUs'] = _compare(given, choice.service, rate, limits)
        return _tell(point, given, said | _always(given, arrivals, point))

    def _for_all(self, given: argparse.Namespace) -> dict[str, Any]:
        limits = options.limits(given)
        if given.burst is None or given.longest is None:
            raise exception.InvalidQuantity(
                'give --percentile, or --burst and --longest if no request '
                'may be late'
            )
        for name in ('service_time', 'measured', 'distribution', 'plot',
                     'flavors', 'compare_vcpus'):  # fmt: skip
            if getattr(given, name) not in (None, False):
                raise exception.InvalidQuantity(
                    f'--{name.replace("_", "-")} is for --percentile: if no '
                    'request may be late, only the longest counts'
                )
        service = services.Service(
            cpus=given.vcpus, polling=given.polling, link=given.link
        )
        rate = options.rate_per_s(given, service)
        arrivals = options.arrivals(given, service, rate)
        if arrivals is None:
            raise exception.InvalidQuantity('there is no such bound')
        found = sizing.size_for_all(
            arrivals, given.deadline, given.latency, limits, given.period
        )
        never_s = questions.longest_s(arrivals, found, given.latency, limits)
        said = answers.describe(found, 1) | {
            'Never above': columns.Duration(never_s),
            'Period': columns.Text(
                'It was asked for.'
                if given.period
                else 'It is the longest of those that need the least of a CPU.'
            ),
            'Model': 'token bucket',
            'How sure': columns.Text(
                'Proved: no request exceeds it, on a host that guarantees, '
                'if the requests keep to burst and rate and none takes more '
                'CPU time.'
            ),
        }
        return answers.arrange(said)


def _share(point: answers.Point) -> float:
    """The share of requests that is promised to be in time."""
    try:
        return questions.fraction(
            point.choice.model, point.reservation, point.rate_per_s,
            point.deadline_s or 0.0, point.limits,
        )  # fmt: skip
    except (exception.Unstable, exception.InvalidQuantity):
        # Or nothing is left after the overhead.
        return 0.0


def _compare(
    given: argparse.Namespace, service: services.Service, rate: float,
    limits: Limits,
) -> columns.Told:  # fmt: skip
    """Reservations of other numbers of vCPUs, with their cost."""
    found: dict[str, str | None] = {}
    lines = []
    for cpus in _SEVERAL:
        split = service.split and cpus > 1
        try:
            pair: Pair = sizing.size(
                services.choose(
                    dataclasses.replace(service, cpus=cpus, split=split)
                ).model,
                rate, given.deadline, given.percentile, limits, given.period,
            ).reservation  # fmt: skip
        except exception.Unanswerable as err:
            found[str(cpus)] = None
            text = str(err).partition(';')[0]
            lines.append(f'{cpus}: {text[:48]}' + '...' * (len(text) > 48))
            continue
        found[str(cpus)] = str(pair)
        lines.append(
            f'{cpus} x {pair}: {cpus * pair.ppm / 1e6:.3f} CPUs in all'
        )
    return columns.Told(found, *lines)


class _About(Ask):
    """A command about a reservation that is given."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Offer the reservation."""
        super().add_arguments(parser)
        options.add(parser, 'reservation', required=True)
        options.add(parser, 'overhead')


class Rate(_About):
    """Compute the rate of requests that a reservation bears."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the needs of a service."""
        super().add_arguments(parser)
        options.add(parser, 'deadline', 'percentile', required=True)

    def answer(self, given: argparse.Namespace) -> dict[str, Any]:
        """Find the highest rate."""
        choice = services.choose(options.service(given))
        if choice.service.instants_s:
            # It checks the file. The answer is for its requests, faster.
            options.rate_per_s(argparse.Namespace(rate=None), choice.service)
        limits = options.limits(given)
        found = questions.max_rate_per_s(
            choice.model, given.reservation, given.deadline,
            given.percentile, limits,
        )  # fmt: skip
        point = answers.Point(
            choice, found, given.reservation, given.vcpus, limits,
            given.percentile, given.deadline,
        )  # fmt: skip
        return _tell(point, given, {'Rate': columns.Rate(found)})


class Deadline(_About):
    """Compute the deadline that a reservation can promise."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the needs of a service."""
        super().add_arguments(parser)
        options.add(parser, 'rate')
        options.add(parser, 'percentile', required=True)
        options.add_always(parser)

    def answer(self, given: argparse.Namespace) -> dict[str, Any]:
        """Find the shortest deadline."""
        choice, rate, arrivals, limits = _read(given)
        found = questions.min_deadline_s(
            choice.model, given.reservation, rate, given.percentile, limits
        )
        point = answers.Point(
            choice, rate, given.reservation, given.vcpus, limits,
            given.percentile, found,
        )  # fmt: skip
        said = {'Deadline': columns.Deadline(found)}
        return _tell(point, given, said | _always(given, arrivals, point))


class Latency(_About):
    """Compute the response times of a service."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the questions about them."""
        super().add_arguments(parser)
        options.add(parser, 'rate', 'percentile', 'deadline')
        options.add_always(parser)

    def answer(self, given: argparse.Namespace) -> dict[str, Any]:
        """Find mean and percentiles, and how many meet a deadline."""
        choice, rate, arrivals, limits = _read(given)
        point = answers.Point(
            choice, rate, given.reservation, given.vcpus, limits,
            given.percentile, given.deadline,
        )  # fmt: skip
        said = _always(given, arrivals, point)
        if given.deadline is not None:
            promised = questions.fraction(
                choice.model, given.reservation, rate, given.deadline, limits
            )
            said['In time'] = columns.Percent(promised)
        return _tell(point, given, said)
