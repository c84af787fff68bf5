# SPDX-License-Identifier: Apache-2.0
"""Confirmations and reverts that a service did not live to end.

Nova goes on with neither. A revert leaves the root disk under another name on
the server's old host, and the server in a state that nothing ends. A
confirmation leaves a migration that can be neither confirmed nor reverted.
Here each host asks for its part once more when its service has started, by
Nova's own requests, and each part looks before it begins whether it is still
due: the first request may have been in the queue.

What says how far a revert has come, with the server's task state:

=============  ==============================================================
status         what is due
=============  ==============================================================
``reverting``  the destination removes the container, then gives up its claim
``reverted``   the source brings the server back
=============  ==============================================================
"""

from collections.abc import Callable
import functools
from typing import Any

from nova import exception as nova_exception
from nova import objects, utils
from nova.compute import manager as nova_manager
from nova.compute import power_state, task_states, vm_states
from oslo_log import log as logging

from nova_rt.compute import interrupted
from nova_rt.virt.libvirt import servers

LOG = logging.getLogger(__name__)

_ATTRIBUTES = [
    'flavor', 'metadata', 'migration_context', 'system_metadata',
]  # fmt: skip
_CONFIRMING = ('finished', 'confirming')


def ask_again(manager: nova_manager.ComputeManager, context: Any) -> None:
    """Ask for what is due on this host, once its service takes requests.

    Only then does it hear that a port is plugged, which a start waits for.

    :param manager: of this host
    """
    found = objects.InstanceList.get_by_filters(
        context,
        {'vm_state': vm_states.RESIZED, 'deleted': False},
        expected_attrs=_ATTRIBUTES,
    )
    for instance in found:
        try:
            if servers.is_rt_moved(instance):
                _ask_for_one(manager, context, instance)
        except Exception:
            # The other servers of this host need their service.
            LOG.exception('Could not go on with its move', instance=instance)


def _ask_for_one(
    manager: nova_manager.ComputeManager, context: Any, instance: Any
) -> None:
    migration = interrupted.find_last(context, instance)
    if (
        migration is not None
        and not migration.cross_cell_move
        and manager.host in (migration.source_compute, migration.dest_compute)
    ):
        _ask(manager, context, instance, migration)


def _ask(
    manager: nova_manager.ComputeManager,
    context: Any,
    instance: Any,
    migration: Any,
) -> None:
    host, rpc = manager.host, manager.compute_rpcapi
    source, status = migration.source_compute, migration.status
    if instance.task_state == task_states.RESIZE_REVERTING:
        if status == 'reverting' and migration.dest_compute == host:
            LOG.warning('Going on with its revert', instance=instance)
            rpc.revert_resize(context, instance, migration, host, None)
        elif status == 'reverted':
            LOG.warning('Going on with its revert to %s', source,
                        instance=instance)  # fmt: skip
            if instance.migration_context is not None:
                # The destination may not have got as far.
                instance.revert_migration_context()
            rpc.finish_revert_resize(
                context, instance, migration, source, None
            )
    elif instance.task_state is None and source == host:
        if status == 'confirming':
            LOG.warning('Going on with its confirmation', instance=instance)
            rpc.confirm_resize(context, instance, migration, host)
        elif status == 'confirmed':
            LOG.warning('Ending its confirmation', instance=instance)
            once(
                'confirm_resize', is_end_due,
                functools.partial(_end_confirmed, manager),
                context, instance, migration,
            )  # fmt: skip


def _end_confirmed(
    manager: nova_manager.ComputeManager,
    context: Any,
    instance: Any,
    migration: Any,
) -> None:
    """Save what is left when nothing more is on the source.

    As at the end of ComputeManager._confirm_resize() and of its caller.
    """
    instance.refresh()
    servers.forget_move(instance)
    instance.drop_migration_context()
    is_down = instance.power_state == power_state.SHUTDOWN
    instance.vm_state = vm_states.STOPPED if is_down else vm_states.ACTIVE
    instance.save(expected_task_state=[None])
    manager._delete_allocation_after_move(context, instance, migration)
    manager._delete_stashed_flavor_info(instance)


def once(
    name: str,
    is_due: Callable[[Any, Any, Any], bool],
    method: Callable[..., Any],
    context: Any,
    instance: Any,
    migration: Any,
    *others: Any,
) -> Any:
    """Confirm or revert a move of a real-time server, if it is due.

    :param name: of what is asked for; of one server, each waits until another
        of the same name has ended
    :param is_due: one of those below
    :param method: Nova's, which gets all that follows
    :returns: what it returns
    """
    if not servers.is_rt_moved(instance):
        return method(context, instance, migration, *others)

    @utils.synchronized(f'{name}-{instance.uuid}')
    def end() -> Any:
        if is_due(context, instance, migration):
            return method(context, instance, migration, *others)
        LOG.info('Its move was ended already', instance=instance)
        return None

    return end()


def is_revert_due(context: Any, instance: Any, migration: Any) -> bool:
    """Look whether the destination still has its part of a revert to do."""
    return _is_reverting(context, instance) and (
        _read_status(context, migration) == 'reverting'
    )


def is_return_due(context: Any, instance: Any, migration: Any) -> bool:
    """Look whether the source still has its part of a revert to do."""
    return _is_reverting(context, instance) and (
        _read_status(context, migration) == 'reverted'
    )


def is_confirmation_due(context: Any, instance: Any, migration: Any) -> bool:
    """Look whether a move is still to be confirmed."""
    return _read_status(context, migration) in _CONFIRMING


def is_end_due(context: Any, instance: Any, migration: Any) -> bool:
    """Look whether all is confirmed but for what is saved last."""
    found = _read(context, instance)
    return (
        found is not None
        and found.vm_state == vm_states.RESIZED
        and found.task_state is None
        and _read_status(context, migration) == 'confirmed'
    )


def _is_reverting(context: Any, instance: Any) -> bool:
    """Look at the server as it is now.

    :returns: whether it is being reverted; also if it is gone, which Nova
        sees to
    """
    found = _read(context, instance)
    return found is None or found.task_state == task_states.RESIZE_REVERTING


def _read(context: Any, instance: Any) -> Any:
    """Read the server as it is now.

    :returns: None if it is gone
    """
    try:
        return objects.Instance.get_by_uuid(
            context, instance.uuid, expected_attrs=[]
        )
    except nova_exception.InstanceNotFound:
        return None


def _read_status(context: Any, migration: Any) -> str:
    try:
        found = objects.Migration.get_by_id(context, migration.id)
    except nova_exception.MigrationNotFound:
        found = migration
    status: str = found.status
    return status
