# SPDX-License-Identifier: Apache-2.0
"""``simulate``: the scheduler itself, beside the model's values."""

import argparse
import dataclasses
from typing import Any

from nova_rt import exception
from nova_rt.cmd.model import columns, options, question
from nova_rt.model import services, sizing, units
from nova_rt.model.limits import Limits
from nova_rt.reservation import spec_values
from nova_rt.reservation.reservation import Reservation

_PERCENTILES = (0.5, 0.9, 0.99, 0.999)
# Fewer have no confidence interval: that of confidence.py, which loads numpy.
_FEWEST = 3_100
_REQUESTS = spec_values.Number(_FEWEST, 10_000_000)
# The least size of a token bucket, in bits: one frame.
_FRAME_BIT = 8 * 1514
# As long as any run.
_MOST_NS = 4e18
_SEED = spec_values.Number(0, 10**9)
# Neighbours take ten times as long to simulate.
_ALONE, _BESIDE = 1_000_000, 100_000


@dataclasses.dataclass(frozen=True)
class _Asked:
    """A service to simulate, and its model.

    :ivar proved: the theorem is about each CPU
    :ivar ahead_s: the link's bucket, at the rate of the link
    """

    service: services.Service
    choice: services.Choice
    rate_per_s: float
    expected: sizing.Sizing
    proved: bool
    ahead_s: float

    @classmethod
    def of(cls, given: argparse.Namespace) -> '_Asked':
        """Put the options together.

        :raises Unanswerable: if it is not stable
        """
        service = options.service(given)
        rate_per_s = options.rate_per_s(given, service)
        choice = services.choose(service)
        expected = sizing.expect(
            choice.model, rate_per_s, 0.99, given.reservation,
            Limits(overhead_us=0),
        )  # fmt: skip
        bucket_bit = given.bucket or _FRAME_BIT
        return cls(
            service, choice, rate_per_s, expected,
            proved=service.split or service.cpus == 1,
            ahead_s=bucket_bit / given.link if given.link else 0.0,
        )  # fmt: skip


class Simulate(question.Question):
    """Simulate the scheduler of a host, and say how far the model is off.

    A hard CBS with the wake-up rule of Linux on each CPU; nothing is taken off
    for switching. The exit code is 1 if a request was later than the theorem
    allows, which is a fault of this program.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options of the simulation."""
        options.add(parser, 'reservation', required=True)
        options.add(parser, 'rate')
        options.add_service(parser)
        parser.add_argument(
            '--bucket', type=options.reader(units.size_bit), metavar='SIZE',
            help='Token bucket of the link, which drops nothing. Default: '
            f'one frame, {_FRAME_BIT // 8}B.',
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

    def answer(self, given: argparse.Namespace) -> dict[str, Any]:
        """Simulate."""
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
        return said | self._run(given, asked) | {'Model': choice.name}

    def _run(self, given: argparse.Namespace, asked: _Asked) -> dict[str, Any]:
        # Here, because only these commands need numpy.
        import numpy

        from nova_rt.model import confidence, judged, simulation, trace

        count = given.requests or (_BESIDE if given.beside else _ALONE)
        drawn = trace.draw(asked.service, count, given.seed)
        sent_ns = simulation.whole_ns(drawn.instants_s(asked.rate_per_s))
        works_ns = numpy.maximum(simulation.whole_ns(drawn.works_s), 1)
        there_ns = sent_ns
        if asked.choice.link_s:
            times_ns = simulation.exponential_ns(
                asked.choice.link_s, len(sent_ns),
                numpy.random.default_rng(given.seed + 1),
            )  # fmt: skip
            ahead_ns = int(min(asked.ahead_s * 1e9, _MOST_NS))
            there_ns = simulation.through_link_ns(sent_ns, times_ns, ahead_ns)
        place = judged.Place(given.late, tuple(given.beside or ()))
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
        times_s = (done_ns - sent_ns) / 1e9
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
            given.requests
            and given.arrivals not in {options.POISSON, options.PERIODIC},
            '--requests is not for a file: it has them all',
        ),
        (
            given.polling,
            '--polling is not simulated: the deadline server here sleeps',
        ),
        (
            given.late and given.beside,
            'give either --late or --beside: the place of a budget, or the '
            'neighbours that decide it',
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
