# SPDX-License-Identifier: Apache-2.0
"""Takes events from their queue into the database, and deletes old ones.

An event that cannot be read is dropped with an error in the log. An event that
the database does not take goes back into the queue, after a pause. Both are
counted; the error of the database is logged once until it takes events again.
"""

from collections.abc import Callable
import datetime
import itertools
import json
import logging as stdlib_logging
import threading
from typing import Any

from oslo_log import log as logging
import oslo_messaging
from oslo_messaging.notify import dispatcher
from oslo_messaging.notify import listener as notify_listener

from nova_rt import exception
from nova_rt.conductor import metrics, queue
from nova_rt.conductor.changes import Changes
from nova_rt.db import api, changes
from nova_rt.formats import history
from nova_rt.formats.changes import WAKE

LOG = logging.getLogger(__name__)

#: Seconds between two attempts while the database does not take events.
PAUSE_S = 5.0

#: Characters of a dropped event that are logged.
_LOGGED = 4000


def quieten() -> None:
    """Keep oslo.db from logging each error that we log once."""
    stdlib_logging.getLogger('oslo_db.sqlalchemy.exc_filters').setLevel(
        stdlib_logging.CRITICAL
    )


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class Events:
    """The endpoint of the queue. Its method may run in several threads.

    :param stopping: ends the pause before an event goes back
    :param changes: is told of events that concern changes of reservations
    :param clock: says the time
    """

    def __init__(
        self,
        stopping: threading.Event,
        changes: Changes,
        clock: Callable[[], datetime.datetime] = _now,
    ) -> None:
        self._stopping = stopping
        self._changes = changes
        self._clock = clock
        self._lock = threading.Lock()
        self._database_up = True

    def info(
        self,
        context: Any,
        publisher_id: Any,
        event_type: Any,
        payload: Any,
        metadata: Any,
    ) -> str:
        """Take one event.

        :returns: whether the queue may forget it, or is to deliver it again
        """
        if self._stopping.is_set():
            # Others have more time for a database that may not answer.
            return str(oslo_messaging.NotificationResult.REQUEUE)
        if event_type == WAKE:
            self._changes.wake()
            return str(oslo_messaging.NotificationResult.HANDLED)
        try:
            event = history.read(metadata['message_id'], event_type, payload)
            api.add_event(event, self._clock())
            self._changes.note(event.kind, event.server, event.host)
        except exception.InvalidReport as err:
            self._drop(str(err), publisher_id, payload)
        except api.ERRORS as err:
            if api.is_of_value(err):
                self._drop(f'the database {api.describe(err)}', publisher_id,
                           payload)  # fmt: skip
                return str(oslo_messaging.NotificationResult.HANDLED)
            metrics.FAILED.inc()
            self._note_failure(err)
            self._stopping.wait(PAUSE_S)
            return str(oslo_messaging.NotificationResult.REQUEUE)
        except Exception:
            # Delivered again, it would fail again, for ever.
            LOG.exception('Cannot take an event')
            self._drop('of the error above', publisher_id, payload)
        else:
            metrics.EVENTS.inc()
            self._note_success()
        return str(oslo_messaging.NotificationResult.HANDLED)

    def _drop(self, reason: str, publisher: Any, payload: Any) -> None:
        metrics.REFUSED.inc()
        text = json.dumps(payload, default=repr)
        LOG.error(
            'Dropped an event from %s because of this: %s. The event: %s',
            history.clean(str(publisher)), history.clean(reason),
            ascii(text[:_LOGGED]),
        )  # fmt: skip

    def _note_failure(self, err: Exception) -> None:
        with self._lock:
            if not self._database_up:
                return
            self._database_up = False
        LOG.error(
            'The database takes no events: it %s. They stay in the queue, '
            'and each is tried again every %d s.', api.describe(err), PAUSE_S,
        )  # fmt: skip

    def _note_success(self) -> None:
        if self._database_up:
            return
        with self._lock:
            self._database_up = True
        LOG.info('The database takes events again')


class _Dispatcher(dispatcher.NotificationDispatcher):  # type: ignore[misc]
    """Drops a message that is no notification at all.

    oslo.messaging would put it back into the queue, and take it again at
    once, for ever.
    """

    def dispatch(self, incoming: Any) -> Any:
        """Dispatch a message.

        :returns: whether it is to be delivered again
        """
        try:
            return super().dispatch(incoming)
        except Exception as err:
            metrics.REFUSED.inc()
            LOG.error(
                'Dropped a message that is no notification: %r (%s)',
                ascii(incoming.message)[:_LOGGED], type(err).__name__,
            )  # fmt: skip
            return oslo_messaging.NotificationResult.HANDLED


def make_listener(conf: Any, endpoint: Events, transport: Any = None) -> Any:
    """Make the listener of a worker.

    As oslo_messaging.get_notification_listener(), with our dispatcher.

    :param transport: of the queue; None to make one
    :returns: an oslo_messaging.MessageHandlingServer
    """
    if transport is None:
        transport = queue.make_transport(conf)
    transport._require_driver_features(requeue=True)
    return notify_listener.NotificationServer(
        transport,
        [queue.make_target(conf)],
        _Dispatcher([endpoint], None),
        'threading',
        allow_requeue=True,
    )


class Upkeep:
    """Deletes events, and changes that have ended, which are too old.

    :param keep: age of those that stay
    :param clock: says the time
    """

    def __init__(
        self,
        keep: datetime.timedelta,
        clock: Callable[[], datetime.datetime] = _now,
    ) -> None:
        self._keep = keep
        self._clock = clock
        self._failing = False

    def run(self, stopping: Callable[[], bool] = lambda: False) -> None:
        """Delete expired events; other conductors may do the same meanwhile.

        :param stopping: asked between two steps whether to leave the rest
        """
        try:
            now = self._clock()
            for rows in itertools.chain(
                api.purge(now, self._keep),
                iter(lambda: changes.purge(now - self._keep), 0),
            ):
                metrics.PURGED.inc(rows)
                if stopping():
                    return
        except api.ERRORS as err:
            metrics.UPKEEP_FAILED.inc()
            if not self._failing:
                LOG.error(
                    'Could not delete expired events: the database %s. '
                    'The next run goes on.',
                    api.describe(err),
                )
            self._failing = True
        else:
            self._failing = False
