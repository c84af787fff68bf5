# SPDX-License-Identifier: Apache-2.0
"""The queue of events, from compute services to the conductors.

It is a queue of notifications on the message bus of the cloud, in an exchange
of its own: both are durable and messages are persistent, independent of the
options of the cloud's own queues. The first sender or listener declares them.
"""

import datetime
from typing import Any

from oslo_config import cfg
import oslo_messaging

#: No other program declares it, so that nothing contradicts our arguments.
EXCHANGE = 'nova_rt_history'
#: The only priority that is sent: each has a queue of its own.
PRIORITY = 'info'

#: Options of the driver that hold for this queue, in place of those of the
#: section [oslo_messaging_rabbit].
_OPTIONS = {
    'amqp_durable_queues': 'true',
    'amqp_auto_delete': 'false',
    # A backlog of a day is not sent to one conductor at once.
    'rabbit_qos_prefetch_count': '100',
    # RabbitMQ 4 drops a message of a quorum queue that was returned 20 times:
    # a database may be away for longer.
    'rabbit_quorum_delivery_limit': '1000000000',
}
_RABBIT = ('rabbit', 'kombu')


def make_transport(conf: cfg.ConfigOpts, url: str | None = None) -> Any:
    """Make a transport for notifications.

    :param url: of the message bus; None for ``[DEFAULT] transport_url``
    :returns: an oslo_messaging.Transport, which connects at first use
    """
    parsed = oslo_messaging.TransportURL.parse(conf, url)
    if parsed.transport in _RABBIT:
        parsed.query = {**parsed.query, **_OPTIONS}
    return oslo_messaging.get_notification_transport(conf, url=parsed)


def make_target(conf: cfg.ConfigOpts) -> oslo_messaging.Target:
    """Name the queue, without its priority."""
    return oslo_messaging.Target(
        exchange=EXCHANGE, topic=conf.nova_rt.history_topic
    )


class Sender:
    """Puts notifications into the queue.

    :param conf: the configuration
    :param url: of the message bus; None for ``[DEFAULT] transport_url``
    """

    def __init__(self, conf: cfg.ConfigOpts, url: str | None = None) -> None:
        self._transport = make_transport(conf, url)
        target = make_target(conf)
        self._target = target(topic=f'{target.topic}.{PRIORITY}')

    def send(
        self,
        message_id: str,
        publisher: str,
        event_type: str,
        payload: dict[str, Any],
    ) -> None:
        """Send one notification; on RabbitMQ, wait until the broker has it.

        Not with oslo_messaging.Notifier, which logs an error and goes on, so
        that nothing would be sent again.

        :param message_id: the same if it is sent again
        :raises Exception: of the driver, if it was not sent
        """
        now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
        message = {
            'message_id': message_id,
            'publisher_id': publisher,
            'event_type': event_type,
            'priority': PRIORITY.upper(),
            'payload': payload,
            'timestamp': str(now),
        }
        self._transport._send_notification(
            self._target, {}, message, version=2.0, retry=1
        )


def check(conf: cfg.ConfigOpts) -> str | None:
    """Check that the message bus takes the queue, without reading from it.

    :returns: None if it does, else its answer
    """
    transport = make_transport(conf)
    try:
        # The first step of a listener.
        transport._require_driver_features(requeue=True)
        transport._listen_for_notifications(
            {(make_target(conf), PRIORITY)}, None, 1, None
        ).cleanup()
    except (oslo_messaging.MessagingException, NotImplementedError) as err:
        return str(err) or type(err).__name__
    finally:
        # Not across the fork.
        transport.cleanup()
    return None
