# SPDX-License-Identifier: Apache-2.0
"""The request of a server: its flavor and its hints, read into one value.

nova-api, nova-scheduler and nova-compute read them through this module, so
that all three understand a flavor in the same way.
"""

from collections.abc import Mapping
import dataclasses
import enum
from typing import Any

from nova_rt import exception
from nova_rt.reservation import extra_specs, spare
from nova_rt.reservation.extra_specs import ExtraSpecs
from nova_rt.reservation.reservation import Reservation
from nova_rt.reservation.spec import Hint, Spec

#: An internal hint: the ID of the flavor that the other hints belong to.
#: nova-api adds it (:mod:`nova_rt.api.hints`); no user can give it there.
FLAVOR_HINT = 'rt_flavor'


def choose_hints(
    hints: Mapping[str, object] | None, flavor_id: str
) -> Mapping[str, object]:
    """Choose the hints that apply to a server with a flavor.

    The RequestSpec keeps hints for the server's life, also when the server is
    resized. A hint of ours applies to the flavor it was given with. If
    nova-api did not record that flavor, the hint applies to every flavor that
    permits it; any other flavor is refused.

    :param hints: all hints as the RequestSpec holds them
    :param flavor_id: ID of the server's present or next flavor, as the API
        shows it
    :returns: the same without those of ours that do not apply
    """
    hints = hints or {}
    given_with = hints.get(FLAVOR_HINT)
    if isinstance(given_with, list):
        given_with = given_with[0] if given_with else None
    if given_with is None or given_with == flavor_id:
        return hints
    return {
        name: hint
        for name, hint in hints.items()
        if name not in extra_specs.HINTS
    }


class HintRule(enum.StrEnum):
    """The extent to which a hint may depart from its flavor."""

    DENY = 'deny'
    LOWER = 'lower'
    ANY = 'any'


@dataclasses.dataclass(frozen=True)
class Request(ExtraSpecs):
    """A server's request for reserved CPU bandwidth.

    It inherits a field for each extra spec; ``reservation`` is the same on
    each of the server's CPUs.

    :ivar vcpus: number of CPUs
    """

    vcpus: int

    @property
    def total_ppm(self) -> int:
        """Bandwidth on all its CPUs together, in ppm of a CPU."""
        return self.vcpus * self.reservation.ppm

    @classmethod
    def from_flavor(
        cls,
        specs: Mapping[str, str],
        vcpus: int,
        hints: Mapping[str, object] | None = None,
        rule: HintRule = HintRule.LOWER,
        admitted: bool = False,
    ) -> 'Request | None':
        """Read the request of a server from its flavor and hints.

        :param specs: all extra specs of the flavor
        :param vcpus: number of CPUs of the flavor
        :param hints: all hints as the API or the RequestSpec holds them: name
            -> None, a string or a list with one string. Those that are not
            ours are ignored.
        :param rule: the operator's rule for hints
        :param admitted: whether the extra specs are those of a request that
            was read before: a hint or a change may have led it out of the
            bounds that its flavor has for runtimes
        :returns: None for a flavor that is not real-time
        :raises InvalidRequest: with a message for the user
        """
        given = {
            name: hint
            for name, hint in (hints or {}).items()
            if name in extra_specs.HINTS and hint is not None
        }
        if not extra_specs.is_rt(specs):
            if given:
                raise exception.HintRefused(
                    f'the hint {min(given)} needs a real-time flavor: this '
                    f'flavor has no {extra_specs.RESERVATION}'
                )
            return None
        extra_specs.check_keys(specs)
        values = {}
        for field, spec in extra_specs.SPECS.items():
            text = specs.get(spec.key)
            value = spec.default if text is None else spec.parse(text)
            if spec.hint is not None and spec.hint.name in given:
                wish = _parse_hint(spec, spec.hint, given[spec.hint.name])
                _check_hint(spec.hint, wish, field, value, rule)
                value = wish
            values[field] = value
        values |= spare.read_priority(values)
        if not admitted:
            values |= _read_runtimes(specs, values)
            _check_startup(specs, values)
        return cls(vcpus=vcpus, **values)

    @property
    def follows_load(self) -> bool:
        """Whether the host moves the runtime by the load.

        A runtime outside of the bounds was set by an operator, and stays.
        """
        low, high = self.runtime_min, self.runtime_max
        if self.adapt is None or low is None or high is None:
            return False
        high = min(high, self.reservation.period_us)
        return low <= self.reservation.runtime_us <= high

    @property
    def boosted_us(self) -> int | None:
        """The runtime of a server that starts; None if it is not more."""
        if self.startup_runtime is None:
            return None
        runtime_us = min(self.startup_runtime, self.reservation.period_us)
        return runtime_us if runtime_us > self.reservation.runtime_us else None

    @property
    def adapts(self) -> bool:
        """Whether the host moves the runtime, by the load or at a start."""
        return self.follows_load or self.boosted_us is not None

    def clamp(self, runtime_us: int) -> int:
        """Bound a runtime as the flavor does.

        :returns: the nearest runtime that the host may move it to; the
            present one if that is none
        """
        low = self.reservation.runtime_us
        high = self.boosted_us or low
        if self.follows_load:
            low, high = self.runtime_min or low, self.runtime_max or high
        high = min(high, self.reservation.period_us)
        return max(low, min(runtime_us, high))

    def check_change(self, wish: Reservation) -> None:
        """Require that the owner of the server may make a change.

        :param wish: the reservation that the server is to have
        :raises ChangeRefused: if its flavor does not allow it
        """
        low, high = self.runtime_min, self.runtime_max
        if low is None or high is None:
            raise exception.ChangeRefused(
                'the flavor lets owners change nothing: it has neither '
                f'{extra_specs.RUNTIME_MIN} nor {extra_specs.RUNTIME_MAX}'
            )
        if wish.period_us != self.reservation.period_us:
            raise exception.ChangeRefused(
                f'asked for a period of {wish.period_us} us: the owner of a '
                f'server cannot change it, it is {self.reservation.period_us} '
                'us'
            )
        if not low <= wish.runtime_us <= high:
            raise exception.ChangeRefused(
                f'asked for a runtime of {wish.runtime_us} us: the flavor '
                f'allows {low} to {high} us'
            )


