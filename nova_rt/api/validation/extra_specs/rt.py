# SPDX-License-Identifier: Apache-2.0
"""Validators of the ``rt:`` extra specs, loaded by nova-api's entry point.

Nova calls them at microversion 2.86 and later, one key at a time, and
refuses ``rt:`` keys that none of them names.
"""

from collections.abc import Callable

from nova import exception as nova_exception
from nova.api.validation.extra_specs import base
import nova.conf

from nova_rt import bounds, exception, extra_specs, reservation
import nova_rt.conf

CONF = nova.conf.CONF
nova_rt.conf.register_opts(CONF)


class RTExtraSpecValidator(base.ExtraSpecValidator):
    """Validator that lets nova_rt's own parser judge the value."""

    def __init__(
        self, name: str, description: str, parse: Callable[[str], object]
    ) -> None:
        super().__init__(name, description, {'type': str})
        self._parse = parse

    def validate(self, name: str, value: str | float) -> None:
        """Judge one pair.

        :param value: numbers reach a validator as JSON numbers
        :raises nova.exception.ValidationError: with our message
        """
        try:
            self._parse(str(value))
        except exception.InvalidRequest as err:
            raise nova_exception.ValidationError(
                f'Validation failed; extra spec {name}: {err}'
            ) from err


def _parse_reservation(text: str) -> None:
    bounds.Bounds.from_options(CONF.nova_rt).check(
        reservation.Reservation.parse(text)
    )


def register() -> list[base.ExtraSpecValidator]:
    """The validators, for nova-api."""
    return [
        RTExtraSpecValidator(
            extra_specs.RESERVATION,
            'CPU time reserved on each vCPU: ``<runtime_us>/<period_us>``, '
            'whole microseconds, for example ``1400/2000``. Makes the '
            'flavor a real-time one.',
            _parse_reservation,
        ),
        RTExtraSpecValidator(
            extra_specs.ENFORCEMENT,
            'What the host must do for the reservation: ``guarantee`` (the '
            'default), or ``limit`` to accept hosts that only keep servers '
            'from taking more.',
            extra_specs.parse_enforcement,
        ),
        RTExtraSpecValidator(
            extra_specs.POLICY,
            'Scheduling policy that the tasks of the container start with: '
            '``rr`` (the default), ``fifo`` or ``other``.',
            extra_specs.parse_policy,
        ),
        RTExtraSpecValidator(
            extra_specs.PRIORITY,
            'Real-time priority that the tasks of the container start with: '
            f'{extra_specs.MIN_PRIORITY} (the default) to '
            f'{extra_specs.MAX_PRIORITY}.',
            extra_specs.parse_priority,
        ),
    ]
