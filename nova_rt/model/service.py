# SPDX-License-Identifier: Apache-2.0
"""Known properties of a service and of its requests."""

from collections.abc import Sequence
import dataclasses
import math

from nova_rt.model import guarantee


@dataclasses.dataclass(frozen=True)
class Link:
    """A shaped link in front of a service.

    :ivar bit_per_s: the rate to which it is shaped
    :ivar size_bit: mean size of a request with its headers
    :ivar conservative: take the papers' bound, not the exact percentile
    """

    bit_per_s: float
    size_bit: float
    conservative: bool = False


@dataclasses.dataclass(frozen=True)
class Service:
    """Known properties of a service, and of its requests.

    CPU times are exponential, unless they are constant or measured. Requests
    come at random instants, unless they are periodic or recorded.

    :ivar service_s: mean CPU time of a request, at full speed; unless there
        are samples
    :ivar constant: whether all take this time
    :ivar samples_s: CPU times that were measured
    :ivar latency_s: one way
    :ivar cpus: vCPUs, each with a worker
    :ivar split: whether each vCPU has a queue of its own
    :ivar polling: whether the workers never sleep
    :ivar link: None where the network does not matter
    :ivar periodic: whether requests, or batches, come evenly
    :ivar jitter_s: the most that one of these can be late
    :ivar batch: requests that come together
    :ivar instants_s: recorded ones, as many as samples if there are any
    """

    service_s: float = 0.0
    constant: bool = False
    samples_s: Sequence[float] = ()
    latency_s: float = 0.0
    cpus: int = 1
    split: bool = False
    polling: bool = False
    link: Link | None = None
    periodic: bool = False
    jitter_s: float = 0.0
    batch: int = 1
    instants_s: Sequence[float] = ()

    @property
    def paired(self) -> bool:
        """Whether each recorded instant has its own CPU time."""
        return bool(self.instants_s and self.samples_s)

    @property
    def poisson(self) -> bool:
        """Whether requests, or batches, come at random."""
        return not (self.periodic or self.instants_s)

    @property
    def even(self) -> bool:
        """Whether nothing about the requests of a CPU is random."""
        same = self.periodic and self.constant and not self.jitter_s
        return same and not self.split

    @property
    def exponential(self) -> bool:
        """Whether CPU times are exponential."""
        return not (self.constant or self.samples_s)

    def worst(self, rate_per_s: float, longest_s: float) -> guarantee.Arrivals:
        """The token bucket that periodic requests keep to.

        Batches of N in periods of T, late by at most J: in any interval t
        there are at most N (1 + (t + J)/T).

        :returns: the arrivals
        :raises InvalidQuantity: for invalid quantities
        """
        late = math.ceil(self.jitter_s * rate_per_s / self.batch)
        return guarantee.Arrivals.of(
            self.batch * (1 + late), rate_per_s, longest_s
        )
