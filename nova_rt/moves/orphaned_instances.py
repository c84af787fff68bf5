# SPDX-License-Identifier: Apache-2.0
"""Removal of deleted real-time servers' disks and domains on this host.

A move that ends with its service leaves a disk and a domain, on its source or
on its destination. Nova looks for them by the migration, which it deletes
together with the server (nova/db/main/api.py, instance_destroy()), and so it
does not find them. This module finds them on the host itself.
"""

import os
from typing import Any

from nova import objects
from nova import utils as nova_utils
from nova.compute import manager as nova_manager
from nova.network import model as network_model
from oslo_log import log as logging
from oslo_utils import timeutils, uuidutils

from nova_rt.tracking import servers

CONF = nova_manager.CONF
LOG = logging.getLogger(__name__)

#: Nova's suffixes of a server's directory: during a move, during deletion.
_SUFFIXES = ('_resize', '_del')

_ATTRIBUTES = ['flavor', 'info_cache', 'system_metadata']


def remove(manager: nova_manager.ComputeManager, context: Any) -> None:
    """Remove the disks and domains of servers deleted some time ago.

    Directories and domains of any other UUID are left alone.

    :param manager: of this host
    """
    found = _list_directories() | set(manager.driver.list_instance_uuids())
    if not found:
        return
    with nova_utils.temporary_mutation(context, read_deleted='yes'):
        deleted = objects.InstanceList.get_by_filters(
            context,
            {'uuid': sorted(found), 'deleted': True, 'soft_deleted': False},
            expected_attrs=_ATTRIBUTES,
        )
        for instance in deleted:
            if _is_ours(manager, instance):
                _remove_one(manager, context, instance)


def _list_directories() -> set[str]:
    """List the servers with directories on this host.

    :returns: UUIDs
    """
    found = set()
    for name in os.listdir(CONF.instances_path):
        for suffix in _SUFFIXES:
            name = name.removesuffix(suffix)
        if uuidutils.is_uuid_like(name):
            found.add(name)
    return found


def _is_ours(manager: nova_manager.ComputeManager, instance: Any) -> bool:
    """Tell whether Nova will not clean up after a deleted server."""
    return (
        servers.is_rt(instance)
        # Otherwise Nova itself tries again, up to its limit.
        and (instance.cleaned or instance.host != manager.host)
        and timeutils.is_older_than(
            instance.deleted_at, CONF.instance_delete_interval
        )
    )


def _remove_one(
    manager: nova_manager.ComputeManager, context: Any, instance: Any
) -> None:
    LOG.warning(
        'Removing orphaned files of deleted server from this host',
        instance=instance,
    )
    cache = instance.info_cache
    try:
        manager.driver.destroy(
            context,
            instance,
            cache.network_info if cache else network_model.NetworkInfo(),
            block_device_info=None,
            destroy_disks=True,
        )
    except Exception:
        # The next round tries again; the other servers are next.
        LOG.exception('Could not remove orphaned files of deleted server',
                      instance=instance)  # fmt: skip
