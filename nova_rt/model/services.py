# SPDX-License-Identifier: Apache-2.0
"""Choice of the model for a service, and the certainty of its answers."""

from collections.abc import Sequence
import dataclasses
import math
from typing import TYPE_CHECKING, Any

from nova_rt import exception
from nova_rt.model import inputs, many, single, split, tandem
from nova_rt.model.response import ResponseTime
from nova_rt.model.service import Link as Link
from nova_rt.model.service import Service as Service

if TYPE_CHECKING:
    from nova_rt.model import general


@dataclasses.dataclass(frozen=True)
class Choice:
    """A model, and the certainty of its answers.

    :ivar model: the model
    :ivar service: what it is a model of
    :ivar name: its name in the manual
    :ivar sure: certainty of its answers, a sentence
    :ivar link_s: mean time of a request on the link; 0 without one
    :ivar queue: the model of one queue, if it has bounds
    """

    model: ResponseTime
    service: Service
    name: str
    sure: str
    link_s: float = 0.0
    queue: 'general.GeneralQueue | None' = None

    @property
    def sample(self) -> 'general.GeneralQueue | None':
        """The model of one queue, if it is that of a sample."""
        return self.queue if self.service.samples_s else None


_POISSON = 'requests that come independently of each other'
_THERE = 'on a CPU that is always there'


def choose(service: Service) -> Choice:
    """The model of a service.

    :returns: the model, and its certainty
    :raises InvalidQuantity: for invalid quantities, and for combinations that
        no model covers
    """
    inputs.whole('the number of vCPUs', service.cpus)
    if service.split:
        _refuse(service.cpus == 1, '--split is for several --vcpus')
        _refuse(service.link is not None, _NONE.format('--split with a link'))
    model, name, sure = _choose(service)
    each: Any = model if hasattr(model, 'bounds_s') else None
    if service.split and service.poisson:
        model = split.Split(model, service.cpus)
        name = f'{service.cpus} x {name}'
    if service.polling:
        model.gaps = 2
    link_s = 0.0
    if service.link is not None:
        link_s = tandem.transmission_s(
            service.link.size_bit, service.link.bit_per_s
        )
    return Choice(model, service, name, sure, link_s, each)


_NONE = 'no model covers {}: leave out one of them'


def _refuse(wrong: bool, text: str) -> None:
    if wrong:
        raise exception.InvalidQuantity(text)


def _choose(service: Service) -> tuple[ResponseTime, str, str]:
    """Model, name and certainty, of one of several queues if it is split."""
    link, latency_s = service.link, service.latency_s
    shared = service.cpus > 1 and not service.split
    plain = service.poisson and service.exponential and service.batch == 1
    if not plain:
        kind = 'CPU times that are not exponential, or such arrivals,'
        _refuse(
            shared,
            f'no model covers {kind} with vCPUs that share a queue: give '
            '--split',
        )
    if link is not None:
        _refuse(service.cpus > 1, _NONE.format('several vCPUs with a link'))
        _refuse(
            not service.poisson or service.batch > 1,
            _NONE.format('such arrivals with a link'),
        )
        _refuse(
            link.conservative and not plain,
            '--conservative is for exponential CPU times',
        )
        link_s = tandem.transmission_s(link.size_bit, link.bit_per_s)
        if plain:
            queue: type[tandem.Tandem] = tandem.Tandem
            name = 'tandem'
            sure = (
                f'Exact for {_POISSON}, exponential CPU times and exponential '
                f'sizes, {_THERE}. Constant sizes wait less.'
            )
            if link.conservative:
                queue, name = tandem.TandemBound, 'tandem, conservative'
                sure = (
                    f'For {_POISSON}, exponential CPU times and exponential '
                    'sizes, the mean is exact and the percentiles are never '
                    f'too short, {_THERE}.'
                )
            return queue(service.service_s, link_s, latency_s), name, sure
        return _general(service, link_s)
    if not service.poisson:
        return _traced(service)
    if shared:
        return (
            many.ManyCPUs(service.cpus, service.service_s, latency_s),
            f'M/M/{service.cpus}',
            f'Exact for {_POISSON} and exponential CPU times, on CPUs that '
            'are always there, with a worker on each.',
        )
    if plain:
        return (
            single.SingleQueue(service.service_s, latency_s),
            'M/M/1',
            f'Exact for {_POISSON} and exponential CPU times, {_THERE}.',
        )
    return _general(service, 0.0)


def _general(service: Service, link_s: float) -> tuple[ResponseTime, str, str]:
    # Here, because only these need numpy.
    from nova_rt.model import general

    times: Sequence[float] | float = service.service_s
    what, kind = 'exponential CPU times', 'M'
    if service.constant:
        times = [service.service_s]
        what, kind = 'CPU times that are all the same', 'D'
    elif service.samples_s:
        times = service.samples_s
        what, kind = f'the {len(times)} CPU times of the sample', 'G'
    model = general.GeneralQueue(
        times, service.latency_s, service.batch, link_s
    )
    come, name = _POISSON, f'M/{kind}/1'
    if service.batch > 1:
        come = f'batches of {service.batch} that come at random'
        name = f'M^{service.batch}/{kind}/1'
    if link_s:
        come += ', exponential sizes'
        name += ' behind a link'
    return model, name, (
        f'For {come} and {what}, the mean is exact and the percentiles are '
        f'never too short, {_THERE}.'
    )  # fmt: skip


def _traced(service: Service) -> tuple[ResponseTime, str, str]:
    from nova_rt.model import trace

    # Even batches are all the same: the CPU is idle before each.
    count = 2 * service.batch if service.even else trace.REQUESTS
    drawn = trace.draw(service, count, 1, one_queue=True)
    mean_s = service.service_s
    if service.samples_s:
        mean_s = math.fsum(service.samples_s) / len(service.samples_s)
    name = 'recorded' if service.instants_s else 'periodic'
    sure = f'Exact for these {len(drawn.works_s)} requests, {_THERE}.'
    if drawn.random:
        sure = (
            f'From {len(drawn.works_s)} simulated requests, {_THERE}: with '
            '99.9 % confidence, no more are late.'
        )
    elif service.periodic:
        sure = f'Exact for requests that come evenly, {_THERE}.'
    return (
        trace.TraceQueue(drawn, mean_s, service.cpus, service.latency_s),
        name,
        sure,
    )
