# SPDX-License-Identifier: Apache-2.0
"""Requests of servers, noted with them or refused.

A request comes with the flavor and hints of a new server, and with the flavor
of one that is resized. Between them the server's record is the only request,
whatever the operator would allow today.
"""

from typing import Any

from nova import exception as nova_exception

from nova_rt import events, exception, faults
from nova_rt.lxc import user_namespaces
from nova_rt.reservation import bounds, record, request
from nova_rt.tracking import servers


class Requests:
    """The requests that a host reads.

    :param driver: the host's :class:`.RTLibvirtDriver`
    :param allowed: what the operator allows
    """

    def __init__(self, driver: Any, allowed: bounds.Bounds) -> None:
        self._driver = driver
        self._allowed = allowed

    def note_new(self, instance: Any, hints: dict[str, object]) -> None:
        """Put the request of a new server into its record, without CPUs.

        :raises BuildAbortException: if it means nothing here; no other host
            could do better
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
        """Put what a moved server is to have into its system_metadata.

        :raises InstanceFaultRollback: if it means nothing here
        """
        try:
            if flavor.id == instance.flavor.id:
                rec = servers.read_claimed(instance)
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
        """Read what a flavor and hints ask for.

        :returns: None for a plain flavor
        :raises InvalidRequest: if it means nothing here
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

        :raises InstanceFaultRollback: if it is
        """
        if servers.has_left(instance):
            self.check_leaving(
                instance,
                'its last move was not finished: start it by a hard reboot '
                'first',
            )

    def check_leaving(self, instance: Any, reason: str | None) -> None:
        """Refuse a move while the server still runs, its disk in its place.

        :param reason: why it is refused, if it is
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
        """Report that a server is refused something.

        :returns: the reason as text
        """
        text: str = self._driver.reservations.refuse(
            instance.uuid, action, reason
        )
        return text


def without_retry(filter_properties: Any) -> dict[str, Any]:
    """Copy filter properties so that Nova tries no other host.

    :returns: the copy
    """
    return {
        key: value
        for key, value in (filter_properties or {}).items()
        if key != 'retry'
    }
