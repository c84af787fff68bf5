# SPDX-License-Identifier: Apache-2.0
"""A group of servers behind a load balancer."""

from collections.abc import Iterator, Sequence
import dataclasses
import math

from nova_rt import exception
from nova_rt.model import inputs
from nova_rt.model.response import ResponseTime


@dataclasses.dataclass(frozen=True)
class Member:
    """Servers of a group that are the same.

    :ivar server: the model of each
    :ivar number: number of them
    :ivar weight: relative frequency with which the balancer chooses each
    """

    server: ResponseTime
    number: int = 1
    weight: float = 1.0

    def __post_init__(self) -> None:
        inputs.whole('the number of servers', self.number)
        inputs.positive('the weight of a server', self.weight)


class Balanced(ResponseTime):
    """Each request goes to one server of a group, chosen at random.

    Source: EDGE 2019, figure 1, for the topology. A Poisson process that is
    split at random gives independent Poisson processes, of the rates
    w_i lambda, so each server is a model of its own::

        E[R]     = sum of w_i E[R_i]
        P(R > t) = sum of w_i P(R_i > t)

    Valid where each server's model is, at its part of the rate. A balancer
    that goes round, or that looks for the shortest queue, does better than
    chance: this model is then conservative. All servers have the same
    reservation; the bandwidth is that of each.

    :ivar members: the servers
    :ivar latency_s: latency that the balancer adds to each server's, one way
    """

    def __init__(
        self, members: Sequence[Member], latency_s: float = 0.0
    ) -> None:
        super().__init__(latency_s)
        self.members = tuple(members)
        if not self.members:
            raise exception.InvalidQuantity('a group of no servers')
        self._weight = math.fsum(
            member.number * member.weight for member in self.members
        )

    def _parts(self) -> Iterator[tuple[float, float, ResponseTime]]:
        """Shares of the requests: of a member, and of each of its servers."""
        for member in self.members:
            each = member.weight / self._weight
            yield member.number * each, each, member.server

    def _capacity_per_s(self, bandwidth: float) -> float:
        return min(
            server.capacity_per_s(bandwidth) / each
            for _, each, server in self._parts()
        )

    def _mean_s(self, rate_per_s: float, bandwidth: float) -> float:
        return math.fsum(
            part * server.mean_s(each * rate_per_s, bandwidth)
            for part, each, server in self._parts()
        )

    def _log_late(
        self, rate_per_s: float, bandwidth: float, time_s: float
    ) -> float:
        if time_s <= 0:
            return 0.0
        logs = [
            math.log(part)
            + server.log_late(each * rate_per_s, bandwidth, time_s)
            for part, each, server in self._parts()
        ]
        highest = max(logs)
        if highest == -math.inf:
            return highest
        return highest + math.log(
            math.fsum(math.exp(each - highest) for each in logs)
        )

    def gap_s(self, period_s: float, bandwidth: float) -> float:
        return max(
            member.server.gap_s(period_s, bandwidth) for member in self.members
        )
