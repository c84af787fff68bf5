# SPDX-License-Identifier: Apache-2.0
"""Sends what servers of this host have held and used to a conductor."""

from typing import Any, Protocol

from oslo_log import log as logging

from nova_rt.compute.meter import Meter
from nova_rt.formats import messages

LOG = logging.getLogger(__name__)

#: Of so many readings, one is reported before its hour is over.
READINGS = 5


class UsageConductor(Protocol):
    """The call to :class:`nova_rt.conductor.rpcapi.ConductorAPI` for this."""

    def report_usage(self, usage: dict[str, Any]) -> bool | None: ...


class UsageSender:
    """The hours that no conductor has taken.

    :param conductor: where to
    :param meter: of what servers use
    """

    def __init__(self, conductor: UsageConductor, meter: Meter) -> None:
        self._conductor = conductor
        self._meter = meter
        self._readings = 0
        #: Whether the conductor knows nothing of usage.
        self._too_old = False

    def read(self) -> None:
        """Read what was used."""
        self._meter.read()

    def send(self) -> None:
        """Send the hours that are over, and sometimes all."""
        hours = self._meter.list_hours(closed=self._readings % READINGS > 0)
        self._readings += 1
        for start in range(0, len(hours), messages.MAX_ACCOUNTS):
            part = hours[start : start + messages.MAX_ACCOUNTS]
            taken = self._conductor.report_usage(messages.write_usage(part))
            if taken is None and not self._too_old:
                LOG.warning(
                    'nova-rt-conductor is older than this service: usage '
                    'is kept until it is upgraded'
                )
            self._too_old = taken is None
            if not taken:
                return
            self._meter.settle(part)
