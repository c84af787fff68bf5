# SPDX-License-Identifier: Apache-2.0
"""The table of the ``rt:`` extra specs of flavors.

:class:`ExtraSpecs` is the table. The known keys, the validators of nova-api,
the rules for hints, the fields of records, notifications, commands and the
audit, and the table in the manual are all derived from it: a new extra spec is
one more field there.
"""

from collections.abc import Iterable, Mapping
import dataclasses
import enum
from typing import Any

from nova_rt import exception
from nova_rt.reservation import reservation, spec_values
from nova_rt.reservation.reservation import Reservation
from nova_rt.reservation.spec import Hint, Spec

NAMESPACE = 'rt:'
RESERVATION = 'rt:reservation'
ENFORCEMENT = 'rt:enforcement'
POLICY = 'rt:policy'
PRIORITY = 'rt:priority'
NUMA = 'rt:numa'
RUNTIME_MIN = 'rt:runtime_min'
RUNTIME_MAX = 'rt:runtime_max'
ADAPT = 'rt:adapt'
STARTUP_RUNTIME = 'rt:startup_runtime'
STARTUP_S = 'rt:startup_s'
SPARE = 'rt:spare'
SPARE_PRIORITY = 'rt:spare_priority'

HINT = 'rt_reservation'

RESOURCE_CLASS = 'CUSTOM_RT_BANDWIDTH'
TRAIT_GUARANTEE = 'CUSTOM_RT_GUARANTEE'
TRAIT_SOFT = 'CUSTOM_RT_SOFT'
TRAIT_LIMIT = 'CUSTOM_RT_LIMIT'
#: Of hosts with a pool of spare bandwidth.
TRAIT_SPARE = 'CUSTOM_RT_SPARE'

#: Of real-time tasks, as user space may set it: sched(7).
MAX_PRIORITY = 99

#: Longest boost of a server that starts, in seconds.
MAX_STARTUP_S = 3600


class Enforcement(enum.StrEnum):
    """The way a kernel enforces reservations; a flavor requires one.

    In the order of their strength: a kernel keeps weaker promises, too.
    """

    #: The full runtime in every period, regardless of other load.
    GUARANTEE = 'guarantee'
    #: The same, except while real-time tasks of the host itself run, and
    #: until the kernel ends the scheduler that holds the reservations.
    SOFT = 'soft'
    #: At most the runtime in every period, and possibly less.
    LIMIT = 'limit'

    def fulfils(self, sold: 'Enforcement') -> bool:
        """Tell whether a kernel with this enforcement keeps a promise.

        :param sold: the promise
        :returns: False if the promise is stronger
        """
        order = list(Enforcement)
        return order.index(self) <= order.index(sold)


class TaskPolicy(enum.StrEnum):
    """Initial scheduling policy of the container's tasks."""

    RR = 'rr'
    FIFO = 'fifo'
    #: Tasks keep SCHED_OTHER; programs inside raise themselves.
    OTHER = 'other'


class Numa(enum.StrEnum):
    """The demand for CPUs on one NUMA node."""

    #: On one node where they fit, else on several.
    PREFER = 'prefer'
    #: On one node, or the host is refused.
    SAME = 'same'
    #: Nodes do not matter.
    ANY = 'any'


class Adapt(enum.StrEnum):
    """The law by which the runtime of a server follows its load."""

    #: Grows when budgets are used up, shrinks to the largest use and a margin.
    THROTTLED = 'throttled'
    #: Keeps to a quantile of the consumed time, with a surplus.
    QUANTILE = 'quantile'


def _exceeds(wanted: Reservation, flavor: Reservation) -> str | None:
    # Cross-multiplied: exact, where two rounded bandwidths could tie.
    if (
        wanted.runtime_us * flavor.period_us
        > flavor.runtime_us * wanted.period_us
    ):
        return (
            f'asks for {wanted.ppm} ppm of a CPU, more than the flavor\'s '
            f'{flavor} ({flavor.ppm} ppm): a hint may only ask for less'
        )
    # Each replenishment costs the host time, at any bandwidth.
    if wanted.period_us < flavor.period_us:
        return (
            f'has a period of {wanted.period_us} us, shorter than the '
            f'{flavor.period_us} us of the flavor\'s {flavor}: a hint may '
            'only ask for the same or a longer one'
        )
    return None


