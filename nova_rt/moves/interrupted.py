# SPDX-License-Identifier: Apache-2.0
"""Recovery of moves interrupted by the end of this host's last service.

Nova does not resume evacuations to this host. The server waits without end,
its container may run here with a reservation that is not claimed, and
Placement has an allocation on both hosts.

Nova ends resizes and cold migrations of servers that are still here, but not
their allocations: until an audit, the migration has the server's present
allocation, and the server the one for its new flavor.

Nova does not finish those of servers that were sent here if the request to
finish them was lost. An operator then resets the server's state, and starts
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
    """End interrupted evacuations when the service starts.

    An evacuation that lacks only its last step is marked as done; any other
    is undone, which leaves the server in ERROR on its dead host, as any failed
    evacuation does: it can be evacuated again. Evacuations that are only
    accepted stay: their requests may still be in the queue.

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
                'Could not undo interrupted evacuation',
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
        # The server is saved with this host, which is the last step but one.
        if is_last:
            instance.drop_migration_context()
        _end(migration, 'done')
        return
    LOG.warning(
        'Undoing interrupted evacuation from %s', migration.source_compute,
        instance=instance,
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
    """Remove the container and its allocation on this host, but no files.

    Where hosts share their disks, the server still needs the files.
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
    """End evacuations from this host of servers that have left it already.

    When a destination has lost a request, Nova's next try takes over the
    migration of the first, and its own stays accepted. Nova ends one
    evacuation of each server when this host starts. As long as another exists,
    an operator cannot unset the forced-down state of the host.
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
            # A deleted server is not evacuated again.
            continue
        if is_rt:
            _end(migration, 'failed')


def end_resize(
    manager: nova_manager.ComputeManager, context: Any, instance: Any
) -> bool:
    """Revert the allocations of a resize that Nova is about to end.

    Nova does the same when a resize fails. Call this while the server's task
    state still keeps others from moving it. A resize without a claim on its
    destination stays as it is: the request may be in the queue or in a
    conductor, and Nova itself reverts the allocations if it fails.

    :param manager: of this host
    :param instance: nova.objects.Instance, as the last service left it
    :returns: whether a resize was ended
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
        'Undoing interrupted resize to %s', migration.dest_compute,
        instance=instance,
    )  # fmt: skip
    servers.forget_move(instance)
    instance.save()
    # The move is over: if the rest fails, an audit cleans up.
    _end(migration, 'error')
    manager._revert_allocation(context, instance, migration)
    return True


def start_again(
    manager: nova_manager.ComputeManager, context: Any, instance: Any
) -> None:
    """Start a server that was stopped for a resize, now undone.

    Nova restores its disk, and then fails for want of an old flavor, which
    only a server that has left its host has. A hard reboot needs none, and
    waits for no port: this service does not receive events of ports yet. If
    the service is killed again, Nova resumes the reboot.

    :param manager: of this host
    :param instance: nova.objects.Instance, without a task
    """
    if (
        instance.vm_state != vm_states.ACTIVE
        or instance.task_state is not None
        or manager._get_power_state(instance) == power_state.RUNNING
    ):
        return
    LOG.warning('Rebooting server stopped for an interrupted resize',
                instance=instance)  # fmt: skip
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
        # The keys of an older move are no claim of this one.
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
    """End the move of a server that was sent here, before it is started.

    Its old host has released it, but the move was not finished here. The
    server gets the flavor, claim and allocation of this host, as after a
    resize that fails in its last step. Its disk keeps its size.

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
        'Finishing interrupted resize from %s', migration.source_compute,
        instance=instance,
    )  # fmt: skip
    network = manager.network_api
    network.setup_networks_on_host(context, instance, manager.host)
    network.migrate_instance_finish(context, instance, migration, None)
    if migration.is_resize:
        manager._set_instance_info(instance, instance.new_flavor)
    instance.apply_migration_context()
    servers.switch(instance, migration.is_resize)
    servers.forget_move(instance)
    instance.old_flavor = instance.new_flavor = None
    instance.save()
    manager.rt.rt_switch(instance)
    instance.drop_migration_context()
    # The move is over: if the rest fails, an audit cleans up.
    _end(migration, 'error')
    manager.reportclient.delete_allocation_for_instance(
        context, migration.uuid, consumer_type='migration', force=True
    )
