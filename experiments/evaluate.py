# SPDX-License-Identifier: Apache-2.0
"""Measured response times, beside those of nova_rt/model.

A few thousand response times of a queue have a mean that is far from its
expectation, by the chance of the requests. So each point has three answers:

- the *theory*, for all possible requests;
- the *fluid* queue with the very requests that were sent, on a CPU that is
  always there with the speed Q/P;
- the *scheduler* with these requests, from the instants at which they came to
  the server: nova_rt/model/judged.

Fluid against theory is chance. Measured against fluid is what the theory does
not cover, and measured against scheduler is what the simulation does not. The
guarantees begin when a request has come to the server; the link before it is
compared with the token bucket that it should be.
"""

import dataclasses

import numpy

from experiments import samples, several, simulated
from experiments.description import Point
from lab.measure import distribution
from nova_rt.model import (
    confidence,
    general,
    many,
    single,
    sizing,
    tandem,
)
from nova_rt.model.response import ResponseTime

PERCENT = 99
FRACTION = PERCENT / 100
#: Requests at the beginning that are sent and not counted: the queue is empty
#: then, and the neighbours do not know each other's addresses.
SKIPPED = 100
#: Time that client and network can add to a response, beside their mean.
JITTER_S = 50e-6
Nanoseconds = samples.Nanoseconds


@dataclasses.dataclass(frozen=True)
class Numbers:
    """Mean and 99th percentile in seconds."""

    mean_s: float
    percentile_s: float

    @classmethod
    def of(cls, times_ns: Nanoseconds) -> 'Numbers':
        """Mean and percentile of response times."""
        return cls(
            float(times_ns.mean()) / 1e9,
            distribution.percentile(sorted(times_ns.tolist()), PERCENT) / 1e9,
        )


@dataclasses.dataclass(frozen=True)
class Way:
    """Time of a request outside the link and the server, seconds.

    :ivar there_s: until the server's kernel has it
    :ivar back_s: from the end of its CPU time to the client's kernel
    :ivar awake_s: of that, the time for which the client delayed the server
    """

    there_s: float
    back_s: float
    awake_s: float

    @property
    def trip_s(self) -> float:
        """2 delta."""
        return self.there_s + self.back_s

    @classmethod
    def of(cls, ping: samples.Run) -> 'Way':
        """Measure it.

        :param ping: requests of no CPU time through no link
        """
        there_ns = (ping.arrived_ns - ping.intended_ns)[SKIPPED:]
        back_ns = (ping.received_ns - ping.arrived_ns - ping.service_ns)[
            SKIPPED:
        ]
        awake_ns = numpy.maximum(ping.until_ns - ping.arrived_ns, 0)[SKIPPED:]
        return cls(
            *(
                float(times_ns.mean()) / 1e9
                for times_ns in (there_ns, back_ns, awake_ns)
            )
        )


