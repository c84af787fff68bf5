# SPDX-License-Identifier: Apache-2.0
"""Moves that the last service of this host did not live to end.

Nova leaves evacuations to this host as they are. The server waits without
end, its container may run here with a reservation that nobody claims, and
Placement holds bandwidth of both hosts for it.

Resizes and cold migrations of servers that are still here are ended by Nova,
which forgets what Placement holds: the migration holds what the server has,
and the server what it was to have, until an audit gives it back.

Those of servers that have come here are ended by nobody if the request to
finish them was lost. An operator then sets the server's state back, and starts
it.
"""

from typing import Any

from nova import exception as nova_exception
from nova import objects
from nova.compute import manager as nova_manager
from nova.compute import power_state, task_states, vm_states
from nova.objects import fields
from oslo_log import log as logging

from nova_rt.tracking import servers

LOG = logging.getLogger(__name__)

_ATTRIBUTES = [
    'flavor', 'info_cache', 'metadata', 'migration_context', 'numa_topology',
    'system_metadata',
]  # fmt: skip

#: States of a resize or cold migration before its server leaves.
_BEFORE_IT_LEAVES = ('pre-migrating', 'migrating', 'post-migrating')


def settle(manager: nova_manager.ComputeManager, context: Any) -> None:
    """End them when the service starts: undone, or done if that is all but so.

    A server whose evacuation is undone is in ERROR on its dead host, as after
    any failure of an evacuation, and can be evacuated again. Those that are
    only accepted are left: their requests may still be in the queue.

    :param manager: of this host, its driver initialized
    """
    found = objects.MigrationList.get_by_filters(
        context,
        {
            'host': manager.host,
            'migration_type': fields.MigrationType.EVACUATION,
            'status': 'pre-migrating',
        },
    )
    for migration in found:
        if migration.dest_compute != manager.host:
            continue
        try:
            _settle_one(manager, context, migration)
        except Exception:
            # The other servers of this host need their service.
            LOG.exception(
                'Could not undo an evacuation that was interrupted',
                instance_uuid=migration.instance_uuid,
            )


def _settle_one(
    manager: nova_manager.ComputeManager, context: Any, migration: Any
) -> None:
    try:
        instance = objects.Instance.get_by_uuid(
            context, migration.instance_uuid, expected_attrs=_ATTRIBUTES
        )
    except nova_exception.InstanceNotFound:
        # Nova removes the containers of servers that were deleted.
        _end(migration, 'failed')
        return
    if not servers.is_rt(instance):
        return
    moving = instance.migration_context
    is_last = moving is not None and moving.migration_id == migration.id
    if instance.host == manager.host:
        # Saved as being here, which is the last step but one.
        if is_last:
            instance.drop_migration_context()
        _end(migration, 'done')
        return
    LOG.warning(
        'Undoing its evacuation from %s, which the last service of this host '
        'did not end', migration.source_compute, instance=instance,
    )  # fmt: skip
    _remove(manager, context, instance, migration)
    if is_last:
        servers.forget_move(instance)
        instance.drop_migration_context()
        manager._set_instance_obj_error_state(instance, clean_task_state=True)
    _end(migration, 'failed')


def _remove(
    manager: nova_manager.ComputeManager,
    context: Any,
    instance: Any,
    migration: Any,
) -> None:
    """Remove the container and what Placement holds, but no files.

    Where hosts share their disks, the files are those of the server.
    """
    manager.driver.destroy(
        context,
        instance,
        manager.network_api.get_instance_nw_info(context, instance),
        manager._get_instance_block_device_info(context, instance),
        destroy_disks=False,
    )
    node = objects.ComputeNode.get_by_host_and_nodename(
        context, migration.dest_compute, migration.dest_node
    )
    manager.reportclient.remove_provider_tree_from_instance_allocation(
        context, instance.uuid, node.uuid
    )


def _end(migration: Any, status: str) -> None:
    migration.status = status
    migration.save()


def end_lost(host: str, context: Any) -> None:
    """End evacuations from this host whose servers have left it already.

    When a destination has lost a request, Nova's next try takes over the
    record of the first, and its own stays accepted. Nova ends one evacuation
    of each server when this host starts. As long as another is there, nobody
    can take back that the host was forced down.
    """
    found = objects.MigrationList.get_by_filters(
        context,
        {
            'source_compute': host,
            'migration_type': fields.MigrationType.EVACUATION,
            'status': ['accepted', 'pre-migrating', 'done'],
        },
    )
    left = {each.instance_uuid for each in found if each.status == 'done'}
    for migration in found:
        if migration.status == 'done' or migration.instance_uuid not in left:
            continue
        try:
            is_rt = servers.is_rt(migration.instance)
        except nova_exception.InstanceNotFound:
            # Nobody evacuates it again.
            continue
        if is_rt:
            _end(migration, 'failed')


