# SPDX-License-Identifier: Apache-2.0
"""Messages of computes to the conductors, over the cloud's message bus."""

from typing import Any

import oslo_messaging

from nova_rt.db.objects import Position

TOPIC = 'nova-rt-conductor'
#: Of its own, whatever the exchange of the program that sends.
EXCHANGE = 'nova_rt'
NAMESPACE = 'nova_rt'
#: 1.0: report_state, report_events, report_samples, get_position.
VERSION = '1.0'


def make_target(**kwargs: Any) -> oslo_messaging.Target:
    """Say where messages go, and in which version of the methods.

    :returns: the target
    """
    return oslo_messaging.Target(
        exchange=EXCHANGE,
        topic=TOPIC,
        namespace=NAMESPACE,
        version=VERSION,
        **kwargs,
    )


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
            transport, make_target(), timeout=timeout_s, retry=1
        )
        self._host = host

    def get_position(self, epoch: int) -> Position | None:
        """Ask what has come of this host's reports.

        :param epoch: ours
        :returns: None if the conductor cannot take reports at the moment
        :raises MessagingException: if none answers
        """
        answer = self._client.call(
            {}, 'get_position', host=self._host, epoch=epoch
        )
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

    def report_samples(self, samples: dict[str, Any]) -> None:
        """Send samples; see :func:`.messages.write_samples`."""
        self._cast('report_samples', samples=samples)

    def _cast(self, method: str, **report: Any) -> None:
        self._client.cast({}, method, host=self._host, **report)
