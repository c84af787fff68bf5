# SPDX-License-Identifier: Apache-2.0
"""What a flavor and a hint ask for, read into one :class:`Request`.

nova-api, nova-scheduler and nova-compute read them through this module, so
that all three understand a flavor in the same way.
"""

from collections.abc import Mapping
import dataclasses
import enum
import re
from typing import TypeVar

from nova_rt import exception
from nova_rt.reservation import Reservation

_W = TypeVar('_W', bound=enum.StrEnum)

NAMESPACE = 'rt:'
RESERVATION = 'rt:reservation'
ENFORCEMENT = 'rt:enforcement'
POLICY = 'rt:policy'
PRIORITY = 'rt:priority'

HINT = 'rt_reservation'

RESOURCE_CLASS = 'CUSTOM_RT_BANDWIDTH'
TRAIT_GUARANTEE = 'CUSTOM_RT_GUARANTEE'
TRAIT_LIMIT = 'CUSTOM_RT_LIMIT'

#: Range of a real-time priority that user space may set (sched(7)).
MIN_PRIORITY = 1
MAX_PRIORITY = 99


class Enforcement(enum.StrEnum):
    """What a kernel does for a reservation; what a flavor insists on."""

    #: The runtime is there in every period, whatever else runs.
    GUARANTEE = 'guarantee'
    #: No more than the runtime is taken; there may be less.
    LIMIT = 'limit'


class Policy(enum.StrEnum):
    """Scheduling policy that the container's tasks start with."""

    RR = 'rr'
    FIFO = 'fifo'
    #: Tasks keep SCHED_OTHER; programs inside raise themselves.
    OTHER = 'other'


class HintRule(enum.StrEnum):
    """How far a hint may depart from its flavor."""

    DENY = 'deny'
    LOWER = 'lower'
    ANY = 'any'


@dataclasses.dataclass(frozen=True)
class Request:
    """A server's wish for reserved CPU bandwidth.

    :ivar reservation: the same on each of its CPUs
    :ivar vcpus: number of CPUs
    """

    reservation: Reservation
    vcpus: int
    enforcement: Enforcement = Enforcement.GUARANTEE
    policy: Policy = Policy.RR
    priority: int = MIN_PRIORITY

    @property
    def total_ppm(self) -> int:
        """Bandwidth on all its CPUs together, in ppm of a CPU."""
        return self.vcpus * self.reservation.ppm


def is_rt(specs: Mapping[str, str]) -> bool:
    """Whether a flavor with these extra specs makes real-time servers.

    Any ``rt:`` key counts: a flavor that names a priority but no reservation
    is a mistake to be reported by :func:`parse`, not a plain flavor.
    """
    return any(key.startswith(NAMESPACE) for key in specs)


def parse(
    specs: Mapping[str, str],
    vcpus: int,
    hint: object = None,
    rule: HintRule = HintRule.LOWER,
) -> Request | None:
    """Read a flavor's extra specs, and the hint that came with a server.

    :param hint: value of the ``rt_reservation`` hint as the API or the
        RequestSpec holds it: None, a string or a list with one string
    :param rule: what the operator lets a hint do
    :returns: None for a flavor that is not real-time
    :raises InvalidRequest: with a message for the user
    """
    if not is_rt(specs):
        if hint is not None:
            raise exception.HintRefused(
                f'the hint {HINT} needs a real-time flavor: this flavor has '
                f'no {RESERVATION}'
            )
        return None
    unknown = {key for key in specs if key.startswith(NAMESPACE)} - {
        RESERVATION,
        ENFORCEMENT,
        POLICY,
        PRIORITY,
    }
    if unknown:
        raise exception.InvalidRequest(
            f'unknown extra spec {min(unknown)}: known are {RESERVATION}, '
            f'{ENFORCEMENT}, {POLICY} and {PRIORITY}'
        )
    if RESERVATION not in specs:
        raise exception.InvalidRequest(
            f'a flavor with rt: extra specs needs {RESERVATION}'
        )
    reservation = Reservation.parse(specs[RESERVATION])
    if hint is not None:
        reservation = apply_hint(reservation, hint, rule)
    return Request(
        reservation,
        vcpus,
        parse_enforcement(specs.get(ENFORCEMENT, Enforcement.GUARANTEE)),
        parse_policy(specs.get(POLICY, Policy.RR)),
        parse_priority(specs.get(PRIORITY, str(MIN_PRIORITY))),
    )


def apply_hint(
    flavor: Reservation, hint: object, rule: HintRule
) -> Reservation:
    """The reservation a hint asks for, if the rule allows it on this flavor.

    :raises InvalidReservation: if the hint is not one reservation
    :raises HintRefused: if the rule does not allow it
    """
    if isinstance(hint, list) and len(hint) == 1:
        hint = hint[0]
    if not isinstance(hint, str):
        raise exception.InvalidReservation(
            f'the hint {HINT} takes one value <runtime_us>/<period_us>, for '
            'example 1400/2000'
        )
    try:
        wanted = Reservation.parse(hint)
    except exception.InvalidReservation as err:
        raise exception.InvalidReservation(f'hint {HINT}: {err}') from err
    if rule is HintRule.DENY:
        raise exception.HintRefused(
            f'the hint {HINT} is not allowed on this cloud: the reservation '
            f'is the flavor\'s, {flavor}'
        )
    # Cross-multiplied: exact, where two rounded bandwidths could tie.
    if rule is HintRule.LOWER and (
        wanted.runtime_us * flavor.period_us
        > flavor.runtime_us * wanted.period_us
    ):
        raise exception.HintRefused(
            f'hint {HINT}={wanted} asks for {wanted.ppm} ppm of a CPU, more '
            f'than the flavor\'s {flavor} ({flavor.ppm} ppm): a hint may '
            'only ask for less'
        )
    return wanted


def parse_enforcement(text: str) -> Enforcement:
    """Read the value of ``rt:enforcement``.

    :raises InvalidRequest: if it is no such word
    """
    return _word(ENFORCEMENT, Enforcement, text)


def parse_policy(text: str) -> Policy:
    """Read the value of ``rt:policy``.

    :raises InvalidRequest: if it is no such word
    """
    return _word(POLICY, Policy, text)


def parse_priority(text: str) -> int:
    """Read the value of ``rt:priority``, 1 (lowest) to 99.

    :raises InvalidRequest: if it is no such number
    """
    if re.fullmatch('[0-9]{1,2}', text) and int(text) >= MIN_PRIORITY:
        return int(text)
    raise exception.InvalidRequest(
        f'{PRIORITY} must be a whole number from {MIN_PRIORITY} to '
        f'{MAX_PRIORITY}, not {text[:40]!r}'
    )


def _word(key: str, words: type[_W], text: str) -> _W:
    try:
        return words(text)
    except ValueError as err:
        allowed = ', '.join(words)
        raise exception.InvalidRequest(
            f'{key} must be one of {allowed}, not {text[:40]!r}'
        ) from err
