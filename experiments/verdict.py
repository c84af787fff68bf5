# SPDX-License-Identifier: Apache-2.0
"""One bound that is stated, and what was found."""

from collections.abc import Callable, Sequence
import dataclasses

from experiments import noises
from experiments.description import Point
from experiments.evaluate import Result


@dataclasses.dataclass(frozen=True)
class Verdict:
    """A bound that was looked at.

    :ivar what: a sentence
    :ivar found: the worst number that was found, in words
    :ivar points: what each point has, a line for each
    """

    what: str
    found: str
    holds: bool
    points: tuple[str, ...] = ()


def reserved(result: Result) -> bool:
    """Whether the kernel guarantees something here."""
    return bool(result.point.bandwidth) and result.point.kernel == 'hcbs'


def quiet(result: Result) -> bool:
    """Whether it does and nothing else is on the CPU."""
    return reserved(result) and result.point.noise == noises.NONE


def describe(point: Point) -> str:
    """A point in a few words."""
    words = [
        f'Q/P {point.bandwidth:g}, P {point.period_us / 1e3:g} ms',
        f'LDR {point.cpu_load / point.bandwidth:.3f}',
        f'1/lambda {point.inter_arrival_us / 1e3:g} ms',
    ]
    if point.link_bit_per_s:
        words.append(
            f'{point.size_is} {point.size_bytes:g} bytes at '
            f'{point.link_bit_per_s / 1e6:.4g} Mbit/s'
        )
    if point.cpus > 1:
        words.append(f'{point.cpus} CPUs')
    if point.noise != noises.NONE:
        words.append(f'beside {noises.KINDS[point.noise].words}')
    return ', '.join(words)


def each(
    results: Sequence[Result], words: Callable[[Result], str]
) -> tuple[str, ...]:
    """A line for each point, of what it has."""
    return tuple(f'{describe(one.point)}: {words(one)}' for one in results)


def beyond(results: Sequence[Result]) -> str:
    """How many requests were later than the theorem allows."""
    late = sum(one.beyond for one in results)
    return f'{late} of {sum(one.count for one in results)} requests'
