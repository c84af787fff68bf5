# SPDX-License-Identifier: Apache-2.0
"""Sends the events of this host to a conductor, and keeps what has not come.

Events of earlier starts of the service, which the spool has, go first.
"""

from typing import Any, Protocol

from nova_rt.compute.backlog import BACKLOG, Backlog
from nova_rt.compute.epoch import Epoch
from nova_rt.compute.spool import Spool
from nova_rt.formats import messages


class EventConductor(Protocol):
    """The calls to :class:`nova_rt.conductor.rpcapi.ConductorAPI` for this."""

    def report_events(self, epoch: int, events: dict[str, Any]) -> None: ...

    def report_earlier_events(
        self, epoch: int, events: dict[str, Any]
    ) -> bool | None: ...


class News:
    """The events that no conductor has confirmed.

    :param conductor: where to
    :param backlog: a listener of the host's events
    :param epoch: of this start of the service
    :param spool: file of events, over restarts of the service
    """

    def __init__(
        self,
        conductor: EventConductor,
        backlog: Backlog,
        epoch: Epoch,
        spool: Spool,
    ) -> None:
        self._conductor = conductor
        self._backlog = backlog
        self._epoch = epoch
        self._spool = spool
        #: Events that were not confirmed when the service ended.
        self._earlier = spool.read(BACKLOG)
        self._spooled_seq = self._spooled = self._sent_seq = 0

    def keep(self) -> None:
        """Write the events that came since the last time to the spool."""
        new = self._backlog.list_after(self._spooled_seq)
        self._spool.append(self._epoch.number, new)
        if new:
            self._spooled_seq = new[-1].seq
            self._spooled += len(new)
        if self._spooled > BACKLOG:
            self._keep_the_rest()

    def _keep_the_rest(self) -> None:
        """Keep in the spool what no conductor has confirmed, and no more."""
        rest = {
            **self._earlier,
            self._epoch.number: self._backlog.list_after(0),
        }
        self._spool.replace(rest)
        self._spooled = 0

    def renumber(self, epoch: int) -> None:
        """Go on in another epoch, with the events that are kept."""
        self._backlog.renumber()
        self._spooled_seq = 0
        self._epoch.raise_to(epoch)

    def confirm(self, seq: int) -> None:
        """Forget the events up to this one; send those after it again."""
        self._backlog.acknowledge(seq)
        self._sent_seq = seq

    def send_earlier(self) -> None:
        """Send what earlier starts of this service had left."""
        try:
            self._send_earlier()
        finally:
            self._keep_the_rest()

    def _send_earlier(self) -> None:
        for epoch, left in list(self._earlier.items()):
            while left:
                part = left[: messages.MAX_EVENTS]
                if not self._conductor.report_earlier_events(
                    epoch, messages.write_events(part, part[0].seq - 1)
                ):
                    return
                del left[: len(part)]
            del self._earlier[epoch]

    def send(self) -> None:
        """Send the events that were not sent yet."""
        new = self._backlog.list_after(self._sent_seq)
        for start in range(0, len(new), messages.MAX_EVENTS):
            part = new[start : start + messages.MAX_EVENTS]
            self._conductor.report_events(
                self._epoch.number,
                messages.write_events(part, self._backlog.dropped_seq),
            )
            self._sent_seq = part[-1].seq
