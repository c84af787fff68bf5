# SPDX-License-Identifier: Apache-2.0
"""Several CPUs, each with a queue of its own."""

from nova_rt.model.response import ResponseTime


class Split(ResponseTime):
    """Each request, or batch, goes to one of n queues, chosen at random.

    A Poisson process that is split at random gives independent Poisson
    processes, so each CPU is a model of its own at the rate lambda/n. So it is
    behind a balancer, with receive-side scaling, SO_REUSEPORT, and threads
    that are pinned. A balancer that goes round, or looks for the shortest
    queue, does better than chance: this model is then conservative.

    :ivar each: the model of one CPU
    :ivar cpus: n
    """

    def __init__(self, each: ResponseTime, cpus: int) -> None:
        super().__init__(each.latency_s)
        self.each, self.cpus = each, cpus
        self.tolerance = each.tolerance

    def _capacity_per_s(self, bandwidth: float) -> float:
        return self.cpus * self.each._capacity_per_s(bandwidth)

    def _mean_s(self, rate_per_s: float, bandwidth: float) -> float:
        return self.each._mean_s(rate_per_s / self.cpus, bandwidth)

    def _log_late(
        self, rate_per_s: float, bandwidth: float, time_s: float
    ) -> float:
        return self.each._log_late(rate_per_s / self.cpus, bandwidth, time_s)
