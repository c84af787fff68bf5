# SPDX-License-Identifier: Apache-2.0
"""Answers of the commands about a reservation."""

from collections.abc import Sequence
import dataclasses
import math
from typing import TYPE_CHECKING, Any

from nova_rt import exception
from nova_rt.cmd.model import columns, options
from nova_rt.manage import flavor
from nova_rt.model import periods, services, sizing, units
from nova_rt.model.limits import Limits
from nova_rt.model.response import ResponseTime
from nova_rt.reservation.bounds import Bounds
from nova_rt.reservation.extra_specs import RESERVATION, SPECS
from nova_rt.reservation.request import HintRule
from nova_rt.reservation.reservation import (
    MAX_PERIOD_US,
    MIN_PERIOD_US,
    Reservation,
)

if TYPE_CHECKING:
    from nova_rt.model import general

#: Percentiles that every answer has.
_USUAL = (0.5, 0.9, 0.99, 0.999)
# With a gap above this part of a response time, say so.
_LONG = 0.05
# What load and CPU times may be more than was thought.
_MORE = (0.05, 0.1)
# How far a rate may swing, and the mean time of each phase.
_SWINGS = ((0.3, 0.02), (0.8, 0.2))
# What every answer has, None included; percentiles stand after their mean.
_FIRST = (
    'Rate', 'Deadline', 'Reservation', 'vCPUs', 'Bandwidth', 'Load', 'Mean',
    'Mean alone', 'Safe mean', 'Shift', 'Gap', 'In time', 'Never above',
    'Period', 'Model', 'How sure', 'Sample', 'If wrong', 'Caution',
    'Existing flavor', 'Other vCPUs', 'Flavor', 'Flavor set', 'Link',
)  # fmt: skip


_TOO_MUCH = (
    'Hosts promise 95 % of a CPU unless their operator says otherwise: see '
    '--max-bandwidth.'
)


@dataclasses.dataclass(frozen=True)
class Point:
    """A service with a reservation.

    :ivar fraction: of the requests; None if nobody asked about one
    :ivar deadline_s: None if nobody asked about one
    :ivar rule: why it has its period; None if nobody asked for a reservation
    """

    choice: services.Choice
    rate_per_s: float
    reservation: Reservation
    vcpus: int
    limits: Limits
    fraction: float | None = None
    deadline_s: float | None = None
    rule: periods.Rule | None = None

    @property
    def first_order(self) -> bool:
        """Whether the effect of the period on the mean is known."""
        service = self.choice.service
        plain = service.exponential and service.poisson and not service.link
        return plain and service.batch == 1 and not service.polling


def tell(point: Point) -> dict[str, Any]:
    """Write the expected times, their certainty, and the flavor.

    :returns: properties and their values
    :raises Unanswerable: if it is not stable
    """
    model, rate_per_s = point.choice.model, point.rate_per_s
    fraction = point.fraction or 0.99
    found = sizing.expect(
        model, rate_per_s, fraction, point.reservation, point.limits
    )
    load = rate_per_s / model.capacity_per_s(found.bandwidth)
    said: dict[str, Any] = {
        'Load': columns.Share(load),
        'Mean': columns.Duration(found.mean_s),
        'Safe mean': columns.Duration(found.mean_s + found.gap_s),
        'Gap': columns.Duration(found.gap_s),
        'Model': point.choice.name,
        'How sure': columns.Text(_sure(point, found)),
    }
    if point.first_order:
        said['Shift'] = columns.Duration(found.shift_s)
        if point.vcpus == 1 and found.alone_s is not None:
            said['Mean alone'] = columns.Duration(found.alone_s)
    for each in {*_USUAL, fraction}:
        try:
            fluid_s = model.percentile_s(rate_per_s, found.bandwidth, each)
        except exception.Unreachable:
            # Of too few requests, or nearer to 1 than numbers go.
            continue
        name = f'p{units.tell_percentile(each)}'
        said[name] = columns.Duration(fluid_s)
        said[f'Safe {name}'] = columns.Duration(fluid_s + found.gap_s)
    if point.rule is not None:
        said['Period'] = columns.Text(_period(point, found, fraction))
    if point.choice.sample is not None:
        said['Sample'] = _sample(point.choice.sample, point, found, fraction)
    if point.deadline_s is not None:
        said['If wrong'] = _if_wrong(point, found, point.deadline_s)
    said |= describe(point.reservation, point.vcpus)
    cautions = _cautions(point, found, fraction)
    if cautions or 'Caution' in said:
        cautions.append(said['Caution'].machine_readable()
                        if 'Caution' in said else '')  # fmt: skip
        said['Caution'] = columns.Text(' '.join(cautions).strip())
    return said


