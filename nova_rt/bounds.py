# SPDX-License-Identifier: Apache-2.0
"""The operator's bounds on what a flavor and a hint may ask for.

nova-api, nova-scheduler and nova-compute hold every request against the same
rules, so that what one of them lets pass the next does not refuse.
"""

from collections.abc import Mapping
import dataclasses
from typing import Any

from nova_rt import extra_specs
from nova_rt.reservation import Reservation


@dataclasses.dataclass(frozen=True)
class Bounds:
    """What the options of group ``nova_rt`` allow.

    :ivar hints: how far a hint may depart from its flavor
    :ivar min_period_us: shortest period, microseconds
    :ivar max_period_us: longest period, microseconds
    """

    hints: extra_specs.HintRule
    min_period_us: int
    max_period_us: int

    @classmethod
    def from_options(cls, group: Any) -> 'Bounds':
        """From the values of option group ``nova_rt``."""
        return cls(
            extra_specs.HintRule(group.hints),
            group.min_period_us,
            group.max_period_us,
        )

    def check(self, reservation: Reservation) -> None:
        """Hold a reservation against the bounds of the period.

        :raises InvalidReservation: if it breaks them
        """
        reservation.check_period(self.min_period_us, self.max_period_us)

    def parse_request(
        self, specs: Mapping[str, str], vcpus: int, hint: object = None
    ) -> extra_specs.Request | None:
        """What a flavor and a hint ask for, if it is allowed.

        :param specs: the flavor's extra specs
        :param vcpus: the flavor's number of CPUs
        :param hint: as :func:`nova_rt.extra_specs.parse` takes it
        :returns: None for a flavor that is not real-time
        :raises InvalidRequest: with a message for the user
        """
        request = extra_specs.parse(specs, vcpus, hint, self.hints)
        if request is not None:
            self.check(request.reservation)
        return request
