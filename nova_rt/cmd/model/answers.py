# SPDX-License-Identifier: Apache-2.0
"""Answers of the commands about a reservation."""

import dataclasses
import math
from typing import Any

from nova_rt.cmd.model import columns, options
from nova_rt.manage import flavor
from nova_rt.model import periods, services, sizing, units
from nova_rt.model.limits import Limits
from nova_rt.reservation.bounds import Bounds
from nova_rt.reservation.extra_specs import RESERVATION, SPECS
from nova_rt.reservation.request import HintRule
from nova_rt.reservation.reservation import (
    MAX_PERIOD_US,
    MIN_PERIOD_US,
    Reservation,
)

#: Percentiles that every answer has.
_USUAL = (0.5, 0.9, 0.99, 0.999)
# With a gap above this part of a response time, say so.
_LONG = 0.05
# Of a budget: so much of another one is just above.
_ABOVE = 0.1
# What every answer has, None included; percentiles stand after their mean.
_FIRST = (
    'Rate', 'Deadline', 'Reservation', 'vCPUs', 'Bandwidth', 'Load', 'Mean',
    'Mean alone', 'Safe mean', 'Shift', 'Gap', 'In time', 'Never above',
    'Period', 'Model', 'How sure', 'Caution', 'Flavor',
    'Flavor set', 'Link',
)  # fmt: skip


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


def tell(point: Point) -> dict[str, Any]:
    """Write what to expect, how sure that is, and the flavor that has it.

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
        'Shift': columns.Duration(found.shift_s),
        'Gap': columns.Duration(found.gap_s),
        'Model': point.choice.name,
        'How sure': columns.Text(_sure(point)),
    }
    if point.vcpus == 1 and found.alone_s is not None:
        said['Mean alone'] = columns.Duration(found.alone_s)
    for each in {*_USUAL, fraction}:
        fluid_s = model.percentile_s(rate_per_s, found.bandwidth, each)
        name = f'p{units.tell_percentile(each)}'
        said[name] = columns.Duration(fluid_s)
        said[f'Safe {name}'] = columns.Duration(fluid_s + found.gap_s)
    if point.rule is not None:
        why = periods.tell(point.rule, point.reservation, point.limits)
        if point.deadline_s is not None:
            part = 100 * found.gap_s / point.deadline_s
            why += f' P - Q is {part:.2g} % of the deadline.'
        said['Period'] = columns.Text(why)
    cautions = _cautions(point, found, fraction)
    if cautions:
        said['Caution'] = columns.Text(' '.join(cautions))
    return said | describe(point.reservation, point.vcpus)


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
    }


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


def _sure(point: Point) -> str:
    """Name the numbers that are proved, modelled and simulated."""
    if point.vcpus > 1:
        safe = (
            'simulated, and not proved for several CPUs: the period adds no '
            'more than the gap, P - Q, to mean and percentiles.'
        )
    else:
        safe = (
            'proved. Where the kernel guarantees, no response takes longer '
            'by more than the gap, P - Q, whatever runs beside it.'
        )
    return (
        f'Mean, percentiles: model. {point.choice.sure} Alone on its CPUs, '
        'the service is faster by about the shift; if it always comes last, '
        f'slower by that. Safe: {safe}'
    )


def _cautions(
    point: Point, found: sizing.Sizing, fraction: float
) -> list[str]:
    said = point.choice.cautions(
        point.rate_per_s, fraction, found.gap_s, found.mean_s
    )
    safe_s = point.deadline_s or found.percentile_s + found.gap_s
    if found.gap_s > _LONG * safe_s:
        what = 'the deadline' if point.deadline_s else 'the safe percentile'
        said.append(
            f'P - Q is {100 * found.gap_s / safe_s:.2g} % of {what}: with a '
            'shorter period, neighbours would matter less.'
        )
    service_s = point.choice.constant_s
    if service_s:
        said += _just_above(point, service_s)
    if point.reservation.ppm > options.USUAL_PPM:
        said.append(
            'Hosts promise 95 % of a CPU unless their operator says '
            'otherwise: see --max-bandwidth.'
        )
    return said


def _just_above(point: Point, service_s: float) -> list[str]:
    """A constant CPU time that needs a little of one more budget."""
    period_us = point.reservation.period_us
    overhead_us = point.limits.overhead_us
    budget_us = point.reservation.runtime_us - overhead_us
    budgets, rest_us = divmod(1e6 * service_s, budget_us)
    # Less than a nanosecond is rounding.
    if not budgets or not 1e-3 < rest_us <= _ABOVE * budget_us:
        return []
    enough_us = math.ceil(1e6 * service_s / budgets + overhead_us - 1e-6)
    if enough_us > period_us:
        return []
    several = 's' if budgets > 1 else ''
    return [
        f'Each request takes {units.tell_duration(rest_us / 1e6)} more than '
        f'{budgets:.0f} budget{several}, and can wait for P - Q because of '
        f'that: with {enough_us}/{period_us} it would not.'
    ]