def _read_runtimes(
    specs: Mapping[str, str], values: Mapping[str, Any]
) -> dict[str, int]:
    """Read the bounds on changes; the flavor's runtime is the default of one.

    :param values: of all extra specs
    :returns: both bounds, or nothing if the flavor has neither
    :raises InvalidRequest: if the runtime of the flavor is not within, or a
        flavor that is to adapt has no bounds
    """
    given = {
        field: values[field]
        for field in ('runtime_min', 'runtime_max')
        if values[field] is not None
    }
    if not given:
        if values['adapt'] is not None:
            raise exception.InvalidRequest(
                f'{extra_specs.ADAPT} needs {extra_specs.RUNTIME_MIN} or '
                f'{extra_specs.RUNTIME_MAX}, or both'
            )
        return {}
    # Of the flavor, whatever a hint asks for.
    own = Reservation.parse(specs[extra_specs.RESERVATION])
    found = dict.fromkeys(('runtime_min', 'runtime_max'), own.runtime_us)
    found |= given
    low, high = found.values()
    if not low <= own.runtime_us <= high <= own.period_us:
        raise exception.InvalidRequest(
            f'{extra_specs.RUNTIME_MIN} and {extra_specs.RUNTIME_MAX} must '
            f'enclose the runtime of {own}, and stay within its period; they '
            f'are {low} and {high}'
        )
    return found


def _check_startup(
    specs: Mapping[str, str], values: Mapping[str, Any]
) -> None:
    """Require that the boost of a server that starts is one.

    :param values: of all extra specs, with both bounds on changes
    :raises InvalidRequest: if its runtime or time is missing, or the runtime
        is not from that of the flavor to its period, or its upper bound
    """
    startup_us = values['startup_runtime']
    if startup_us is None and values['startup_s'] is None:
        return
    if startup_us is None or values['startup_s'] is None:
        raise exception.InvalidRequest(
            f'{extra_specs.STARTUP_RUNTIME} and {extra_specs.STARTUP_S} need '
            'each other'
        )
    own = Reservation.parse(specs[extra_specs.RESERVATION])
    most_us, rule = own.period_us, f'the period of {own}'
    if values['adapt'] is not None:
        most_us, rule = values['runtime_max'], extra_specs.RUNTIME_MAX
    if not own.runtime_us <= startup_us <= most_us:
        raise exception.InvalidRequest(
            f'{extra_specs.STARTUP_RUNTIME} must be from {own.runtime_us}, '
            f'the runtime of {own}, to {most_us}, {rule}: it is {startup_us}'
        )


def _parse_hint(spec: Spec, hint: Hint, given: object) -> Any:
    """Parse the value of a hint.

    :raises InvalidRequest: if it is not one value of the extra spec
    """
    if isinstance(given, list) and len(given) == 1:
        given = given[0]
    if not isinstance(given, str):
        raise spec.values.error(
            f'the hint {hint.name} takes one value {spec.values.form}'
        )
    try:
        return spec.parse(given)
    except exception.InvalidRequest as err:
        raise type(err)(f'hint {hint.name}: {err}') from err


def _check_hint(
    hint: Hint, wish: Any, field: str, flavor: Any, rule: HintRule
) -> None:
    """Require that the operator's rule allows a hint.

    :param wish: the value of the hint
    :param field: of the extra spec
    :param flavor: the value of the flavor
    :raises HintRefused: if the rule does not allow it
    """
    if rule is HintRule.DENY:
        raise exception.HintRefused(
            f'the hint {hint.name} is not allowed on this cloud: the {field} '
            f'is the flavor\'s, {flavor}'
        )
    excess = hint.excess(wish, flavor)
    if rule is HintRule.LOWER and excess is not None:
        raise exception.HintRefused(f'hint {hint.name}={wish} {excess}')
