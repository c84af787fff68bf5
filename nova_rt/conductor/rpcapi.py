# SPDX-License-Identifier: Apache-2.0
"""Messages of computes to the conductors, over the cloud's message bus."""

from typing import Any

import oslo_messaging

from nova_rt import exception
from nova_rt.formats.reports import Position

TOPIC = 'nova-rt-conductor'
#: Of its own, whatever the exchange of the program that sends.
EXCHANGE = 'nova_rt'
NAMESPACE = 'nova_rt'
#: 1.0: report_state, report_events, report_samples, get_position.
#: 1.1: report_usage in place of report_samples; report_earlier_events.
VERSION = '1.1'


def make_target(**kwargs: Any) -> oslo_messaging.Target:
    """Return where messages go, and the version of the methods."""
    given = {'version': VERSION} | kwargs
    return oslo_messaging.Target(
        exchange=EXCHANGE, topic=TOPIC, namespace=NAMESPACE, **given
    )


def _is(err: oslo_messaging.RemoteError, kind: type[Exception]) -> bool:
    """Whether an error was of this class before it crossed the bus."""
    return bool(err.exc_type == kind.__name__)


class ConductorAPI:
    """Calls from one host.

    Reports are casts: nothing comes back, and one may be lost.

    :param transport: of oslo.messaging
    :param host: name of this host
    :param timeout_s: how long to wait for an answer
    """

    def __init__(self, transport: Any, host: str, timeout_s: int = 10) -> None:
        # Not for ever: what cannot be sent now is sent another time.
        self._client = oslo_messaging.get_rpc_client(
            transport,
            # What conductors of the version before take as well.
            make_target(version='1.0'),
            timeout=timeout_s,
            retry=1,
        )
        self._host = host

    def get_position(self, epoch: int) -> Position | None:
        """Look up what has come of this host's reports.

        :param epoch: ours
        :returns: None if the conductor's database does not answer, or if a
            conductor of the version before refuses our reports
        :raises InvalidReport: if the conductor refuses our reports, with the
            reason
        :raises MessagingException: if none answers
        """
        try:
            answer = self._client.call(
                {}, 'get_position', host=self._host, epoch=epoch
            )
        except oslo_messaging.RemoteError as err:
            if not _is(err, exception.InvalidReport):
                raise
            raise exception.InvalidReport(err.value) from err
        if answer is None:
            return None
        return Position(answer['epoch'], answer['event_seq'])

    def report_state(
        self, epoch: int, seq: int, state: dict[str, Any]
    ) -> None:
        """Send a state; see :func:`.messages.write_state`."""
        self._cast('report_state', epoch=epoch, seq=seq, state=state)

    def report_events(self, epoch: int, events: dict[str, Any]) -> None:
        """Send events; see :func:`.messages.write_events`."""
        self._cast('report_events', epoch=epoch, events=events)

    def report_earlier_events(
        self, epoch: int, events: dict[str, Any]
    ) -> bool | None:
        """Send events of an earlier start; see :meth:`report_usage`."""
        return self._ask('report_earlier_events', epoch=epoch, events=events)

    def report_usage(self, usage: dict[str, Any]) -> bool | None:
        """Send accounts; see :func:`.messages.write_usage`.

        :returns: whether they are in the database; None if the conductor is
            of a version that does not know this report
        :raises MessagingException: if none answers
        """
        return self._ask('report_usage', usage=usage)

    def _ask(self, method: str, **report: Any) -> bool | None:
        client = self._client.prepare(version='1.1')
        try:
            return bool(client.call({}, method, host=self._host, **report))
        except oslo_messaging.UnsupportedVersion:
            return None
        except oslo_messaging.RemoteError as err:
            if not _is(err, oslo_messaging.UnsupportedVersion):
                raise
            return None

    def _cast(self, method: str, **report: Any) -> None:
        self._client.cast({}, method, host=self._host, **report)