@dataclasses.dataclass(frozen=True)
class Result:
    """A point, measured and computed.

    :ivar theory: M/M/1, or the tandem with its exact percentile
    :ivar bound_s: the papers' percentile, which is a bound with a link
    :ivar bucket_s: time by which the token bucket's one frame is ahead of the
        tandem
    :ivar fluid: the same requests on a fluid CPU, behind the token bucket
    :ivar alone_s: the mean of the same requests by the model for a container
        that is alone: :func:`nova_rt.model.sizing.mean_alone_s`, or for
        several CPUs :func:`experiments.several.mean_shared_s`; None where it
        has none
    :ivar mean_half_s: half-width of the 95 % confidence interval of the
        measured mean; 0 for short runs
    :ivar scheduler: the same requests, scheduled as they came beside the same
        neighbours if they are busy; the fluid one without a reservation, or
        for several CPUs
    :ivar link_late_s: mean delay of their arrivals at the server against the
        token bucket
    :ivar phases_s: the smallest and the largest 99th percentile of the
        scheduler, for busy neighbours that begin at other instants
    :ivar excess_s: the largest lateness of a response against the fluid CPU
        with the bandwidth less the overhead
    :ivar gap_s: its bound: P - Q, with Q less the overhead
    :ivar beyond: number of responses that exceed the bound by more than
        :data:`JITTER_S`
    :ivar longest_s: the longest response, from the arrival of the request
    :ivar guaranteed_s: its bound, for constant CPU times; else 0
    :ivar way: the measured times outside link and server
    :ivar late_s: the largest lateness of the client
    :ivar count: requests that were answered
    """

    point: Point
    measured: Numbers
    mean_half_s: float
    theory: Numbers
    bound_s: float
    bucket_s: float
    fluid: Numbers
    alone_s: float | None
    scheduler: Numbers
    link_late_s: float
    phases_s: tuple[float, float]
    excess_s: float
    gap_s: float
    beyond: int
    longest_s: float
    guaranteed_s: float
    way: Way
    late_s: float
    count: int
    lost: int
    sorted_ns: Nanoseconds = dataclasses.field(repr=False)

    @property
    def error(self) -> float:
        """Measured mean against theory, as a fraction."""
        return self.measured.mean_s / self.theory.mean_s - 1

    @property
    def chance(self) -> float:
        """Part of the error that is due to the chance of the requests."""
        return self.fluid.mean_s / self.theory.mean_s - 1

    @property
    def fluid_error(self) -> float:
        """Measured mean against the fluid queue with the same requests."""
        return self.measured.mean_s / self.fluid.mean_s - 1

    @property
    def alone_error(self) -> float | None:
        """Measured mean against that of a container alone on its CPU."""
        if self.alone_s is None:
            return None
        return self.measured.mean_s / self.alone_s - 1

    @property
    def scheduler_error(self) -> float:
        """Measured mean against the simulated scheduler."""
        return self.measured.mean_s / self.scheduler.mean_s - 1

    @property
    def scheduler_percentile_error(self) -> float:
        """The same for the 99th percentile."""
        return self.measured.percentile_s / self.scheduler.percentile_s - 1

    @property
    def expected_percentile_s(self) -> float:
        """The measured percentile without the part that is chance.

        The measured one less the fluid one is what kernel and link add to the
        percentile; with theory's in the place of the fluid one, this is an
        estimate of the percentile of very many requests.
        """
        return (
            self.theory.percentile_s
            + self.measured.percentile_s
            - self.fluid.percentile_s
        )

    @property
    def percentile_error(self) -> float:
        """The same against the exact percentile behind a token bucket.

        One frame passes the bucket at once, and all that waits at the link is
        ahead by it. The model has no such bucket.
        """
        exact_s = self.theory.percentile_s - self.bucket_s
        return self.expected_percentile_s / exact_s - 1


def models(
    point: Point, trip_s: float
) -> tuple[ResponseTime, ResponseTime, float]:
    """The exact model, the papers' bound, and the bandwidth to use."""
    service_s = point.service_us / 1e6
    bandwidth = point.bandwidth or 1.0
    if point.cpus > 1:
        shared = many.ManyCPUs(point.cpus, service_s, trip_s / 2)
        return shared, shared, bandwidth
    if point.work_is == 'constant':
        equal = general.GeneralQueue([service_s], trip_s / 2)
        return equal, equal, bandwidth
    if not point.link_bit_per_s:
        exact = single.SingleQueue(service_s, trip_s / 2)
        return exact, exact, bandwidth
    sending_s = tandem.transmission_s(
        point.size_bytes * 8, point.link_bit_per_s
    )
    return (
        tandem.Tandem(service_s, sending_s, trip_s / 2),
        tandem.TandemBound(service_s, sending_s, trip_s / 2),
        bandwidth,
    )


def _bucket_s(point: Point) -> float:
    if not point.link_bit_per_s:
        return 0.0
    return simulated.BURST_BYTES * 8 / point.link_bit_per_s


