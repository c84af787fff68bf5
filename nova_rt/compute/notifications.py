# SPDX-License-Identifier: Apache-2.0
"""Versioned notifications ``nova_rt.reservation.*``, for every listener.

Each event becomes one notification, in the thread in which it happens: that
knows the time, and the request on which it works. Channels send it.
"""

from collections.abc import Callable
import dataclasses
import threading
import time
from typing import Any
import uuid

from nova import context, rpc
from nova.notifications.objects import base as notification_base
from nova.objects import base, fields
from oslo_context import context as request_context

from nova_rt import events
from nova_rt.compute import queued_listener
from nova_rt.formats import history
from nova_rt.reservation import extra_specs, record, spec, spec_values

#: Those that somebody has to look at.
_ERRORS = (events.Drifted, events.Stopped, events.Unverified)


def _make_field(entry: spec.Spec) -> fields.Field:
    if isinstance(entry.values, spec_values.Number):
        return fields.IntegerField(nullable=True)
    return fields.StringField(nullable=True)


_OF_RECORDS = {
    'runtime_us': fields.IntegerField(nullable=True),
    'period_us': fields.IntegerField(nullable=True),
    'bandwidth_ppm': fields.IntegerField(nullable=True),
    'cpus': fields.ListOfIntegersField(nullable=True),
    **{
        name: _make_field(entry)
        for name, entry in extra_specs.SPECS.items()
        # Said by the first three.
        if name != 'reservation'
    },
}


# Not in Nova's registry: that is for what its services send each other.
@base.NovaObjectRegistry.register_if(False)
class RTReservationPayload(notification_base.NotificationPayloadBase):
    """The payload of an event of a server's reservation.

    Fields of the reservation are null in ``stopped``, ``unverified`` and
    ``refused``; action, the refused one, is null in all but the last. Each
    extra spec has a field: a new one takes a new version, as a test checks.
    ``at_us`` is the time by the clock of the host, in microseconds since 1970:
    it grows with each event of a start of the service. The IDs are those of
    the request in which it happened.
    """

    # Version 1.0: Initial version
    # Version 1.1: Added numa
    # Version 1.2: Added at_us, request_id, user_id, project_id
    # Version 1.3: Added runtime_min, runtime_max
    # Version 1.4: Added adapt
    # Version 1.5: Added spare, spare_priority
    # Version 1.6: Added startup_runtime, startup_s
    VERSION = '1.6'
    OBJ_PROJECT_NAMESPACE = 'nova_rt'

    fields = {
        'uuid': fields.UUIDField(),
        'host': fields.StringField(),
        **_OF_RECORDS,
        'action': fields.StringField(nullable=True),
        'details': fields.StringField(nullable=True),
        'at_us': fields.IntegerField(),
        'request_id': fields.StringField(nullable=True),
        'user_id': fields.StringField(nullable=True),
        'project_id': fields.StringField(nullable=True),
    }

    def __init__(self, host: str, event: events.Event, at_us: int) -> None:
        super().__init__()
        self.uuid = event.uuid
        self.host = host
        self.at_us = at_us
        request = request_context.get_current()
        for name in ('request_id', 'user_id', 'project_id'):
            setattr(self, name, getattr(request, name, None))
        for name, value in _describe(event.held).items():
            setattr(self, name, value)
        self.action = None
        if isinstance(event, events.Refused):
            self.action = event.action
        self.details = event.details or None
        # All are new, which says nothing.
        self.obj_reset_changes()


@dataclasses.dataclass(frozen=True)
class Notice:
    """A notification that is ready to be sent.

    :ivar id: of the event, the same on every channel
    :ivar failure: whether somebody has to look at it
    :ivar payload: plain JSON types
    """

    id: str
    publisher: str
    event_type: str
    failure: bool
    payload: dict[str, Any]


Channel = Callable[[Notice], None]


class Announcer:
    """A listener that makes a notification of each event that is news.

    :param host: name of this host
    :param channels: take each notification, and return at once
    """

    def __init__(self, host: str, *channels: Channel) -> None:
        self._host = host
        self._channels = channels
        self._lock = threading.Lock()
        self._last_us = 0

    def __call__(self, event: events.Event) -> None:
        """Hand its notification to all channels."""
        if event.repeated:
            return
        with self._lock:
            # A clock that is set back changes no order.
            at_us = max(time.time_ns() // 1000, self._last_us + 1)
            self._last_us = at_us
        notice = Notice(
            str(uuid.uuid4()),
            f'nova-compute:{self._host}',
            f'{history.PREFIX}{event.kind}',
            isinstance(event, _ERRORS),
            RTReservationPayload(self._host, event, at_us).obj_to_primitive(),
        )
        for channel in self._channels:
            channel(notice)


class Notifier:
    """A channel to all listeners of Nova's versioned notifications."""

    def __init__(self) -> None:
        self._context = context.get_admin_context()

    def __call__(self, notice: Notice) -> None:
        """Send it; waits for the message bus."""
        notifier = rpc.get_versioned_notifier(notice.publisher)
        send = notifier.error if notice.failure else notifier.info
        send(self._context, notice.event_type, notice.payload)


@rpc.if_notifications_enabled
def _add_notifier(channels: list[Channel]) -> None:
    channels.append(queued_listener.QueuedListener(Notifier()))


def subscribe(
    dispatcher: events.Dispatcher, host: str, *channels: Channel
) -> None:
    """Send notifications from now on, to Nova's if it sends versioned ones.

    :param host: name of this host
    :param channels: others
    """
    wanted = list(channels)
    _add_notifier(wanted)
    if wanted:
        dispatcher.subscribe(Announcer(host, *wanted))


def _describe(rec: record.Record | None) -> dict[str, Any]:
    if rec is None:
        return dict.fromkeys(_OF_RECORDS)
    reservation = rec.request.reservation
    described = rec.request.plain() | {
        'runtime_us': reservation.runtime_us,
        'period_us': reservation.period_us,
        'bandwidth_ppm': reservation.ppm,
        'cpus': list(rec.cpus),
    }
    return {name: described[name] for name in _OF_RECORDS}