def end_resize(
    manager: nova_manager.ComputeManager, context: Any, instance: Any
) -> bool:
    """Give back what Placement holds for a resize that Nova is about to end.

    As Nova does when a resize fails. To be called while the server's task
    state still keeps everybody else from moving it. Before the destination
    has made its claim, nothing is done: the request may be in the queue or in
    a conductor, and Nova itself gives all back when it fails.

    :param manager: of this host
    :param instance: nova.objects.Instance, as the last service left it
    :returns: whether there was one
    """
    if (
        instance.host != manager.host
        or instance.vm_state not in (vm_states.ACTIVE, vm_states.STOPPED)
        or instance.task_state
        not in (task_states.RESIZE_PREP, task_states.RESIZE_MIGRATING)
        or servers.NEW not in instance.system_metadata
    ):
        return False
    migration = _find_claimed(context, instance)
    if migration is None:
        return False
    LOG.warning(
        'Undoing its move to %s, which was interrupted',
        migration.dest_compute, instance=instance,
    )  # fmt: skip
    servers.forget_move(instance)
    instance.save()
    # Over from here on: if the rest fails, an audit finds what is left.
    _end(migration, 'error')
    manager._revert_allocation(context, instance, migration)
    return True


def start_again(
    manager: nova_manager.ComputeManager, context: Any, instance: Any
) -> None:
    """Start a server that was stopped for a resize, which is undone now.

    Nova brings its disk back, and then fails for want of an old flavor, which
    a server has only after it has left. A hard reboot needs none, and waits
    for no port: this service does not hear of ports yet. If it is killed
    again, Nova goes on with the reboot.

    :param manager: of this host
    :param instance: nova.objects.Instance, without a task
    """
    if (
        instance.vm_state != vm_states.ACTIVE
        or instance.task_state is not None
        or manager._get_power_state(instance) == power_state.RUNNING
    ):
        return
    LOG.warning('Starting it again', instance=instance)
    instance.task_state = task_states.REBOOTING_HARD
    instance.save(expected_task_state=[None])
    manager.reboot_instance(
        context, instance, block_device_info=None, reboot_type='HARD'
    )


def _find_claimed(context: Any, instance: Any) -> Any:
    """Find the move of a server that is still on its source.

    :returns: nova.objects.Migration; None if its destination has not made
        its claim yet
    """
    moving = instance.migration_context
    if moving is None:
        return None
    last = find_last(context, instance)
    if (
        last is None
        # What an older move has left is no claim of this one.
        or last.id != moving.migration_id
        or last.source_compute != instance.host
        or last.dest_compute is None
        or last.status not in _BEFORE_IT_LEAVES
    ):
        return None
    return last


def find_last(context: Any, instance: Any) -> Any:
    """Find the last migration of a server.

    :returns: nova.objects.Migration; None if it was never moved
    """
    return max(
        objects.MigrationList.get_by_filters(
            context, {'instance_uuid': instance.uuid}
        ),
        key=lambda each: each.id,
        default=None,
    )


def end_arrival(
    manager: nova_manager.ComputeManager, context: Any, instance: Any
) -> None:
    """End the move of a server that has come here, before it is started.

    Its old host has let it go, and nobody has finished that here. The server
    becomes what this host and Placement hold for it, as after a resize that
    fails at its end. Its disk keeps its size.

    :param manager: of this host
    :param instance: nova.objects.Instance that is about to be started
    :raises MigrationContextNotFound: if Nova has forgotten the move
    """
    if instance.host != manager.host or not servers.has_left(instance):
        return
    if instance.migration_context is None:
        raise nova_exception.MigrationContextNotFound(
            instance_uuid=instance.uuid
        )
    migration = objects.Migration.get_by_id_and_instance(
        context, instance.migration_context.migration_id, instance.uuid
    )
    LOG.warning(
        'Ending its move from %s, which was not finished here',
        migration.source_compute, instance=instance,
    )  # fmt: skip
    network = manager.network_api
    network.setup_networks_on_host(context, instance, manager.host)
    network.migrate_instance_finish(context, instance, migration, None)
    if migration.is_resize:
        manager._set_instance_info(instance, instance.new_flavor)
    instance.apply_migration_context()
    servers.switch(instance)
    servers.forget_move(instance)
    instance.old_flavor = instance.new_flavor = None
    instance.save()
    manager.rt.rt_switch(instance)
    instance.drop_migration_context()
    # Over from here on: if the rest fails, an audit finds what is left.
    _end(migration, 'error')
    manager.reportclient.delete_allocation_for_instance(
        context, migration.uuid, consumer_type='migration', force=True
    )