def _mean_half_s(times_ns: Nanoseconds) -> float:
    if len(times_ns) < confidence.FEWEST:
        return 0.0
    return confidence.mean(times_ns, confidence.T_95).half_width / 1e9


def evaluate(point: Point, run: samples.Run, way: Way) -> Result:
    """Compare a measured run with the model.

    :param way: the measured times outside link and server
    :returns: all numbers of the point
    :raises Malformed: if hardly any request was answered
    """
    if len(run.service_ns) <= SKIPPED:
        raise samples.Malformed(f'{len(run.service_ns)} answers are too few')
    exact, bound, bandwidth = models(point, way.trip_s)
    rate = point.rate_per_s
    jobs = simulated.Jobs.of(run)
    works_ns = numpy.maximum(run.service_ns, 1)
    back_ns = round(way.back_s * 1e9)
    there_ns = round(way.there_s * 1e9) + simulated.through_link_ns(
        run.intended_ns, run.size_bytes, point.link_bit_per_s
    )
    came_ns = run.arrived_ns
    fluid_ns = simulated.on_fluid_ns(there_ns, works_ns, bandwidth, point.cpus)

    def responses(done: Nanoseconds) -> Numbers:
        return Numbers.of((done - run.intended_ns)[SKIPPED:] + back_ns)

    all_done_ns = [fluid_ns]
    alone_s: float | None = None
    excess_s, gap_s, beyond, guaranteed_s = 0.0, 0.0, 0, 0.0
    if point.bandwidth:
        reservation = point.reservation
        if point.cpus == 1:
            awake_ns = round(way.awake_s * 1e9)
            all_done_ns = [
                done_ns - awake_ns
                for done_ns in simulated.scheduled_ns(point, run, jobs)
            ]
        expected = sizing.expect(exact, rate, FRACTION, reservation)
        gap_s = expected.gap_s
        bound_ns = simulated.on_fluid_ns(
            jobs.arrivals_ns, jobs.works_ns, expected.bandwidth, point.cpus
        )[jobs.last]
        alone_s = expected.alone_s
        if point.cpus > 1:
            alone_s = way.trip_s + several.mean_shared_s(
                point.cpus, point.service_us / 1e6, rate, expected.bandwidth
            )
        if alone_s is not None:
            alone_s += responses(bound_ns).mean_s - expected.mean_s
        late_s = (run.received_ns - bound_ns - back_ns)[SKIPPED:] / 1e9
        excess_s = float(late_s.max())
        beyond = int((late_s > gap_s + JITTER_S).sum())
        if point.work_is == 'constant':
            guaranteed_s = way.back_s + simulated.bound_s(
                reservation, came_ns, works_ns
            )

    scheduled = [responses(done_ns) for done_ns in all_done_ns]
    return Result(
        point=point,
        measured=Numbers.of(run.response_ns[SKIPPED:]),
        mean_half_s=_mean_half_s(run.response_ns[SKIPPED:]),
        theory=Numbers(
            exact.mean_s(rate, bandwidth),
            exact.percentile_s(rate, bandwidth, FRACTION),
        ),
        bound_s=bound.percentile_s(rate, bandwidth, FRACTION),
        bucket_s=_bucket_s(point),
        fluid=responses(fluid_ns),
        alone_s=alone_s,
        scheduler=scheduled[0],
        link_late_s=float((came_ns - there_ns)[SKIPPED:].mean()) / 1e9,
        phases_s=(
            min(one.percentile_s for one in scheduled),
            max(one.percentile_s for one in scheduled),
        ),
        excess_s=excess_s,
        gap_s=gap_s,
        beyond=beyond,
        longest_s=float((run.received_ns - came_ns)[SKIPPED:].max()) / 1e9,
        guaranteed_s=guaranteed_s,
        way=way,
        late_s=float(run.late_ns.max()) / 1e9,
        count=len(works_ns) - SKIPPED,
        lost=run.lost,
        sorted_ns=numpy.sort(run.response_ns[SKIPPED:]),
    )