def _period(point: Point, found: sizing.Sizing, fraction: float) -> str:
    """Explain the period, with the saving of a shorter one."""
    limits, deadline_s = point.limits, point.deadline_s
    rule = point.rule or periods.Rule.GIVEN
    why = periods.tell(rule, point.reservation, limits)
    if deadline_s is None:
        return why
    part = 100 * found.gap_s / deadline_s
    why += f' The gap is {part:.2g} % of the deadline.'
    shortest = point.reservation.period_us == limits.min_period_us
    if rule is periods.Rule.GIVEN or not shortest:
        return why
    free = dataclasses.replace(limits, min_period_us=MIN_PERIOD_US)
    try:
        other = sizing.size(
            point.choice.model, point.rate_per_s, deadline_s, fraction, free
        ).reservation
    except exception.Unreachable:
        return why
    if other.ppm < (1 - _LONG) * point.reservation.ppm:
        why += (
            f' With --min-period {MIN_PERIOD_US}us, {other} would do: '
            f'{other.ppm / 1e6:.3f} of a CPU, not '
            f'{point.reservation.ppm / 1e6:.3f}.'
        )
    return why


def _sample(
    queue: 'general.GeneralQueue', point: Point, found: sizing.Sizing,
    fraction: float,
) -> columns.Told:  # fmt: skip
    """The percentile with other samples of the same size."""
    from nova_rt.model import sample

    service = point.choice.service
    share = service.cpus if service.split else 1
    low_s, high_s = (
        each + found.gap_s
        for each in sample.interval_s(
            service.samples_s, queue, point.rate_per_s / share,
            found.bandwidth, fraction,
        )
    )  # fmt: skip
    tell = units.tell_duration
    high = tell(high_s) if high_s < math.inf else 'no end'
    return columns.Told(
        {'Low': low_s, 'High': high_s if high_s < math.inf else None},
        f'safe p{units.tell_percentile(fraction)} from {tell(low_s)} to '
        f'{high},',
        'in 9 of 10 other samples of this size',
    )


def _if_wrong(
    point: Point, found: sizing.Sizing, deadline_s: float
) -> columns.Told:
    """The share in time if the numbers or the arrivals are others."""
    model, rate_per_s = point.choice.model, point.rate_per_s
    left_s = max(deadline_s - found.gap_s, 1e-12)
    shares: dict[str, float | None] = {}

    def ask(name: str, of: ResponseTime, rate: float, speed: float) -> None:
        # Of requests that pile up, none are promised to be in time.
        share = 0.0
        if rate < of.capacity_per_s(speed):
            share = of.fraction(rate, speed, left_s)
        shares[name] = share

    for more in _MORE:
        ask(f'load +{more:.0%}', model, rate_per_s * (1 + more),
            found.bandwidth)  # fmt: skip
    for more in _MORE:
        ask(f'CPU times +{more:.0%}', model, rate_per_s,
            found.bandwidth / (1 + more))  # fmt: skip
    service = point.choice.service
    if service.poisson and service.batch == 1 and not (
        service.link or service.cpus > 1
    ):  # fmt: skip
        from nova_rt.model import trace

        for swing, phase_s in _SWINGS:
            if phase_s * rate_per_s < 1:
                # A swing that no request sees.
                continue
            drawn = trace.swinging(service, rate_per_s, swing, phase_s)
            times_s = drawn.responses_s(rate_per_s, found.bandwidth)
            left = left_s - 2 * service.latency_s
            name = (
                f'rate +-{swing:.0%} in phases of '
                f'{units.tell_duration(phase_s)}'
            )
            shares[name] = float((times_s <= left).mean())
    return columns.Told(
        shares,
        *(
            f'{name}: {100 * share:.4g} % in time'
            for name, share in shares.items()
            if share is not None
        ),
    )


