# SPDX-License-Identifier: Apache-2.0
"""Reasons not to change the reservation of a server now."""

from typing import Any

from nova import objects

from nova_rt.formats.changes import Condition
from nova_rt.reservation import record
from nova_rt.tracking import servers

_ATTRIBUTES = ['flavor', 'system_metadata']


class Obstacle(Exception):
    """A change is not made; its text says why.

    :ivar condition: of the change then
    """

    def __init__(self, condition: Condition, reason: str) -> None:
        super().__init__(reason)
        self.condition = condition


def read(context: Any, uuid: str) -> Any:
    """Read a server.

    :returns: nova.objects.Instance with its flavor and metadata
    :raises InstanceNotFound: if it is gone
    """
    return objects.Instance.get_by_uuid(
        context, uuid, expected_attrs=_ATTRIBUTES
    )


def find_record(instance: Any, generation: int, flavor: int) -> record.Record:
    """Require that the reservation of a server may be changed now.

    :returns: its record
    :raises Obstacle: if not
    :raises InvalidRecord: if the record cannot be read
    """
    if not servers.is_rt(instance):
        raise Obstacle(Condition.INFEASIBLE, 'the server is not real-time')
    ended = servers.read_ended(instance)
    if instance.flavor.id != flavor or generation <= ended:
        raise Obstacle(
            Condition.INFEASIBLE,
            'the server was resized to another flavor after the request',
        )
    if generation < servers.read_generation(instance):
        raise Obstacle(Condition.INFEASIBLE, 'a newer change was made')
    reason = servers.find_unchangeable(instance)
    if reason is not None:
        raise Obstacle(Condition.IN_PROGRESS, reason)
    rec = servers.read_claimed(instance)
    assert rec is not None  # it is real-time
    return rec
