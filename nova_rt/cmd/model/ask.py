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

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options that describe the service.

        :returns: the parser
        """
        parser = super().get_parser(prog_name)
        options.add_service(parser)
        parser.add_argument(
            '--plot', metavar='FILE',
            help='Draw response times against reservations into a file such '
            'as x.png, x.svg or x.pdf; needs matplotlib.',
        )  # fmt: skip
        return parser

    def tell(
        self,
        point: answers.Point,
        given: argparse.Namespace,
        first: dict[str, Any] | None = None,
        last: dict[str, Any] | None = None,
    ) -> question.Answer:
        """Answer, and draw a plot if asked to.

        :param first: properties of the answer
        :param last: further properties
        :returns: properties and their values
        """
        said = (first or {}) | answers.tell(point) | (last or {})
        if given.link is not None:
            said['Link'] = links.tell(
                given.link, given.request_size, point.rate_per_s,
                point.fraction,
            )  # fmt: skip
        said = answers.arrange(said)
        if given.plot is not None:
            from nova_rt.cmd.model import plot

            plot.draw(point, given.plot)
        return tuple(said), tuple(said.values())


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
    options.add_choice(parser)
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

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the needs of a service.

        :returns: the parser
        """
        parser = super().get_parser(prog_name)
        options.add_rate(parser)
        options.add_deadline(parser)
        options.add_percentile(parser, required=False)
        add_needs(parser)
        return parser

    def answer(self, given: argparse.Namespace) -> question.Answer:
        """Choose runtime and period.

        :returns: properties and their values
        """
        if given.percentile is None:
            return self._for_all(given, options.limits(given))
        said = self.size(given)
        return tuple(said), tuple(said.values())

    def size(self, given: argparse.Namespace) -> dict[str, Any]:
        """Choose runtime and period for a percentile.

        :returns: properties and their values
        """
        limits = options.limits(given)
        flavors = []
        if given.flavors is not None:
            flavors = existing.read(given.flavors)
        choice = services.choose(options.service(given))
        rate = options.rate_per_s(given, choice.service)
        arrivals = options.arrivals(given, choice.service, rate)
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
        names, shown = self.tell(
            point, given, None, said | _always(given, arrivals, point)
        )
        return dict(zip(names, shown, strict=True))

    def _for_all(
        self, given: argparse.Namespace, limits: Limits
    ) -> question.Answer:
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
        said = answers.arrange(said)
        return tuple(said), tuple(said.values())


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

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Offer the reservation.

        :returns: the parser
        """
        parser = super().get_parser(prog_name)
        options.add_reservation(parser)
        options.add_overhead(parser)
        return parser


class Rate(_About):
    """Compute the rate of requests that a reservation bears."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the needs of a service.

        :returns: the parser
        """
        parser = super().get_parser(prog_name)
        options.add_deadline(parser)
        options.add_percentile(parser)
        return parser

    def answer(self, given: argparse.Namespace) -> question.Answer:
        """Find the highest rate.

        :returns: properties and their values
        """
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
        return self.tell(point, given, {'Rate': columns.Rate(found)})


class Deadline(_About):
    """Compute the deadline that a reservation can promise."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the needs of a service.

        :returns: the parser
        """
        parser = super().get_parser(prog_name)
        options.add_rate(parser)
        options.add_percentile(parser)
        options.add_always(parser)
        return parser

    def answer(self, given: argparse.Namespace) -> question.Answer:
        """Find the shortest deadline.

        :returns: properties and their values
        """
        choice = services.choose(options.service(given))
        rate = options.rate_per_s(given, choice.service)
        arrivals = options.arrivals(given, choice.service, rate)
        limits = options.limits(given)
        found = questions.min_deadline_s(
            choice.model, given.reservation, rate, given.percentile,
            limits,
        )  # fmt: skip
        point = answers.Point(
            choice, rate, given.reservation, given.vcpus, limits,
            given.percentile, found,
        )  # fmt: skip
        return self.tell(
            point, given, {'Deadline': columns.Deadline(found)},
            _always(given, arrivals, point),
        )  # fmt: skip


class Latency(_About):
    """Compute the response times of a service."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the questions about them.

        :returns: the parser
        """
        parser = super().get_parser(prog_name)
        options.add_rate(parser)
        options.add_percentile(parser, required=False)
        options.add_deadline(parser, required=False)
        options.add_always(parser)
        return parser

    def answer(self, given: argparse.Namespace) -> question.Answer:
        """Find mean and percentiles, and how many meet a deadline.

        :returns: properties and their values
        """
        choice = services.choose(options.service(given))
        rate = options.rate_per_s(given, choice.service)
        arrivals = options.arrivals(given, choice.service, rate)
        limits = options.limits(given)
        point = answers.Point(
            choice, rate, given.reservation, given.vcpus, limits,
            given.percentile, given.deadline,
        )  # fmt: skip
        said: dict[str, Any] = {}
        if given.deadline is not None:
            promised = questions.fraction(
                choice.model, given.reservation, rate, given.deadline,
                limits,
            )  # fmt: skip
            said['In time'] = columns.Percent(promised)
        return self.tell(
            point, given, None, said | _always(given, arrivals, point)
        )
