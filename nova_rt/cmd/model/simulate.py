# SPDX-License-Identifier: Apache-2.0
"""``simulate``: the scheduler itself, beside the model's values."""

import argparse
import itertools
from typing import TYPE_CHECKING, Any

from nova_rt import exception, spec_values
from nova_rt.cmd.model import columns, options, question, samples
from nova_rt.model import services, sizing, units
from nova_rt.model.limits import Limits
from nova_rt.reservation import Reservation

if TYPE_CHECKING:
    from nova_rt.model.schedule import Nanoseconds

_PERCENTILES = (0.5, 0.9, 0.99, 0.999)
# Fewer requests have no confidence interval.
_REQUESTS = spec_values.Number(3_100, 10_000_000)
_SEED = spec_values.Number(0, 10**9)
# Neighbours take ten times as long to simulate.
_ALONE, _BESIDE = 1_000_000, 100_000


class Simulate(question.Question):
    """Simulate the scheduler of a host, and say how far the model is off.

    One CPU, a hard CBS with the wake-up rule of Linux; nothing is taken off
    for switching. The exit code is 1 if a request was later than the theorem
    allows, which is a fault of this program.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Offer what is to be simulated.

        :returns: the parser
        """
        parser = super().get_parser(prog_name)
        options.add_reservation(parser)
        parser.add_argument(
            '--rate', type=options.reader(units.rate_per_s), metavar='RATE',
            help='Of requests that come at random, such as 500/s.',
        )  # fmt: skip
        parser.add_argument(
            '--arrivals', metavar='CSV',
            help='Take the instants at which they come from a file instead, '
            'with one in each line.',
        )  # fmt: skip
        parser.add_argument(
            '--arrivals-unit', choices=samples.UNITS,
            help='Of instants without one.',
        )  # fmt: skip
        options.add_times(parser.add_argument_group('service'))
        parser.add_argument(
            '--late', action='store_true',
            help='Have each budget as late as earliest deadline first allows. '
            'Default: be alone on the CPU.',
        )  # fmt: skip
        parser.add_argument(
            '--beside', action='append',
            type=options.reader(Reservation.parse), metavar='Q/P',
            help='Be beside a neighbour that never sleeps; can be there '
            'several times.',
        )  # fmt: skip
        parser.add_argument(
            '--requests', type=options.number('--requests', _REQUESTS),
            metavar='N',
            help=f'How many. Default: {_ALONE}, or {_BESIDE} with --beside.',
        )  # fmt: skip
        parser.add_argument(
            '--seed', default=1, type=options.number('--seed', _SEED),
            metavar='N',
            help='Of the random numbers. Default: 1.',
        )  # fmt: skip
        # What a service can have elsewhere.
        parser.set_defaults(
            vcpus=1, link=None, request_size=None, conservative=False
        )
        return parser

    def answer(self, given: argparse.Namespace) -> question.Answer:
        """Simulate.

        :returns: properties and their values
        """
        _check(given)
        service = options.service(given)
        arrivals = None
        if given.arrivals is not None:
            arrivals = samples.read(
                given.arrivals, None, given.arrivals_unit, zero=True
            )
        rate_per_s = given.rate or _rate_per_s(arrivals or [])
        choice = services.choose(service)
        # Before the time is spent: it may not be stable.
        expected = sizing.expect(
            choice.model, rate_per_s, 0.99, given.reservation,
            Limits(overhead_us=0),
        )  # fmt: skip
        said: dict[str, Any] = {
            'Reservation': str(given.reservation),
            'Load': columns.Share(
                rate_per_s / choice.model.capacity_per_s(expected.bandwidth)
            ),
            'Place': _place(given),
        }
        said |= self._run(given, service, arrivals, rate_per_s, expected)
        said['Model'] = choice.name
        return tuple(said), tuple(said.values())

    def _run(
        self,
        given: argparse.Namespace,
        service: services.Service,
        arrivals_s: list[float] | None,
        rate_per_s: float,
        expected: sizing.Sizing,
    ) -> dict[str, Any]:
        # Here, because only this command needs numpy.
        import numpy

        from nova_rt.model import confidence, judged, simulation

        rng = numpy.random.default_rng(given.seed)
        if arrivals_s is None:
            count = given.requests or (_BESIDE if given.beside else _ALONE)
            come = simulation.poisson_ns(rate_per_s, count, rng)
        else:
            come = _instants_ns(arrivals_s)
        works = _works_ns(service, len(come), rng)
        place = judged.Place(given.late, tuple(given.beside or ()))
        done = judged.run(given.reservation, place, come, works)
        latest_s = (
            float(
                judged.latest_ns(
                    given.reservation, come.tolist(), works.tolist(),
                    done.tolist(),
                )
            )
            / 1e9
        )  # fmt: skip
        alone = not (given.late or given.beside)
        allowed_s = 0.0 if alone else expected.gap_s
        if latest_s > allowed_s + 1e-12:
            self.exit_code = 1
        times_s = (done - come) / 1e9 + 2 * service.latency_s
        model = services.choose(service).model
        said: dict[str, Any] = {
            'Requests': len(come),
            'Seed': given.seed,
            'Mean': _beside(
                confidence.mean(times_s, confidence.T_95), expected.mean_s,
                expected.gap_s,
            ),
        }  # fmt: skip
        highest = confidence.highest_fraction(len(come))
        for each in _PERCENTILES:
            name = f'p{units.tell_percentile(each)}'
            said[name] = None
            if each <= highest:
                said[name] = _beside(
                    confidence.percentile(times_s, each, confidence.T_95),
                    model.percentile_s(rate_per_s, expected.bandwidth, each),
                    expected.gap_s,
                )
        said['Latest'] = columns.Told(
            {
                'After fluid': latest_s,
                'Allowed': allowed_s,
                'Within': not self.exit_code,
            },
            f'{_signed(latest_s)} the fluid CPU with the same requests,',
            f'{_signed(latest_s - allowed_s)} what the theorem allows',
        )
        return said


