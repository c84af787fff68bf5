# SPDX-License-Identifier: Apache-2.0
"""Real-time servers stay in their cells."""

from typing import Any

from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects

from nova_rt.reservation import extra_specs


def stay(ctxt: Any, request_spec: Any, is_rt: bool) -> None:
    """Keep a server that is real-time, or is to become it, in its cell.

    Nova moves servers to other cells by snapshots of them, which nothing here
    is made for. Where it is the compute host that refuses this, Nova leaves
    the server in the middle of its resize.

    :param ctxt: nova.context.RequestContext
    :param request_spec: nova.objects.RequestSpec, changed in place
    :param is_rt: whether its flavor is real-time: the new one for a resize
    :raises nova.exception.RequestFilterFailed: if it is to go to a host of
        another cell
    """
    if 'requested_destination' not in request_spec:
        return
    wanted = request_spec.requested_destination
    # Nova allows it for moves alone, where a policy does so.
    if wanted is None or not wanted.allow_cross_cell_move:
        return
    # The user need not be the owner.
    ctxt = ctxt.elevated()
    uuid = request_spec.instance_uuid
    cell = objects.InstanceMapping.get_by_instance_uuid(
        ctxt, uuid
    ).cell_mapping
    if not is_rt and not _is_rt(ctxt, uuid, cell):
        return
    if 'host' in wanted and wanted.host:
        other = objects.HostMapping.get_by_host(ctxt, wanted.host)
        if other.cell_mapping.uuid != cell.uuid:
            raise nova_exception.RequestFilterFailed(
                reason='real-time servers cannot be moved to another cell, '
                f'such as that of {wanted.host}'
            )
    wanted.allow_cross_cell_move = False
    wanted.cell = cell


def _is_rt(ctxt: Any, uuid: str, cell: Any) -> bool:
    with nova_context.target_cell(ctxt, cell) as cell_ctxt:
        instance = objects.Instance.get_by_uuid(
            cell_ctxt, uuid, expected_attrs=['flavor']
        )
    return extra_specs.is_rt(instance.flavor.extra_specs)
