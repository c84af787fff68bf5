# SPDX-License-Identifier: Apache-2.0
"""Records of stops by this service and their reasons, for users of servers.

Nova only finds such a server stopped. This module adds the records of any
failed action: a fault, an entry in the list of the server's actions, and a
versioned notification.
"""

import sys

from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from nova.compute import instance_actions
from nova.compute import utils as compute_utils
from nova.objects import fields
from oslo_log import log as logging

from nova_rt import events, exception, faults

LOG = logging.getLogger(__name__)

#: Name of the event in the list of a server's actions.
EVENT = 'compute_rt_lost_reservation'


class StopReporter:
    """A listener for stops of running containers.

    :param host: name of this host
    """

    def __init__(self, host: str) -> None:
        self._host = host

    def __call__(self, event: events.Event) -> None:
        """Report a stop, and wait for the database."""
        if not isinstance(event, events.Stopped) or event.at_start:
            return
        try:
            self._report(event)
        except nova_exception.InstanceNotFound:
            pass  # Deleted meanwhile: it has no user any more.
        except Exception:
            LOG.exception('Could not record the reason of the stop for the '
                          'user', instance_uuid=event.uuid)  # fmt: skip

    def _report(self, event: events.Stopped) -> None:
        context = nova_context.get_admin_context()
        instance = objects.Instance.get_by_uuid(
            context, event.uuid, expected_attrs=['flavor', 'system_metadata']
        )
        cause = exception.HostError(event.reason)
        fault = faults.ReservationNotHeld(reason=faults.tell(cause))
        objects.InstanceAction.action_start(
            context, event.uuid, instance_actions.STOP, want_result=False
        )
        try:
            with compute_utils.EventReporter(
                context, EVENT, self._host, event.uuid
            ):
                raise fault from cause
        except faults.ReservationNotHeld as err:
            compute_utils.add_instance_fault_from_exc(
                context, instance, err, sys.exc_info()
            )
        compute_utils.notify_about_instance_action(
            context,
            instance,
            self._host,
            action=fields.NotificationAction.POWER_OFF,
            phase=fields.NotificationPhase.ERROR,
            exception=fault,
        )
