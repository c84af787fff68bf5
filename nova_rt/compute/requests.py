# SPDX-License-Identifier: Apache-2.0
"""Requests of servers, recorded with them or refused.

The flavor and hints of a new server form a request, as does the flavor of a
resize. Between these the server's record is the only request: later changes of
the operator's options do not affect it.
"""

from collections.abc import Callable
from typing import Any

from nova import exception as nova_exception

from nova_rt import events, exception, faults
from nova_rt.lxc import user_namespaces
from nova_rt.reservation import bounds, record, request, wish
from nova_rt.tracking import servers


class Requests:
    """The reader of requests on a host.

    :param driver: the host's :class:`.RTLibvirtDriver`
    :param allowed: the operator's bounds
    """

    def __init__(self, driver: Any, allowed: bounds.Bounds) -> None:
        self._driver = driver
        self._allowed = allowed

    def note_new(self, instance: Any, hints: dict[str, object]) -> None:
        """Put the request of a new server into its record, without CPUs.

        :raises BuildAbortException: if the request is invalid, here as on any
            other host
        """
        try:
            asked = self._read(instance.flavor, hints)
            if asked is not None:
                servers.write_record(instance, record.Record(asked))
        except exception.NovaRTError as err:
            self.refuse(instance, events.Action.REQUEST, err)
            raise faults.BuildAborted(
                instance_uuid=instance.uuid, reason=faults.tell(err)
            ) from err

    def note_move(
        self, instance: Any, flavor: Any, hints: dict[str, object]
    ) -> None:
        """Put the request of a moved server into its system_metadata.

        :raises InstanceFaultRollback: if the request is invalid
        """
        try:
            if flavor.id == instance.flavor.id:
                rec = servers.read_claimed(instance)
                if rec is not None:
                    rec = wish.take_along(
                        rec, instance.system_metadata, instance.task_state
                    )
                asked = None if rec is None else rec.request
            else:
                asked = self._read(flavor, hints)
            servers.note_move(
                instance, None if asked is None else record.Record(asked)
            )
        except exception.NovaRTError as err:
            self.refuse(instance, events.Action.REQUEST, err)
            raise nova_exception.InstanceFaultRollback(
                faults.ActionRefused(reason=faults.tell(err))
            ) from err

    def _read(
        self, flavor: Any, hints: dict[str, object]
    ) -> request.Request | None:
        """Read the request of a flavor and hints.

        :returns: None for a plain flavor
        :raises InvalidRequest: if it is invalid, or useless on this host
        """
        asked = self._allowed.parse_request(
            flavor.extra_specs,
            flavor.vcpus,
            request.choose_hints(hints, flavor.flavorid),
        )
        if asked is not None:
            user_namespaces.check_request(self._driver, asked)
        return asked

    def check_arrived(self, instance: Any) -> None:
        """Refuse a move while the previous move is unfinished.

        :raises InstanceFaultRollback: in that case
        """
        if servers.has_left(instance):
            self.check_leaving(
                instance,
                'the last move of this server was not finished: start it by a '
                'hard reboot first',
            )
        if servers.is_changing(instance):
            self.check_leaving(
                instance,
                'a change of its reservation has not ended: its host ends it',
            )

    def check_leaving(self, instance: Any, reason: str | None) -> None:
        """Refuse a move while server and disk are still in place.

        :param reason: the reason to refuse it, if any
        :raises InstanceFaultRollback: if there is a reason
        """
        if reason is not None:
            raise nova_exception.InstanceFaultRollback(
                faults.ActionRefused(
                    reason=self.refuse(instance, events.Action.MOVE, reason)
                )
            )

    def refuse(
        self, instance: Any, action: events.Action, reason: str | Exception
    ) -> str:
        """Emit the refusal of an action on a server.

        :returns: the reason as text
        """
        text: str = self._driver.reservations.refuse(
            instance.uuid, action, reason
        )
        return text


def end_retries(
    filter_properties: Any, host_list: Any, is_rt: Callable[[], bool]
) -> Any:
    """Make Nova keep the reason of a failure on the last of the chosen hosts.

    If Nova tried another one, the server's fault would be "Exhausted all
    hosts available for retrying", without a number.

    :param host_list: the chosen hosts left after this one; None if unknown
    :param is_rt: whether the server needs a reservation; called only on the
        last host
    :returns: the filter properties, without ``retry`` on the last host of a
        server with a reservation
    """
    if host_list is None or host_list or not is_rt():
        return filter_properties
    return {
        key: value
        for key, value in (filter_properties or {}).items()
        if key != 'retry'
    }
