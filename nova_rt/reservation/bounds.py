# SPDX-License-Identifier: Apache-2.0
"""The operator's bounds on the requests of flavors and hints.

nova-api, nova-scheduler and nova-compute check every request against the same
rules, so that none of them refuses a request that another one has accepted.
"""

from collections.abc import Mapping
import dataclasses
from typing import Any

from nova_rt.reservation import resources
from nova_rt.reservation.extra_specs import SPECS
from nova_rt.reservation.request import HintRule, Request
from nova_rt.reservation.reservation import Reservation
from nova_rt.reservation.spec import Spec


@dataclasses.dataclass(frozen=True)
class Bounds:
    """The limits set by the options of group ``nova_rt``.

    :ivar hints: the rule for a hint that departs from its flavor
    :ivar min_period_us: shortest period, microseconds
    :ivar max_period_us: longest period, microseconds
    """

    hints: HintRule
    min_period_us: int
    max_period_us: int

    @classmethod
    def from_options(cls, group: Any) -> 'Bounds':
        """Make the bounds from the values of option group ``nova_rt``."""
        return cls(
            HintRule(group.hints),
            group.min_period_us,
            group.max_period_us,
        )

    def _check(self, value: Any) -> None:
        """Check the value of an extra spec against the bounds.

        :raises InvalidReservation: if it is a reservation that breaks them
        """
        if isinstance(value, Reservation):
            value.check_period(self.min_period_us, self.max_period_us)

    def check_value(self, spec: Spec, text: str) -> None:
        """Check the value of an extra spec against its type and the bounds.

        :param text: the value as it stands in a flavor
        :raises InvalidRequest: if it is not allowed
        """
        self._check(spec.parse(text))

    def parse_request(
        self,
        specs: Mapping[str, str],
        vcpus: int,
        hints: Mapping[str, object] | None = None,
    ) -> Request | None:
        """Read the request of a flavor and its hints, and check it.

        :param specs: the flavor's extra specs
        :param vcpus: the flavor's number of CPUs
        :param hints: as :meth:`~.request.Request.from_flavor` takes them
        :returns: None for a flavor that is not real-time
        :raises InvalidRequest: with a message for the user
        """
        request = Request.from_flavor(specs, vcpus, hints, self.hints)
        if request is not None:
            for field in SPECS:
                self._check(getattr(request, field))
            resources.check(specs)
        return request
