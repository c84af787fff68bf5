# SPDX-License-Identifier: Apache-2.0
"""Versioned notifications ``nova_rt.reservation.*``, beside Nova's own."""

from typing import Any

from nova import context, rpc
from nova.notifications.objects import base as notification_base
from nova.objects import base, fields

from nova_rt import events
from nova_rt.compute import aside
from nova_rt.reservation import extra_specs, record, spec_values

#: Those that somebody has to look at.
_ERRORS = (events.Drifted, events.Stopped, events.Unverified)


def _make_field(spec: extra_specs.Spec) -> fields.Field:
    if isinstance(spec.values, spec_values.Number):
        return fields.IntegerField(nullable=True)
    return fields.StringField(nullable=True)


_OF_RECORDS = {
    'runtime_us': fields.IntegerField(nullable=True),
    'period_us': fields.IntegerField(nullable=True),
    'bandwidth_ppm': fields.IntegerField(nullable=True),
    'cpus': fields.ListOfIntegersField(nullable=True),
    **{
        name: _make_field(spec)
        for name, spec in extra_specs.SPECS.items()
        # Said by the first three.
        if name != 'reservation'
    },
}


# Not in Nova's registry: that is for what its services send each other.
@base.NovaObjectRegistry.register_if(False)
class RTReservationPayload(notification_base.NotificationPayloadBase):
    """The payload that tells what happened to the reservation of a server.

    Fields of the reservation are null in ``stopped``, ``unverified`` and
    ``refused``; action, what was refused, is null in all but the last. Each
    extra spec has a field: a new one takes a new version, which a test sees
    to.
    """

    # Version 1.0: Initial version
    # Version 1.1: Added numa
    VERSION = '1.1'
    OBJ_PROJECT_NAMESPACE = 'nova_rt'

    fields = {
        'uuid': fields.UUIDField(),
        'host': fields.StringField(),
        **_OF_RECORDS,
        'action': fields.StringField(nullable=True),
        'details': fields.StringField(nullable=True),
    }

    def __init__(self, host: str, event: events.Event) -> None:
        super().__init__()
        self.uuid = event.uuid
        self.host = host
        for name, value in _describe(event.held).items():
            setattr(self, name, value)
        self.action = None
        if isinstance(event, events.Refused):
            self.action = event.action
        self.details = event.details or None
        # All are new, which says nothing.
        self.obj_reset_changes()


class Notifier:
    """A listener that sends a notification for each event.

    :param host: name of this host
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self._context = context.get_admin_context()

    def __call__(self, event: events.Event) -> None:
        """Send it if it is news; waits for the message bus."""
        if event.repeated:
            return
        notifier = rpc.get_versioned_notifier(f'nova-compute:{self._host}')
        send = notifier.error if isinstance(event, _ERRORS) else notifier.info
        send(
            self._context,
            f'nova_rt.reservation.{event.kind}',
            RTReservationPayload(self._host, event).obj_to_primitive(),
        )


@rpc.if_notifications_enabled
def subscribe(dispatcher: events.Dispatcher, host: str) -> None:
    """Send notifications from now on, if Nova sends versioned ones.

    :param host: name of this host
    """
    dispatcher.subscribe(aside.Aside(Notifier(host)))


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