def _check(given: argparse.Namespace) -> None:
    """Refuse options that contradict each other.

    :raises InvalidQuantity: if some do
    """
    for wrong, text in (
        (
            (given.rate is None) == (given.arrivals is None),
            'give either --rate or --arrivals',
        ),
        (
            given.arrivals_unit and given.arrivals is None,
            '--arrivals-unit is for --arrivals',
        ),
        (
            given.requests and given.arrivals is not None,
            '--requests is not for --arrivals: the file has them all',
        ),
        (
            given.late and given.beside,
            'give either --late or --beside: the place of a budget, or the '
            'neighbours that decide it',
        ),
    ):
        if wrong:
            raise exception.InvalidQuantity(text)


def _rate_per_s(instants_s: list[float]) -> float:
    """Of a trace.

    :raises InvalidQuantity: if it is none
    """
    if len(instants_s) < _REQUESTS.minimum:
        raise exception.InvalidQuantity(
            f'{len(instants_s)} requests are too few: there must be at least '
            f'{_REQUESTS.minimum}'
        )
    for line, (one, other) in enumerate(itertools.pairwise(instants_s), 2):
        if other < one:
            raise exception.InvalidQuantity(
                f'instant {line} is before the one in front of it'
            )
    length_s = instants_s[-1] - instants_s[0]
    if not 0 < length_s <= 4e9:
        raise exception.InvalidQuantity(
            f'the instants are within {length_s:g} s: it must be above 0, '
            'and less than a century'
        )
    return (len(instants_s) - 1) / length_s


def _instants_ns(instants_s: list[float]) -> 'Nanoseconds':
    import numpy

    since_s = numpy.array(instants_s) - instants_s[0]
    found: Nanoseconds = (since_s * 1e9).astype(numpy.int64)
    return found


def _works_ns(
    service: services.Service, count: int, rng: Any
) -> 'Nanoseconds':
    from nova_rt.model import simulation

    if service.times is services.Times.MEASURED:
        return simulation.drawn_ns(service.samples_s, count, rng)
    if service.times is services.Times.CONSTANT:
        return simulation.constant_ns(service.service_s, count)
    return simulation.exponential_ns(service.service_s, count, rng)


def _place(given: argparse.Namespace) -> str:
    if given.beside:
        return f'beside {", ".join(map(str, given.beside))}'
    return 'late' if given.late else 'alone'


def _signed(seconds: float) -> str:
    word = 'before' if seconds < 0 else 'after'
    shown = units.tell_duration(abs(seconds)) if seconds else '0 s'
    return f'{shown} {word}'


def _beside(found: Any, model_s: float, gap_s: float) -> columns.Told:
    """A simulated number with its interval, and the model's."""
    tell = units.tell_duration
    return columns.Told(
        {
            'Simulated': found.value,
            'Low': found.low,
            'High': found.high,
            'Model': model_s,
            'Safe': model_s + gap_s,
        },
        f'{tell(found.value)} +- {tell(found.half_width)}, '
        f'model {tell(model_s)}, safe {tell(model_s + gap_s)}',
    )
