# SPDX-License-Identifier: Apache-2.0
"""What the commands say about a reservation."""

import dataclasses
from typing import Any

from nova_rt.bounds import Bounds
from nova_rt.cmd.manage import flavor
from nova_rt.cmd.model import columns, options
from nova_rt.extra_specs import RESERVATION
from nova_rt.model import services, sizing, units
from nova_rt.model.limits import Limits
from nova_rt.request import HintRule
from nova_rt.reservation import MAX_PERIOD_US, MIN_PERIOD_US, Reservation

#: Percentiles that every answer has.
_USUAL = (0.5, 0.9, 0.99, 0.999)


@dataclasses.dataclass(frozen=True)
class Point:
    """A service with a reservation.

    :ivar fraction: of the requests; None if nobody asked about one
    :ivar deadline_s: None if nobody asked about one
    """

    choice: services.Choice
    rate_per_s: float
    reservation: Reservation
    vcpus: int
    limits: Limits
    fraction: float | None = None
    deadline_s: float | None = None


def tell(point: Point) -> dict[str, Any]:
    """What to expect, how sure that is, and the flavor that has it.

    :returns: properties and their values, for a table
    :raises Unanswerable: if it is not stable
    """
    model, rate_per_s = point.choice.model, point.rate_per_s
    fraction = point.fraction or 0.99
    found = sizing.expect(
        model, rate_per_s, fraction, point.reservation, point.limits
    )
    load = rate_per_s / model.capacity_per_s(found.bandwidth)
    said: dict[str, Any] = {
        'Reservation': str(point.reservation),
        'vCPUs': point.vcpus,
        'Bandwidth': columns.Share(
            point.reservation.runtime_us / point.reservation.period_us
        ),
        'Load': columns.Share(load),
        'Mean': columns.Duration(found.mean_s),
    }
    if point.vcpus == 1:
        said['Mean alone'] = columns.Duration(found.alone_s)
    for each in sorted({*_USUAL, fraction}):
        said[f'p{units.tell_percentile(each)}'] = columns.Duration(
            model.percentile_s(rate_per_s, found.bandwidth, each)
        )
    said['Shift'] = columns.Duration(found.shift_s)
    said['Gap'] = columns.Duration(found.gap_s)
    said['Model'] = point.choice.name
    sure = (
        f'{point.choice.sure} Alone on its CPUs, the service is faster by '
        'about the shift; if it always comes last, slower by that.'
    )
    if point.vcpus == 1:
        sure += (
            ' Where the kernel guarantees, no response takes longer by more '
            'than the gap, P - Q, whatever runs beside it.'
        )
    said['How sure'] = columns.Text(sure)
    cautions = point.choice.cautions(
        rate_per_s, fraction, found.gap_s, found.mean_s
    )
    if point.reservation.ppm > options.USUAL_PPM:
        cautions.append(
            'Hosts promise 95 % of a CPU unless their operator says '
            'otherwise: see --max-bandwidth.'
        )
    if cautions:
        said['Caution'] = columns.Text(' '.join(cautions))
    said['Flavor'] = create(point.reservation, point.vcpus)
    return said


def create(reservation: Reservation, vcpus: int) -> columns.Shell:
    """The command that makes a flavor.

    :returns: a line for a shell
    :raises InvalidRequest: if no cloud takes it
    """
    # The operator's own bounds are the business of nova-rt-manage.
    anything = Bounds(HintRule.ANY, MIN_PERIOD_US, MAX_PERIOD_US)
    made = flavor.design(
        None, vcpus, {RESERVATION: str(reservation)}, anything
    )
    return columns.Shell(made.create())
