# SPDX-License-Identifier: Apache-2.0
"""The slots of servers on this host, according to Nova's database.

A host finds them by its role in Nova's migration.
:mod:`nova_rt.tracking.servers` stores and changes them.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nova import exception as nova_exception
from nova import objects
from nova.compute import task_states, vm_states
from nova.objects import fields

from nova_rt.tracking import servers
from nova_rt.tracking.claims import Slots, read_slot, read_slots

_MOVING = (
    *task_states.resizing_states,
    *task_states.rebuild_states,
)


def find(
    host: str,
    instances: Iterable[Any],
    migrations: Iterable[Any],
    returning: Mapping[str, Any],
    held: Callable[[str], Slots],
) -> dict[str, Slots]:
    """Find the slots of servers on a host.

    :param host: name of the host
    :param instances: nova.objects.Instance of each server of the host
    :param migrations: nova.objects.Migration to or from the host that are
        not over
    :param returning: the result of :func:`find_returning`
    :param held: returns the slots that a server held until now, by its UUID;
        they stay if the keys of its move are lost
    :returns: by UUID of the server
    """
    here = {instance.uuid: instance for instance in instances}
    moves = _pair(migrations, here)
    found = {}
    for uuid, instance in here.items():
        migration, _ = moves.pop(uuid, (None, None))
        if migration is not None:
            found[uuid] = _keep_lost(instance, held) or _of_moving(
                host, instance, migration
            )
        elif uuid in returning:
            found[uuid] = Slots(read_slot(servers.read_source, instance))
        elif not _has_left(instance):
            found[uuid] = read_slots(instance)
    for uuid, (migration, instance) in moves.items():
        found[uuid] = _keep_lost(instance, held) or _of_absent(
            host, instance, migration
        )
    for uuid in returning.keys() - here.keys():
        found[uuid] = _beside(servers.read_source, returning[uuid])
    return found


def _keep_lost(instance: Any, held: Callable[[str], Slots]) -> Slots | None:
    if not servers.is_note_lost(instance):
        return None
    kept = held(instance.uuid)
    return None if kept == Slots() else kept


def _pair(
    migrations: Iterable[Any], here: Mapping[str, Any]
) -> dict[str, tuple[Any, Any]]:
    """Find the present move of each server.

    :returns: UUID of the server -> migration and instance
    """
    moves = {}
    for migration in migrations:
        if migration.is_live_migration:
            continue
        uuid = migration.instance_uuid
        try:
            instance = here.get(uuid) or migration.instance
            if not instance.deleted and is_moving(instance, migration):
                moves[uuid] = migration, instance
        except nova_exception.InstanceNotFound:
            continue
    return moves


def is_moving(instance: Any, migration: Any) -> bool:
    """Tell whether a migration is the present move of a server.

    Nova's resource tracker decides the same, but leaves out servers in ERROR
    that are being evacuated.

    :param instance: nova.objects.Instance with its migration context
    :returns: False before its claim, and after its confirmation or drop
    """
    context = instance.migration_context
    return (
        context is not None
        and context.migration_id == migration.id
        and (
            instance.vm_state == vm_states.RESIZED
            or instance.task_state in _MOVING
        )
    )


def _of_moving(host: str, instance: Any, migration: Any) -> Slots:
    """Return the slots of a server on its host while it is being moved."""
    is_source = migration.source_compute == host
    if migration.dest_compute != host:
        return Slots(read_slot(servers.read_claimed, instance))
    if is_source:
        return Slots(
            read_slot(servers.read_claimed, instance),
            _beside(servers.read_beside, instance).beside,
        )
    return Slots(read_slot(servers.read_destination, instance))


def _of_absent(host: str, instance: Any, migration: Any) -> Slots:
    """Return the slots of a server on its next or previous host."""
    evacuated = migration.migration_type == fields.MigrationType.EVACUATION
    if migration.dest_compute == host:
        if evacuated:
            # It runs here before Nova saves this host as its own.
            return Slots(read_slot(servers.read_destination, instance))
        return _beside(servers.read_destination, instance)
    # A dead host gets nothing back.
    return Slots() if evacuated else _beside(servers.read_source, instance)


def _beside(read: Any, instance: Any) -> Slots:
    known = read_slot(read, instance)
    # A server with an unreadable second slot does not run here with it:
    # there is nothing to stop.
    return Slots(None, None if isinstance(known, Exception) else known)


def _has_left(instance: Any) -> bool:
    """Tell whether a server was reverted here and waits for its old host.

    Nova has dropped the claim, but the server's host changes later.
    """
    return (
        instance.task_state == task_states.RESIZE_REVERTING
        and instance.migration_context is not None
    )


def find_returning(context: Any, host: str) -> dict[str, Any]:
    """Find servers that were reverted and are on their way back to a host.

    The migration is over for Nova as soon as the destination has dropped its
    claim, while the source still needs its own. Servers with that task are
    few, and the database has an index for it.

    :param host: name of the source
    :returns: UUID -> nova.objects.Instance
    """
    instances = objects.InstanceList.get_by_filters(
        context,
        {'task_state': task_states.RESIZE_REVERTING, 'deleted': False},
        expected_attrs=['system_metadata', 'flavor', 'migration_context'],
    )
    found = {}
    for instance in instances:
        if instance.migration_context is None:
            continue
        try:
            migration = objects.Migration.get_by_id(
                context, instance.migration_context.migration_id
            )
        except nova_exception.MigrationNotFound:
            continue
        if migration.source_compute == host and migration.status == 'reverted':
            found[instance.uuid] = instance
    return found
