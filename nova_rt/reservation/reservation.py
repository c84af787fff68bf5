# SPDX-License-Identifier: Apache-2.0
"""The reservation (Q, P): runtime Q in every period P, on each CPU.

Its one spelling, ``<runtime_us>/<period_us>``, is the value of the flavor's
extra spec and of the scheduler hint.
"""

import dataclasses
import re

from nova_rt import exception

#: One CPU, in the unit of every sum that admission makes.
PPM = 1_000_000

#: A SCHED_DEADLINE server is refused a runtime below 1024 ns (Linux
#: kernel/sched/deadline.c, __checkparam_dl(), DL_SCALE).
MIN_RUNTIME_US = 2

#: Linux's default bounds on the period of a SCHED_DEADLINE entity
#: (kernel/sched/deadline.c, sysctl_sched_dl_period_min and _max).
MIN_PERIOD_US = 100
MAX_PERIOD_US = 1 << 22

# ASCII digits only: int() and \d would also take other scripts' digits, which
# the kernel does not. At most nine, so that nothing overflows anywhere.
_SPELLING = re.compile(r'([0-9]{1,9})/([0-9]{1,9})', re.ASCII)


@dataclasses.dataclass(frozen=True)
class Reservation:
    """Runtime in every period, on one CPU.

    :ivar runtime_us: Q, microseconds, ``MIN_RUNTIME_US <= Q <= P``
    :ivar period_us: P, microseconds, ``MIN_PERIOD_US <= P <= MAX_PERIOD_US``
    :raises InvalidReservation: if the numbers break these bounds
    """

    runtime_us: int
    period_us: int

    def __post_init__(self) -> None:
        if not MIN_PERIOD_US <= self.period_us <= MAX_PERIOD_US:
            raise exception.InvalidReservation(
                f'period of {self.period_us} us is out of range: it must be '
                f'from {MIN_PERIOD_US} to {MAX_PERIOD_US} us'
            )
        if self.runtime_us < MIN_RUNTIME_US:
            raise exception.InvalidReservation(
                f'runtime of {self.runtime_us} us is out of range: it must '
                f'be at least {MIN_RUNTIME_US} us'
            )
        if self.runtime_us > self.period_us:
            raise exception.InvalidReservation(
                f'runtime of {self.runtime_us} us exceeds the period of '
                f'{self.period_us} us'
            )

    @classmethod
    def parse(cls, text: str) -> 'Reservation':
        """Parse ``<runtime_us>/<period_us>``, for example ``1400/2000``.

        :returns: the reservation
        :raises InvalidReservation: if the text has another format or its
            numbers are out of range
        """
        match = _SPELLING.fullmatch(text)
        if match is None:
            shown = text if len(text) <= 40 else text[:40] + '...'
            raise exception.InvalidReservation(
                f'{shown!r} is not a reservation: write '
                '<runtime_us>/<period_us> with whole numbers of microseconds, '
                'for example 1400/2000'
            )
        return cls(int(match[1]), int(match[2]))

    @property
    def ppm(self) -> int:
        """Bandwidth Q/P in ppm of a CPU, rounded up.

        It is rounded up so that reservations fit wherever the sum of their
        bandwidths does: sum(Q/P) <= sum(ppm) / 10^6.
        """
        return -(-self.runtime_us * PPM // self.period_us)

    def check_period(self, min_us: int, max_us: int) -> None:
        """Check the period against an operator's bounds.

        :raises InvalidReservation: if the period is not in [min_us, max_us]
        """
        if not min_us <= self.period_us <= max_us:
            raise exception.InvalidReservation(
                f'period of {self.period_us} us is not offered here: this '
                f'cloud allows {min_us} to {max_us} us'
            )

    def __str__(self) -> str:
        return f'{self.runtime_us}/{self.period_us}'