#: A value for programs that do not know its type: text as a flavor has it, a
#: number, or None.
Plain = str | int | None


def _plain(value: Any) -> Plain:
    if value is None or isinstance(value, int):
        return value
    return str(value)


_RUNTIMES = spec_values.Number(
    reservation.MIN_RUNTIME_US, reservation.MAX_PERIOD_US
)

# The table


@dataclasses.dataclass(frozen=True)
class ExtraSpecs:
    """The table: a field for each extra spec, named after its key.

    A field has the type of the value, its default, and as metadata the rest
    of a :class:`Spec`. An object has the values of one flavor.
    """

    def plain(self) -> dict[str, Plain]:
        """Convert all values to plain ones, to show or compare them.

        :returns: field -> value; None for an extra spec without one
        """
        return {field: _plain(getattr(self, field)) for field in SPECS}

    reservation: Reservation = dataclasses.field(
        metadata={
            'key': RESERVATION,
            'values': spec_values.ReservationValues(),
            'hint': Hint(HINT, _exceeds),
            'text': 'CPU time reserved on each vCPU: a runtime in every '
            'period, in whole microseconds. Makes the flavor a real-time '
            f'one. The runtime is at least {reservation.MIN_RUNTIME_US} and '
            'at most the period; the period is from '
            f'{reservation.MIN_PERIOD_US} to {reservation.MAX_PERIOD_US}, '
            'and within the bounds of the cloud (``[nova_rt] '
            'min_period_us`` and ``max_period_us``).',
        }
    )
    _: dataclasses.KW_ONLY
    enforcement: Enforcement = dataclasses.field(
        default=Enforcement.GUARANTEE,
        metadata={
            'key': ENFORCEMENT,
            'values': spec_values.Words(Enforcement),
            'letter': 'e',
            'text': 'What the kernel of the host must do for the '
            'reservation. ``soft`` also accepts hosts with nova-rt-sched on '
            'a stock kernel, ``limit`` those whose kernel only keeps servers '
            'from taking more, too.',
        },
    )
    policy: TaskPolicy = dataclasses.field(
        default=TaskPolicy.RR,
        metadata={
            'key': POLICY,
            'values': spec_values.Words(TaskPolicy),
            'letter': 's',
            'text': 'Scheduling policy that every process of the container '
            'starts with. ``other`` is for programs that call '
            '``sched_setscheduler()`` themselves; in user namespaces they '
            'may not, and the server is refused.',
        },
    )
    priority: int = dataclasses.field(
        default=1,
        metadata={
            'key': PRIORITY,
            'values': spec_values.Number(1, MAX_PRIORITY),
            'letter': 'r',
            'text': 'Real-time priority that every process of the container '
            'starts with. 99 is the highest.',
        },
    )
    numa: Numa = dataclasses.field(
        default=Numa.PREFER,
        metadata={
            'key': NUMA,
            'values': spec_values.Words(Numa),
            'letter': 'm',
            'text': 'Whether the CPUs of a server with several vCPUs are on '
            'one NUMA node of the host. ``prefer`` takes CPUs of several '
            'nodes where no node has enough, ``same`` refuses such a host, '
            'and ``any`` does not look at nodes. The memory of the server '
            'is not bound to a node.',
        },
    )
    runtime_min: int | None = dataclasses.field(
        default=None,
        metadata={
            'key': RUNTIME_MIN,
            'values': _RUNTIMES,
            'letter': 'l',
            'text': 'Shortest runtime, in microseconds, that the owner of a '
            'server may give it while it runs. Without it, that is the '
            'runtime of the flavor.',
        },
    )
    runtime_max: int | None = dataclasses.field(
        default=None,
        metadata={
            'key': RUNTIME_MAX,
            'values': _RUNTIMES,
            'letter': 'h',
            'text': 'Longest runtime, likewise. Without both, only operators '
            'may change the reservation of a running server.',
        },
    )
    adapt: Adapt | None = dataclasses.field(
        default=None,
        metadata={
            'key': ADAPT,
            'values': spec_values.Words(Adapt),
            'letter': 'a',
            'text': 'Whether the host moves the runtime of a running server '
            f'between ``{RUNTIME_MIN}`` and ``{RUNTIME_MAX}``, of which the '
            'flavor needs one, and by which law. ``throttled`` grows when '
            'the server has used up its runtime, and shrinks to its largest '
            'use with a margin; ``quantile`` keeps to a quantile of its use. '
            'Without it, the runtime stays as it is.',
        },
    )
    startup_runtime: int | None = dataclasses.field(
        default=None,
        metadata={
            'key': STARTUP_RUNTIME,
            'values': _RUNTIMES,
            'letter': 'o',
            'text': 'Runtime, in microseconds, that the host gives to a '
            'server while it starts, as far as its CPUs have it free: at '
            'least the runtime of the flavor and at most its period, or '
            f'``{RUNTIME_MAX}`` with ``{ADAPT}``. It needs '
            f'``{STARTUP_S}``.',
        },
    )
    startup_s: int | None = dataclasses.field(
        default=None,
        metadata={
            'key': STARTUP_S,
            'values': spec_values.Number(1, MAX_STARTUP_S),
            'letter': 't',
            'text': 'Seconds from the start of the server until it returns '
            f'from ``{STARTUP_RUNTIME}`` to its own runtime.',
        },
    )
    spare: Reservation | None = dataclasses.field(
        default=None,
        metadata={
            'key': SPARE,
            'values': spec_values.ReservationValues(),
            'letter': 'b',
            'text': 'Lets urgent tasks use a pool of spare bandwidth on their '
            'CPU while the server has used up its runtime. The host must have '
            'a pool (``[nova_rt] spare_pool``) that serves this runtime '
            'within this period if nobody else uses it; all servers with this '
            'extra spec on a CPU share it. Often a shorter period is the '
            'better answer.',
        },
    )
    spare_priority: int | None = dataclasses.field(
        default=None,
        metadata={
            'key': SPARE_PRIORITY,
            'values': spec_values.Number(1, MAX_PRIORITY),
            'letter': 'k',
            'text': 'Least real-time priority of the tasks that use the pool '
            f'of ``{SPARE}``. Programs of the server may set priorities up to '
            f'this one. Without it, the first above ``{PRIORITY}``.',
        },
    )


