# SPDX-License-Identifier: Apache-2.0
"""The requests of a simulation: from a file, or drawn."""

import argparse
import dataclasses
import itertools
from typing import TYPE_CHECKING

from nova_rt import exception
from nova_rt.cmd.model import samples
from nova_rt.model import services, tandem

if TYPE_CHECKING:
    import numpy

    from nova_rt.model.schedule import Nanoseconds

#: Fewer have no confidence interval: that of confidence.py, which loads numpy.
FEWEST = 3_100
#: The least size of a token bucket, in bits: one frame.
FRAME_BIT = 8 * 1514
# As long as any run.
_MOST_NS = 4e18


@dataclasses.dataclass(frozen=True)
class Requests:
    """Requests, in order.

    :ivar sent_ns: when clients send them
    :ivar there_ns: when they are at the server: behind the link, if there is
        one; the latency is no part of it
    :ivar works_ns: CPU times
    :ivar chosen: the vCPU of each; None if one queue is for all
    """

    sent_ns: 'Nanoseconds'
    there_ns: 'Nanoseconds'
    works_ns: 'Nanoseconds'
    chosen: 'numpy.typing.NDArray[numpy.int64] | None'


def read(given: argparse.Namespace) -> list[float] | None:
    """Read the instants of ``--arrivals``.

    :returns: seconds; None without the option
    """
    if given.arrivals is None:
        return None
    return samples.read(given.arrivals, None, given.arrivals_unit, zero=True)


def rate_per_s(instants_s: list[float]) -> float:
    """The rate of instants from a file.

    :returns: requests/s
    :raises InvalidQuantity: if they are no requests in order
    """
    if len(instants_s) < FEWEST:
        raise exception.InvalidQuantity(
            f'{len(instants_s)} requests are too few: there must be at least '
            f'{FEWEST}'
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


def draw(
    service: services.Service,
    come: list[float] | tuple[float, int],
    seed: int,
    ahead_s: float,
    split: bool,
) -> Requests:
    """Draw what is not given.

    :param come: instants in seconds, or the rate and the number of requests
    :param ahead_s: what the link's bucket holds, at the rate of the link
    :param split: each vCPU has a queue of its own
    :returns: the same requests for the same seed
    """
    # Here, because only this needs numpy.
    import numpy

    from nova_rt.model import simulation

    rng = numpy.random.default_rng(seed)
    if isinstance(come, tuple):
        sent_ns = simulation.poisson_ns(*come, rng)
    else:
        since_s = numpy.array(come) - come[0]
        sent_ns = (since_s * 1e9).astype(numpy.int64)
    count = len(sent_ns)
    if service.times is services.Times.MEASURED:
        works_ns = simulation.drawn_ns(service.samples_s, count, rng)
    elif service.times is services.Times.CONSTANT:
        works_ns = simulation.constant_ns(service.service_s, count)
    else:
        works_ns = simulation.exponential_ns(service.service_s, count, rng)
    there_ns = sent_ns
    if service.link is not None:
        times_ns = simulation.exponential_ns(
            tandem.transmission_s(
                service.link.size_bit, service.link.bit_per_s
            ),
            count,
            rng,
        )
        ahead_ns = int(min(ahead_s * 1e9, _MOST_NS))
        there_ns = simulation.through_link_ns(sent_ns, times_ns, ahead_ns)
    chosen = rng.integers(service.cpus, size=count) if split else None
    return Requests(sent_ns, there_ns, works_ns, chosen)
