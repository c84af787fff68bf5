# SPDX-License-Identifier: Apache-2.0
"""Choice of the model for a service, and the certainty of its answers."""

from collections.abc import Sequence
import dataclasses
import enum
import math

from nova_rt import exception
from nova_rt.model import balanced, constant, inputs, many, single, tandem
from nova_rt.model.response import ResponseTime


class Times(enum.StrEnum):
    """Distribution of the CPU times of requests."""

    EXPONENTIAL = 'exponential'
    CONSTANT = 'constant'
    #: As in a sample.
    MEASURED = 'measured'


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
    """Known properties of a service.

    :ivar times: distribution of its CPU times
    :ivar service_s: mean CPU time of a request, at full speed; not for
        :attr:`Times.MEASURED`
    :ivar samples_s: CPU times that were measured; only for that
    :ivar latency_s: one way
    :ivar cpus: vCPUs, each with a worker
    :ivar link: None where the network does not matter
    """

    times: Times = Times.EXPONENTIAL
    service_s: float = 0.0
    samples_s: Sequence[float] = ()
    latency_s: float = 0.0
    cpus: int = 1
    link: Link | None = None


@dataclasses.dataclass(frozen=True)
class Choice:
    """A model, and the certainty of its answers.

    :ivar model: the model
    :ivar name: its name in the manual
    :ivar sure: certainty of its answers, a sentence
    :ivar link_s: mean time of a request on the link; 0 without one
    :ivar samples: number of CPU times that were measured; 0 if none
    :ivar constant_s: CPU time of all requests; 0 if they vary
    """

    model: ResponseTime
    name: str
    sure: str
    link_s: float = 0.0
    samples: int = 0
    constant_s: float = 0.0

    def cautions(
        self, rate_per_s: float, fraction: float, gap_s: float, mean_s: float
    ) -> list[str]:
        """Known weaknesses of the model under these conditions.

        The manual's page on validity has the measurements.

        :param gap_s: most that the period can add to a response time
        :param mean_s: the mean response time
        :returns: sentences; none if nothing is known
        """
        found = []
        if gap_s > mean_s / 10:
            found.append(
                'The period is long against the response times: the mean can '
                'be off by more than 5 %, by about the shift.'
            )
        # Ten beyond the percentile; 1 - 0.99 is a little less than 0.01.
        enough = math.ceil(10 / (1 - fraction) - 1e-6)
        if 0 < self.samples < enough:
            found.append(
                f'A sample of {self.samples} CPU times is too small for this '
                f'percentile: take at least {enough}.'
            )
        link_load = rate_per_s * self.link_s
        if link_load > 0.5:
            found.append(
                f'The link is used to {link_load:.0%} of its rate. Above one '
                'half, response times were measured that the model does not '
                'predict.'
            )
        return found


_POISSON = 'requests that come independently of each other'


def choose(service: Service) -> Choice:
    """The model of a service.

    :returns: the model, and its certainty
    :raises InvalidQuantity: for invalid quantities, and for combinations that
        no model covers
    """
    inputs.whole('the number of vCPUs', service.cpus)
    if service.link is not None:
        return _on_a_link(service, service.link)
    if service.cpus > 1:
        _only_exponential(service, 'several vCPUs')
        return Choice(
            many.ManyCPUs(service.cpus, service.service_s, service.latency_s),
            f'M/M/{service.cpus}',
            f'Exact for {_POISSON} and exponential CPU times, on CPUs that '
            'are always there, with a worker on each.',
        )
    if service.times is Times.CONSTANT:
        return Choice(
            constant.ConstantQueue(service.service_s, service.latency_s),
            'M/D/1',
            f'Exact for {_POISSON} and CPU times that are all the same, on a '
            'CPU that is always there.',
            constant_s=service.service_s,
        )
    if service.times is Times.MEASURED:
        # Here, because only this one needs numpy.
        from nova_rt.model import measured

        return Choice(
            measured.MeasuredQueue(service.samples_s, service.latency_s),
            'M/G/1',
            f'For {_POISSON}, the mean is exact and the percentiles are '
            'never too short, on a CPU that is always there and if the '
            f'sample of {len(service.samples_s)} CPU times has the longest.',
            samples=len(service.samples_s),
        )
    return Choice(
        single.SingleQueue(service.service_s, service.latency_s),
        'M/M/1',
        f'Exact for {_POISSON} and exponential CPU times, on a CPU that is '
        'always there.',
    )


def choose_split(service: Service) -> Choice:
    """The model of a service each of whose vCPUs has a queue of its own.

    Each request goes to one of them, chosen at random.

    :returns: the model, and its certainty
    :raises InvalidQuantity: for invalid quantities, and for combinations that
        no model covers
    """
    if service.link is not None:
        return choose(service)
    each = choose(dataclasses.replace(service, cpus=1))
    member = balanced.Member(each.model, service.cpus)
    return dataclasses.replace(
        each,
        model=balanced.Balanced([member]),
        name=f'{service.cpus} x {each.name}',
    )


def _only_exponential(service: Service, what: str) -> None:
    if service.times is not Times.EXPONENTIAL:
        raise exception.InvalidQuantity(
            f'no model covers {service.times} CPU times with {what}: take '
            'exponential ones'
        )


def _on_a_link(service: Service, link: Link) -> Choice:
    _only_exponential(service, 'a link')
    if service.cpus > 1:
        raise exception.InvalidQuantity(
            'no model covers several vCPUs with a link: leave out one of them'
        )
    link_s = tandem.transmission_s(link.size_bit, link.bit_per_s)
    if link.conservative:
        return Choice(
            tandem.TandemBound(service.service_s, link_s, service.latency_s),
            'tandem, conservative',
            f'For {_POISSON}, exponential CPU times and exponential sizes, '
            'the mean is exact and the percentiles are never too short, on a '
            'CPU that is always there.',
            link_s,
        )
    return Choice(
        tandem.Tandem(service.service_s, link_s, service.latency_s),
        'tandem',
        f'Exact for {_POISSON}, exponential CPU times and exponential sizes, '
        'on a CPU that is always there. Constant sizes wait less.',
        link_s,
    )
