# SPDX-License-Identifier: Apache-2.0
"""``simulate``: the scheduler itself, beside the model's values."""

import argparse
import dataclasses
from typing import Any

from nova_rt import exception
from nova_rt.cmd.model import columns, options, question, requests, samples
from nova_rt.model import services, sizing, units
from nova_rt.model.limits import Limits
from nova_rt.reservation import spec_values
from nova_rt.reservation.reservation import Reservation

_PERCENTILES = (0.5, 0.9, 0.99, 0.999)
_REQUESTS = spec_values.Number(requests.FEWEST, 10_000_000)
_SEED = spec_values.Number(0, 10**9)
# Neighbours take ten times as long to simulate.
_ALONE, _BESIDE = 1_000_000, 100_000


@dataclasses.dataclass(frozen=True)
class _Asked:
    """A service to simulate, and what the model says of it.

    :ivar proved: the theorem is about each CPU
    :ivar ahead_s: what the link's bucket holds, at the rate of the link
    """

    service: services.Service
    choice: services.Choice
    rate_per_s: float
    instants_s: list[float] | None
    expected: sizing.Sizing
    proved: bool
    ahead_s: float

    @classmethod
    def of(cls, given: argparse.Namespace) -> '_Asked':
        """Put the options together.

        :raises Unanswerable: if it is not stable
        """
        service = options.service(given)
        instants_s = requests.read(given)
        rate_per_s = given.rate or requests.rate_per_s(instants_s or [])
        choose = services.choose_split if given.split else services.choose
        choice = choose(service)
        expected = sizing.expect(
            choice.model, rate_per_s, 0.99, given.reservation,
            Limits(overhead_us=0),
        )  # fmt: skip
        bucket_bit = given.bucket or requests.FRAME_BIT
        return cls(
            service, choice, rate_per_s, instants_s, expected,
            proved=given.split or service.cpus == 1,
            ahead_s=bucket_bit / given.link if given.link else 0.0,
        )  # fmt: skip