#: Field of :class:`ExtraSpecs` -> its entry.
SPECS: Mapping[str, Spec] = {
    field.name: Spec(default=field.default, **field.metadata)
    for field in dataclasses.fields(ExtraSpecs)
}

#: Names of the hints.
HINTS = tuple(spec.hint.name for spec in SPECS.values() if spec.hint)


# Queries of the table


def is_rt(specs: Mapping[str, str]) -> bool:
    """Check whether a flavor with these extra specs is a real-time one.

    Any ``rt:`` key counts: a flavor that names a priority but no reservation
    is a mistake to be reported by :func:`check_keys`, not a plain flavor.
    """
    return any(key.startswith(NAMESPACE) for key in specs)


def find(key: str) -> Spec:
    """Look up an extra spec by its key.

    :returns: its entry
    :raises InvalidRequest: if there is none
    """
    for spec in SPECS.values():
        if spec.key == key:
            return spec
    known = _join([spec.key for spec in SPECS.values()])
    raise exception.InvalidRequest(
        f'unknown extra spec {key}: known are {known}'
    )


def check_keys(specs: Mapping[str, str]) -> None:
    """Require the mandatory keys of a real-time flavor, and only known ones.

    :raises InvalidRequest: if an ``rt:`` key is unknown, or one is missing
    """
    for key in sorted(specs):
        if key.startswith(NAMESPACE):
            find(key)
    for spec in SPECS.values():
        if spec.default is dataclasses.MISSING and spec.key not in specs:
            raise exception.InvalidRequest(
                f'a flavor with {NAMESPACE} extra specs needs {spec.key}'
            )


def check_hints(names: Iterable[str]) -> None:
    """Require that hints with our prefix are known.

    :raises HintRefused: if one is unknown
    """
    unknown = {*names} - {*HINTS}
    if unknown:
        known = (
            'the only real-time hint is' if len(HINTS) == 1 else 'known are'
        )
        raise exception.HintRefused(
            f'unknown hint {min(unknown)}: {known} {_join(HINTS)}'
        )


def _join(words: Iterable[str]) -> str:
    *head, last = words
    return f'{", ".join(head)} and {last}' if head else last
