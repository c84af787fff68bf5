# SPDX-License-Identifier: Apache-2.0
"""The interface of a law, and the samples that it decides by."""

from typing import NamedTuple, Protocol

#: Seconds between two samples.
SAMPLE_S = 0.1
#: Samples between two regular decisions, one second.
DECIDE = 10
#: Samples that a law remembers.
WINDOW = 50


class Sample(NamedTuple):
    """The use of a reservation since the sample before.

    On the busiest CPU, since the runtime is the same on each.

    :ivar used: bandwidth, in CPUs
    :ivar exhausted: whether the server has used all that it was given
    """

    used: float
    exhausted: bool


class Law(Protocol):
    """Decides the bandwidth of one server; bounds are the caller's."""

    def step(self, sample: Sample, limit: float) -> float:
        """Take a sample.

        :param limit: the present bandwidth of the server on a CPU, in CPUs,
            set by this law or not
        :returns: the bandwidth that it should have
        """

    def reset(self) -> None:
        """Forget all samples: there is a gap after them."""