class Simulate(question.Question):
    """Simulate the scheduler of a host, and say how far the model is off.

    A hard CBS with the wake-up rule of Linux on each CPU; nothing is taken off
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
        options.add_service(parser)
        parser.add_argument(
            '--split', action='store_true',
            help='Let each vCPU have a queue of its own, and each request go '
            'to one of them at random. Default: one queue for all.',
        )  # fmt: skip
        parser.add_argument(
            '--bucket', type=options.reader(units.size_bit), metavar='SIZE',
            help='Token bucket of the link, which drops nothing. Default: '
            f'one frame, {requests.FRAME_BIT // 8}B.',
        )  # fmt: skip
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
        return parser

    def answer(self, given: argparse.Namespace) -> question.Answer:
        """Simulate.

        :returns: properties and their values
        """
        _check(given)
        # Before the time is spent: it may not be stable.
        asked = _Asked.of(given)
        choice, cpus = asked.choice, asked.service.cpus
        capacity_per_s = choice.model.capacity_per_s(asked.expected.bandwidth)
        said: dict[str, Any] = {
            'Reservation': str(given.reservation),
            'Load': columns.Share(asked.rate_per_s / capacity_per_s),
            'Place': _place(given),
            'vCPUs': cpus,
            'Queue': _queue(given),
            'Link': _link(asked),
        }
        said |= self._run(given, asked)
        said['Model'] = choice.name
        return tuple(said), tuple(said.values())

    def _run(self, given: argparse.Namespace, asked: _Asked) -> dict[str, Any]:
        # Here, because only this command needs numpy.
        from nova_rt.model import confidence, judged

        count = given.requests or (_BESIDE if given.beside else _ALONE)
        drawn = requests.draw(
            asked.service, asked.instants_s or (asked.rate_per_s, count),
            given.seed, asked.ahead_s, given.split,
        )  # fmt: skip
        place = judged.Place(given.late, tuple(given.beside or ()))
        there_ns, works_ns = drawn.there_ns, drawn.works_ns
        latest_ns = None
        if drawn.chosen is not None:
            done_ns, latest_ns = judged.run_split(
                given.reservation, place, there_ns, works_ns, drawn.chosen
            )
        else:
            done_ns = judged.run(
                given.reservation, place, there_ns, works_ns,
                asked.service.cpus,
            )  # fmt: skip
            if asked.proved:
                latest_ns = judged.latest_ns(
                    given.reservation, there_ns.tolist(), works_ns.tolist(),
                    done_ns.tolist(),
                )  # fmt: skip
        times_s = (done_ns - drawn.sent_ns) / 1e9
        times_s += 2 * asked.service.latency_s
        expected, model = asked.expected, asked.choice.model
        gap_s = expected.gap_s if asked.proved else None
        said: dict[str, Any] = {
            'Requests': len(times_s),
            'Seed': given.seed,
            'Mean': _beside(
                confidence.mean(times_s, confidence.T_95), expected.mean_s,
                gap_s,
            ),
        }  # fmt: skip
        highest = confidence.highest_fraction(len(times_s))
        for each in _PERCENTILES:
            name = f'p{units.tell_percentile(each)}'
            said[name] = None
            if each <= highest:
                said[name] = _beside(
                    confidence.percentile(times_s, each, confidence.T_95),
                    model.percentile_s(
                        asked.rate_per_s, expected.bandwidth, each
                    ),
                    gap_s,
                )
        said['Latest'] = None
        if latest_ns is not None:
            alone = not (given.late or given.beside)
            said['Latest'] = self._latest(
                float(latest_ns) / 1e9, 0.0 if alone else expected.gap_s
            )
        return said

    def _latest(self, latest_s: float, allowed_s: float) -> columns.Told:
        """Write the bound of the theorem, and whether it was kept."""
        if latest_s > allowed_s + 1e-12:
            self.exit_code = 1
        return columns.Told(
            {
                'After fluid': latest_s,
                'Allowed': allowed_s,
                'Within': not self.exit_code,
            },
            f'{_signed(latest_s)} the fluid CPU with the same requests,',
            f'{_signed(latest_s - allowed_s)} what the theorem allows',
        )


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
        (
            given.split and given.vcpus == 1,
            '--split is for several --vcpus',
        ),
        (
            given.beside and given.vcpus > 1 and not given.split,
            'no simulation covers --beside with several vCPUs that share a '
            'queue: give --split as well, or --late instead',
        ),
        (given.bucket and given.link is None, '--bucket is for --link'),
    ):
        if wrong:
            raise exception.InvalidQuantity(text)


def _place(given: argparse.Namespace) -> str:
    if given.beside:
        return f'beside {", ".join(map(str, given.beside))}'
    return 'late' if given.late else 'alone'


def _queue(given: argparse.Namespace) -> str | None:
    if given.vcpus == 1:
        return None
    if given.split:
        return 'one for each vCPU, chosen at random'
    return 'one for all vCPUs'


def _link(asked: _Asked) -> columns.Told | None:
    """Write the load of the link, and how far its bucket is ahead."""
    if not asked.choice.link_s:
        return None
    load = asked.rate_per_s * asked.choice.link_s
    return columns.Told(
        {'Load': load, 'Ahead': asked.ahead_s},
        f'load {load:.3f}, by its bucket up to '
        f'{units.tell_duration(asked.ahead_s)} ahead of the model',
    )


def _signed(seconds: float) -> str:
    word = 'before' if seconds < 0 else 'after'
    shown = units.tell_duration(abs(seconds)) if seconds else '0 s'
    return f'{shown} {word}'


def _beside(found: Any, model_s: float, gap_s: float | None) -> columns.Told:
    """A simulated number with its interval, and the model's.

    :param gap_s: P - Q; None where nothing is proved
    """
    tell = units.tell_duration
    safe_s = None if gap_s is None else model_s + gap_s
    safe = '' if safe_s is None else f', safe {tell(safe_s)}'
    return columns.Told(
        {
            'Simulated': found.value,
            'Low': found.low,
            'High': found.high,
            'Model': model_s,
            'Safe': safe_s,
        },
        f'{tell(found.value)} +- {tell(found.half_width)}, '
        f'model {tell(model_s)}{safe}',
    )
