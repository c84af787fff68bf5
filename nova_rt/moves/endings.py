# SPDX-License-Identifier: Apache-2.0
"""Recovery of confirmations and reverts interrupted by the end of a service.

Nova resumes neither. An interrupted revert leaves the root disk under another
name on the server's old host, and the server in a state that nothing ends. An
interrupted confirmation leaves a migration that can be neither confirmed nor
reverted. When its service has started, each host requests its part once more,
by Nova's own requests. Each part checks first whether it is still due: the
first request may still have been in the queue.

The migration's status and the server's task state show the next step of a
revert:

=============  ==============================================================
status         next step
=============  ==============================================================
``reverting``  the destination removes the container, then gives up its claim
``reverted``   the source brings the server back
=============  ==============================================================
"""

from collections.abc import Callable, Sequence
from typing import Any

from nova import exception as nova_exception
from nova import objects
from nova.compute import manager as nova_manager
from nova.compute import power_state, task_states, vm_states
from oslo_concurrency import lockutils
from oslo_log import log as logging

from nova_rt.moves import interrupted
from nova_rt.tracking import servers

LOG = logging.getLogger(__name__)

_ATTRIBUTES = [
    'flavor', 'metadata', 'migration_context', 'system_metadata',
]  # fmt: skip
_CONFIRMING = ('finished', 'confirming')
#: States of migrations that a service may leave for the next one to end. All
#: migrations of a host end in one of the last two, most of them for good.
_UNENDED = ('confirming', 'reverting', 'confirmed', 'reverted')


def ask_again(manager: nova_manager.ComputeManager, context: Any) -> None:
    """Request the steps that are due on this host, once its service runs.

    A start waits for the event of a plugged port, which only a service that
    takes requests can receive.

    :param manager: of this host
    """
    moved = objects.MigrationList.get_by_filters(
        context, {'host': manager.host, 'status': list(_UNENDED)}
    )
    if not moved:
        return
    found = objects.InstanceList.get_by_filters(
        context,
        {
            'uuid': sorted({each.instance_uuid for each in moved}),
            'vm_state': vm_states.RESIZED,
            'deleted': False,
        },
        expected_attrs=_ATTRIBUTES,
    )
    for instance in found:
        try:
            if servers.is_rt_moved(instance):
                _ask_for_one(manager, context, instance)
        except Exception:
            # The other servers of this host need their service.
            LOG.exception('Could not resume interrupted resize',
                          instance=instance)  # fmt: skip


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
            LOG.warning('Resuming interrupted resize revert',
                        instance=instance)  # fmt: skip
            rpc.revert_resize(context, instance, migration, host, None)
        elif status == 'reverted':
            LOG.warning('Resuming interrupted resize revert to %s', source,
                        instance=instance)  # fmt: skip
            if instance.migration_context is not None:
                # The destination may not have got as far.
                instance.revert_migration_context()
            rpc.finish_revert_resize(
                context, instance, migration, source, None
            )
    elif instance.task_state is None and source == host:
        if status == 'confirming':
            LOG.warning('Resuming interrupted resize confirmation',
                        instance=instance)  # fmt: skip
            rpc.confirm_resize(context, instance, migration, host)
        elif status == 'confirmed':
            LOG.warning('Finishing interrupted resize confirmation',
                        instance=instance)  # fmt: skip
            _end_confirmed(manager, context, instance, migration)


def _end_confirmed(
    manager: nova_manager.ComputeManager,
    context: Any,
    instance: Any,
    migration: Any,
) -> None:
    """Save a confirmed server, after its removal from the source.

    These are the last steps of ComputeManager._confirm_resize() and of its
    caller, which may have done them meanwhile.
    """
    with _alone(manager.confirm_resize, instance):
        found = _read(context, instance, _ATTRIBUTES)
        if (
            found is None
            or found.vm_state != vm_states.RESIZED
            or found.task_state is not None
            or _read_status(context, migration) != 'confirmed'
        ):
            return
        servers.forget_move(found)
        found.drop_migration_context()
        is_down = found.power_state == power_state.SHUTDOWN
        found.vm_state = vm_states.STOPPED if is_down else vm_states.ACTIVE
        found.save(expected_task_state=[None])
        manager._delete_allocation_after_move(context, found, migration)
        manager._delete_stashed_flavor_info(found)


def once(
    is_due: Callable[[Any, Any, Any], bool],
    method: Callable[..., Any],
    context: Any,
    instance: Any,
    migration: Any,
    *others: Any,
) -> Any:
    """Confirm or revert a move of a real-time server, if it is due.

    Calls of the same method for one server run one after another.

    :param is_due: one of the functions below
    :param method: Nova's, called with the remaining arguments
    :returns: the result of the method
    """
    if not servers.is_rt_moved(instance):
        return method(context, instance, migration, *others)
    with _alone(method, instance):
        if is_due(context, instance, migration):
            return method(context, instance, migration, *others)
    LOG.info('Ignoring request for a resize that has ended',
             instance=instance)  # fmt: skip
    return None


def _alone(method: Callable[..., Any], instance: Any) -> Any:
    """Lock a method of Nova for one server."""
    return lockutils.lock(f'nova-rt-{method.__name__}-{instance.uuid}')


def is_revert_due(context: Any, instance: Any, migration: Any) -> bool:
    """Tell whether the destination still has its part of a revert to do."""
    return _is_reverting(context, instance) and (
        _read_status(context, migration) == 'reverting'
    )


def is_return_due(context: Any, instance: Any, migration: Any) -> bool:
    """Tell whether the source still has its part of a revert to do."""
    return _is_reverting(context, instance) and (
        _read_status(context, migration) == 'reverted'
    )


def is_confirmation_due(context: Any, instance: Any, migration: Any) -> bool:
    """Tell whether a move is still to be confirmed."""
    return _read_status(context, migration) in _CONFIRMING


def _is_reverting(context: Any, instance: Any) -> bool:
    """Read the server again to tell whether it is being reverted.

    :returns: also True if it is gone, which Nova handles
    """
    found = _read(context, instance)
    return found is None or found.task_state == task_states.RESIZE_REVERTING


def _read(context: Any, instance: Any, attributes: Sequence[str] = ()) -> Any:
    """Read the server again.

    :returns: None if it is gone
    """
    try:
        return objects.Instance.get_by_uuid(
            context, instance.uuid, expected_attrs=list(attributes)
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
