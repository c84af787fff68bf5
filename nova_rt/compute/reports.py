# SPDX-License-Identifier: Apache-2.0
"""Reports to nova-rt-conductor what happens on this host and what is used.

Nothing waits for it: a listener notes each event and returns, and a thread of
its own sends. Once a minute the thread asks a conductor what has come, sends
again what has not, and then the whole picture. While none answers, nothing is
sent, so that no queue grows; events are kept, up to a bound.
"""

from collections.abc import Callable
import threading
import time
from typing import Any, Protocol

from oslo_log import log as logging
import oslo_messaging

from nova_rt.compute.backlog import Backlog
from nova_rt.compute.epoch import Epoch
from nova_rt.compute.host_picture import HostPicture, Source
from nova_rt.compute.meter import Meter, Running
from nova_rt.compute.news import EventConductor, News
from nova_rt.compute.spool import Spool
from nova_rt.compute.usage_sender import UsageConductor, UsageSender
from nova_rt.formats import messages
from nova_rt.formats.reports import HostState, Position
from nova_rt.lxc import domains

LOG = logging.getLogger(__name__)

#: Seconds between two states.
STATE_S = 60
#: Seconds from an event to a state at most.
SOON_S = 5
#: Seconds to wait for more events before sending one.
_GATHER_S = 0.2


class Conductor(EventConductor, UsageConductor, Protocol):
    """The calls to :class:`nova_rt.conductor.rpcapi.ConductorAPI`."""

    def get_position(self, epoch: int) -> Position | None: ...

    def report_state(
        self, epoch: int, seq: int, state: dict[str, Any]
    ) -> None: ...


class Reporter:
    """Sends the reports of this host.

    :param conductor: where to
    :param source: the reservations of this host
    :param running: its running containers
    :param backlog: a listener of the source's events
    :param epoch: of this start of the service
    :param spool: file of events, over restarts of the service
    :param version: of nova_rt
    :param meter: of what servers use; a listener of the source's events
    :param usage_interval: seconds between two readings of it; 0 for none
    """

    def __init__(
        self,
        conductor: Conductor,
        source: Source,
        running: Running,
        backlog: Backlog,
        epoch: Epoch,
        spool: Spool,
        version: str,
        meter: Meter,
        usage_interval: int,
    ) -> None:
        self._conductor = conductor
        self._epoch = epoch
        self._woken = backlog.news
        self._news = News(conductor, backlog, epoch, spool)
        self._picture = HostPicture(source, running, backlog, version)
        self._usage = UsageSender(conductor, meter)
        self._usage_interval = usage_interval
        #: None before it was tried.
        self._answers: bool | None = None
        self._state_seq = 0
        #: Whether libvirt did not say what runs, the last time.
        self._blind = False
        self._stopping = False

    def start(self) -> None:
        """Send from now on, in a thread."""
        threading.Thread(
            target=self._run, name='nova-rt-reports', daemon=True
        ).start()

    def stop(self) -> None:
        """Send no more, and keep what was not sent; does not wait."""
        self._stopping = True
        self._woken.set()
        self.keep()

    def keep(self) -> None:
        """Keep the events so far for the next start of the service."""
        self._news.keep()

    def _run(self) -> None:
        state_s = usage_s = time.monotonic()
        while not self._stopping:
            now_s = time.monotonic()
            if now_s >= state_s:
                self._safely(self.report)
                state_s = now_s + STATE_S
            if self._usage_interval and now_s >= usage_s:
                self._safely(self.report_usage)
                usage_s = now_s + self._usage_interval
            due_s = state_s
            if self._usage_interval:
                due_s = min(due_s, usage_s)
            if self._woken.wait(max(0.0, due_s - time.monotonic())):
                time.sleep(_GATHER_S)
                self._woken.clear()
                self._news.keep()
                self._safely(self.report_news)
                # What the host has reserved has changed, too.
                state_s = min(state_s, time.monotonic() + SOON_S)

    def _safely(self, do: Callable[[], None]) -> None:
        try:
            do()
        except Exception as err:
            # Of the message bus, mostly. Sent again in a minute.
            self._note_answer(False, err)

    def _note_answer(self, answers: bool, why: object = None) -> None:
        if answers is self._answers:
            return
        if not answers:
            LOG.warning(
                'Cannot report to nova-rt-conductor: %s. Events are kept and '
                'reported when one answers; servers are not affected.', why,
            )  # fmt: skip
        elif self._answers is not None:
            LOG.info('Reports to nova-rt-conductor again')
        self._answers = answers

    def report(self) -> None:
        """Ask what has come, send the rest, and the whole picture.

        :raises InvalidReport: if the conductor refuses this host's reports
        :raises MessagingException: if none answers
        """
        self._news.keep()
        position = self._conductor.get_position(self._epoch.number)
        if position is None:
            self._note_answer(False, 'its database does not answer')
            return
        if position.epoch > self._epoch.number:
            # Our file was lost, and the clock was ahead once.
            self._news.renumber(position.epoch + 1)
            self._state_seq = 0
            position = Position(self._epoch.number, 0)
        self._note_answer(True)
        self._news.confirm(position.event_seq)
        self._report_earlier()
        self.report_news()
        if self._picture.complete:
            self._report_state()

    def _report_state(self) -> None:
        self._state_seq += 1
        try:
            state = self.make_state()
        except domains.ERRORS as err:
            if not self._blind:
                LOG.warning(
                    'Cannot report what runs on this host: libvirt does not '
                    'say (%s). It is reported when it does.', err,
                )  # fmt: skip
            self._blind = True
            return
        self._blind = False
        self._conductor.report_state(
            self._epoch.number, self._state_seq, messages.write_state(state)
        )

    def _report_earlier(self) -> None:
        """Send what earlier starts have left; a fault of it ends nothing."""
        try:
            self._news.send_earlier()
        except oslo_messaging.MessagingException:
            raise
        except Exception:
            LOG.exception('Cannot report events of earlier starts')

    def report_news(self) -> None:
        """Send the events that were not sent yet."""
        if self._answers:
            self._news.send()

    def report_usage(self) -> None:
        """Read what was used, and send it if a conductor answers."""
        if not self._picture.complete:
            return
        self._usage.read()
        if self._answers:
            self._usage.send()

    def make_state(self) -> HostState:
        """Draw the whole picture of this host.

        :returns: the state
        """
        return self._picture.draw(self._epoch.number, self._state_seq)
