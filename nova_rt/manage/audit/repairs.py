# SPDX-License-Identifier: Apache-2.0
"""Repairs of allocations.

Each repair reads the allocation and the server again, and changes nothing if
they are others by now. Placement's consumer generation excludes a change in
between.
"""

from typing import Any

from keystoneauth1 import exceptions as ks_exc
from nova import exception as nova_exception

from nova_rt import exception
from nova_rt.cloud import instances
from nova_rt.cloud.nova_db import Unreadable
from nova_rt.cloud.reading import PENDING, Cloud, Node
from nova_rt.cloud.snapshot import (
    RemoveAllocation,
    Repair,
    SetAllocation,
)
from nova_rt.manage.audit.compare import CPU_CLASSES, REMOVABLE
from nova_rt.manage.audit.reading import Auditor
from nova_rt.reservation import extra_specs
from nova_rt.tracking import servers

_RC = extra_specs.RESOURCE_CLASS
_CHANGED = 'it has changed meanwhile: audit again'


class NotMended(Exception):
    """A repair did not succeed; its text says why."""


def describe(repair: Repair) -> str:
    """Describe a repair.

    :returns: a sentence without a full stop
    """
    if isinstance(repair, SetAllocation):
        return (
            f'would set the allocation from {repair.held_ppm} to '
            f'{repair.ppm} ppm'
        )
    return f'would remove the allocation of {repair.held_ppm} ppm'


def mend(auditor: Auditor, repair: Repair) -> None:
    """Carry out a repair.

    :raises NotMended: if it did not succeed; nothing is changed then
    """
    try:
        if isinstance(repair, SetAllocation):
            _set(auditor, repair)
        else:
            _remove(auditor, repair)
    except (Unreadable, nova_exception.NovaException) as err:
        raise NotMended(str(err)) from err
    except ks_exc.ClientException as err:
        raise NotMended(
            f'Placement does not answer ({type(err).__name__})'
        ) from err


def _read(source: Cloud, uuid: str, provider: str, held: int) -> Any:
    """All that a consumer holds, if it still holds that on the provider."""
    payload = source.client.get_allocs_for_consumer(source.context, uuid)
    there = payload['allocations'].get(provider, {}).get('resources', {})
    if there.get(_RC, 0) != held:
        raise NotMended(_CHANGED)
    # Of the provider's, not wanted in an answer.
    for each in payload['allocations'].values():
        each.pop('generation', None)
    return payload


def _put(source: Cloud, uuid: str, payload: Any) -> None:
    if not source.client.put_allocations(source.context, uuid, payload):
        raise NotMended('Placement refuses: the host has less left than that')


def _set(auditor: Auditor, repair: SetAllocation) -> None:
    source = auditor.cloud
    payload = _read(source, repair.uuid, repair.provider, repair.held_ppm)
    instance = source.find(repair.uuid)
    if not _is_settled(instance, auditor.find_node(repair.provider), repair):
        raise NotMended(_CHANGED)
    try:
        wanted = instances.ask(instance, source.is_volume_backed(instance))
    except exception.InvalidRequest as err:
        raise NotMended(str(err)) from err
    if not payload['allocations']:
        # As nova-manage placement heal_allocations.
        payload = {
            'allocations': {},
            'project_id': instance.project_id,
            'user_id': instance.user_id,
            'consumer_generation': None,
        }
    # A pool of storage, for example.
    shared = {
        name
        for provider, each in payload['allocations'].items()
        if auditor.find_node(provider) is None
        for name in each['resources']
    }
    there = payload['allocations'].setdefault(
        repair.provider, {'resources': {}}
    )['resources']
    for name in CPU_CLASSES:
        there.pop(name, None)
    there.update(
        {name: wanted[name] for name in wanted.keys() - shared}
        | {_RC: repair.ppm}
    )
    _put(source, repair.uuid, payload)


def _is_settled(
    instance: Any, node: Node | None, repair: SetAllocation
) -> bool:
    """Tell whether a server is still there, with the same reservation."""
    if (
        instance in (None, PENDING)
        or node is None
        or instance.host != node.host
        or not servers.is_rt(instance)
    ):
        return False
    now = instances.make_server(instance, None, moving=False)
    return not now.busy and (
        isinstance(now.record, str)
        or now.record.request.total_ppm == repair.ppm
    )


def _remove(auditor: Auditor, repair: RemoveAllocation) -> None:
    source = auditor.cloud
    payload = _read(source, repair.uuid, repair.provider, repair.held_ppm)
    node = auditor.find_node(repair.provider)
    found = source.read_node(node) if node is not None else None
    if source.classify(repair.uuid, node, found) not in REMOVABLE:
        raise NotMended(_CHANGED)
    del payload['allocations'][repair.provider]
    _put(source, repair.uuid, payload)
