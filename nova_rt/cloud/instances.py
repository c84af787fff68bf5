# SPDX-License-Identifier: Apache-2.0
"""The reservations of servers and moves according to Nova's objects."""

from collections.abc import Iterable, Mapping
import dataclasses
from typing import Any

from nova import exception as nova_exception
from nova.compute import task_states, vm_states
from nova.objects import fields
from nova.scheduler import utils as scheduler_utils
import os_resource_classes as orc

from nova_rt import exception
from nova_rt.cloud.snapshot import Holder, Move, NovaServer
from nova_rt.reservation import extra_specs, node_stats, resources
from nova_rt.reservation.admission import Capacity
from nova_rt.reservation.record import Record
from nova_rt.reservation.request import HintRule, Request, choose_hints
from nova_rt.tracking import servers

#: States of a resize or cold migration that is on its way.
_UNDER_WAY = ('pre-migrating', 'migrating', 'post-migrating', 'finished')
#: States of an evacuation that its source has not noticed yet: as soon as its
#: service starts, it removes the container and what Placement holds.
_NOT_CLEANED = ('accepted', 'pre-migrating', 'done')


def is_busy(instance: Any) -> bool:
    """Look whether something is being done to a server.

    :returns: whether it is, so that sources may differ for a moment
    """
    return (
        instance.task_state is not None
        or instance.vm_state == vm_states.BUILDING
    )


def is_lost(migration: Any) -> bool:
    """Look whether a move is one that nobody will finish.

    Its service was killed, or a request of it was lost, and Nova or an
    operator has set the server's state back since.

    :param migration: nova.objects.Migration that is not over for Nova
    :returns: whether it is; not for a resize that waits for its end
    """
    try:
        instance = migration.instance
    except nova_exception.InstanceNotFound:
        return True
    if is_busy(instance):
        return False
    if instance.vm_state != vm_states.RESIZED:
        return True
    moving = instance.migration_context
    return moving is None or moving.migration_id != migration.id


def is_returning(migration: Any) -> bool:
    """Look whether a revert is on its way back to its source.

    :param migration: nova.objects.Migration
    :returns: whether it is, and holds the allocation of the source
    """
    try:
        return bool(
            migration.status == 'reverted'
            and migration.instance.task_state == task_states.RESIZE_REVERTING
        )
    except nova_exception.InstanceNotFound:
        return False


def classify_absent(host: str, migrations: Iterable[Any]) -> Holder:
    """Find out why a host holds something for a server of another one.

    :param host: another one than the server's, to which nothing is being done
    :param migrations: nova.objects.Migration, all of the server
    :returns: EVACUATED if the host has its container still, LOST if a move
        was to bring it there, else ELSEWHERE
    """
    found = Holder.ELSEWHERE
    for move in migrations:
        if (
            move.migration_type == fields.MigrationType.EVACUATION
            and move.source_compute == host
            and move.status in _NOT_CLEANED
        ):
            return Holder.EVACUATED
        if (
            move.status in _UNDER_WAY
            # Not set before the destination makes its claim.
            and move.dest_compute in (None, host)
            and is_lost(move)
        ):
            found = Holder.LOST
    return found


def is_waiting(migration: Any) -> bool:
    """Look whether a resize waits to be confirmed or reverted.

    :param migration: nova.objects.Migration
    :returns: whether it does, so that all sources must agree
    """
    if migration.status != 'finished':
        return False
    try:
        instance = migration.instance
    except nova_exception.InstanceNotFound:
        return False
    return (
        instance.vm_state == vm_states.RESIZED and instance.task_state is None
    )


def read_move(migration: Any) -> Move | None:
    """Read the reservation of a server on the host that it has left.

    :returns: None for one that was plain
    """
    rec: Record | str | None
    try:
        rec = servers.read_source(migration.instance)
    except exception.InvalidRecord as err:
        rec = str(err)
    return None if rec is None else Move(migration.instance_uuid, rec)


def make_server(
    instance: Any, hints: Mapping[str, Any] | None, moving: bool
) -> NovaServer:
    """Read the request and the record of a real-time server.

    :param instance: nova.objects.Instance
    :param hints: of its RequestSpec; None if that is gone
    :param moving: whether it is being moved
    :returns: both, or a text that explains the failure
    """
    rec: Record | str
    try:
        found = servers.read_claimed(instance)
        assert found is not None  # it is real-time
        rec = found
    except exception.InvalidRecord as err:
        rec = str(err)
    asked: Request | str | None = None
    if hints is not None:
        try:
            # Not by the bounds of today: those of its creation counted.
            asked = Request.from_flavor(
                instance.flavor.extra_specs, instance.flavor.vcpus,
                choose_hints(hints, instance.flavor.flavorid), HintRule.ANY,
            )  # fmt: skip
        except exception.InvalidRequest as err:
            asked = str(err)
    if isinstance(asked, Request) and isinstance(rec, Record) and (
        servers.is_changed(instance) or rec.request.follows_load
    ):  # fmt: skip
        # The rest of the record is still what was asked for.
        asked = dataclasses.replace(asked, reservation=rec.request.reservation)
    busy = is_busy(instance) or servers.is_changing(instance)
    return NovaServer(
        asked, rec, moving or busy, servers.has_left(instance),
        _ask_others(instance),
    )  # fmt: skip


def _ask_others(instance: Any) -> dict[str, int] | None:
    try:
        asked = ask(instance, is_bfv=True)
    except exception.InvalidRequest:
        return None
    return {
        name: amount
        for name, amount in asked.items()
        if name not in (extra_specs.RESOURCE_CLASS, orc.DISK_GB)
    }


def ask(instance: Any, is_bfv: bool) -> dict[str, int]:
    """Read all that a real-time server asks of Placement by its flavor.

    :param instance: nova.objects.Instance
    :param is_bfv: whether its root disk is a volume
    :returns: amounts by resource class, without regard to its hint
    :raises InvalidRequest: if the flavor cannot be read
    """
    flavor = instance.flavor.obj_clone()
    request = Request.from_flavor(flavor.extra_specs, flavor.vcpus)
    assert request is not None  # the server is real-time
    # As the scheduler's request filter asks, whatever else the flavor says.
    flavor.extra_specs = resources.replace(flavor.extra_specs, request)
    asked: dict[str, int] = scheduler_utils.resources_from_flavor_and_bfv(
        flavor, is_bfv
    )
    return asked


def parse_free(stats: Mapping[str, str | None]) -> Capacity | str | None:
    """Read the free bandwidth that a compute node publishes.

    :returns: None if nothing; a sentence if it cannot be read
    """
    try:
        return node_stats.parse(stats)
    except ValueError as err:
        return str(err)