def describe(reservation: Reservation, vcpus: int) -> dict[str, Any]:
    """The reservation, and the commands that make a flavor with it.

    :returns: properties and their values
    :raises InvalidRequest: if no cloud takes it
    """
    given = {RESERVATION: str(reservation)}
    # The operator's own bounds are the business of nova-rt-manage.
    anything = Bounds(HintRule.ANY, MIN_PERIOD_US, MAX_PERIOD_US)
    made = flavor.design(None, vcpus, given, anything)
    # An existing one may have other values.
    usual = {
        spec.key: spec.default_text
        for spec in SPECS.values()
        if spec.default_text is not None
    }
    changed = flavor.design('FLAVOR', vcpus, given | usual | given, anything)
    return {
        'Reservation': str(reservation),
        'vCPUs': vcpus,
        'Bandwidth': columns.Share(
            reservation.runtime_us / reservation.period_us
        ),
        'Flavor': columns.Shell(made.create()),
        'Flavor set': columns.Shell(changed.turn()),
    } | (
        {'Caution': columns.Text(_TOO_MUCH)}
        if reservation.ppm > options.USUAL_PPM
        else {}
    )


def arrange(said: dict[str, Any]) -> dict[str, Any]:
    """Put properties into the order of all answers, with those not known.

    :returns: the same keys for the same command, some with None
    """
    names = {*(f'p{units.tell_percentile(each)}' for each in _USUAL)}
    names |= {name for name in said if name.startswith('p')}
    order = sorted(names, key=lambda name: float(name[1:]))
    keys: list[str] = []
    for key in _FIRST:
        keys.append(key)
        if key == 'Mean alone':
            keys += order
        elif key == 'Safe mean':
            keys += [f'Safe {name}' for name in order]
    return {
        key: said.get(key)
        for key in keys
        if key in said or key not in {'Rate', 'Deadline'}
    }


def _sure(point: Point, found: sizing.Sizing) -> str:
    """Name the numbers that are proved, modelled and simulated."""
    service, sure = point.choice.service, point.choice.sure
    queue = point.choice.queue
    if queue is not None:
        share = service.cpus if service.split else 1
        low_s, high_s = queue.bounds_s(
            point.rate_per_s / share, found.bandwidth, point.fraction or 0.99
        )
        part = units.round_up(100 * (high_s / low_s - 1))
        name = units.tell_percentile(point.fraction or 0.99)
        sure += f' p{name} is too long by at most {part:g} %.'
    gap = '2 (P - Q)' if service.polling else 'P - Q'
    safe = (
        'the gap is proved. Where the kernel guarantees, no response takes '
        f'longer by more than {gap}, whatever runs beside it.'
    )
    if service.cpus > 1 and not service.split:
        safe = (
            'simulated, and not proved for CPUs that share a queue: the '
            f'period adds no more than the gap, {gap}, to mean and '
            'percentiles.'
        )
    alone = ''
    if point.first_order:
        alone = (
            ' Alone on its CPUs, the mean is smaller, by about the shift if '
            'the period is short; beside others it can be larger by that.'
        )
    return f'Mean, percentiles: model. {sure}{alone} Safe: {safe}'


def _cautions(
    point: Point, found: sizing.Sizing, fraction: float
) -> list[str]:
    """Reasons against the answer that can be changed."""
    said = []
    service = point.choice.service
    count = len(service.instants_s) or len(service.samples_s)
    # Ten beyond the percentile; 1 - 0.99 is a little less than 0.01.
    enough = math.ceil(10 / (1 - fraction) - 1e-6)
    if 0 < count < enough:
        said.append(
            f'A sample of {count} is too small for this percentile: take at '
            f'least {enough}.'
        )
    if service.samples_s and not service.paired:
        said += correlated(service.samples_s)
    link_load = point.rate_per_s * point.choice.link_s
    if link_load > 0.5:
        said.append(
            f'The link is used to {link_load:.0%} of its rate. Above one '
            'half, response times were measured that the model does not '
            'predict.'
        )
    safe_s = point.deadline_s or found.percentile_s + found.gap_s
    chosen = point.rule in {periods.Rule.LEAST, periods.Rule.SHORT}
    if found.gap_s > _LONG * safe_s and not chosen:
        what = 'the deadline' if point.deadline_s else 'the safe percentile'
        said.append(
            f'The gap is {100 * found.gap_s / safe_s:.2g} % of {what}: with a '
            'shorter period, neighbours would matter less.'
        )
    return said


def correlated(times_s: Sequence[float]) -> list[str]:
    """A caution if CPU times depend on those before them.

    :param times_s: in the order in which they came
    :returns: a sentence or none
    """
    from nova_rt.model import sample

    found = sample.autocorrelation(times_s)
    if found is None:
        return []
    return [
        f'CPU times that follow each other are alike (correlation {found:.2f} '
        'of their ranks), so queues are longer than this says: record '
        'instants as well, and give --arrivals.'
    ]
