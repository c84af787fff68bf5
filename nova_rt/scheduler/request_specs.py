# SPDX-License-Identifier: Apache-2.0
"""Reading a RequestSpec: the request of a server, seen from the scheduler.

Flavor and hints are held against the operator's bounds once, when a server is
created or resized to another flavor. From its first claim on, a server asks
for the request of its record, independent of today's bounds: it can always be
moved, evacuated and unshelved. A server that is migrated because it has no
room to grow asks for what it is to have.
"""

from collections.abc import Mapping
from typing import Any

from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects

from nova_rt.reservation import bounds, extra_specs, record, resources, wish
from nova_rt.reservation.request import FLAVOR_HINT, Request, choose_hints

_OURS = {*extra_specs.HINTS, FLAVOR_HINT}


def admit(ctxt: Any, spec_obj: Any, allowed: bounds.Bounds) -> Request | None:
    """Read the request of a server, and whether it is allowed.

    The hints of the RequestSpec apply if they were given with its flavor,
    which is the new one for a resize.

    :param ctxt: nova.context.RequestContext
    :param spec_obj: nova.objects.RequestSpec
    :param allowed: the bounds for servers without a claim
    :returns: None for a server that is not real-time
    :raises InvalidRequest: with a message for the user
    :raises InvalidRecord: if the server's record cannot be read
    """
    specs = _read_specs(spec_obj)
    if extra_specs.is_rt(specs):
        rec = _read_record(ctxt, spec_obj)
        if rec is not None:
            return rec.request
    asked = allowed.parse_request(
        specs, spec_obj.flavor.vcpus, _read_hints(spec_obj)
    )
    if asked is not None:
        resources.check_cpu_policy(
            'image property hw_cpu_policy', _image_cpu_policy(spec_obj)
        )
    return asked


def settle(spec_obj: Any, asked: Request) -> None:
    """Put the request of a server into its flavor, for :func:`parse`.

    The extra specs of the flavor itself, and its demands on Placement, are
    replaced. The RequestSpec is the scheduler's own copy and is not saved.

    :param spec_obj: nova.objects.RequestSpec, changed in place
    """
    flavor = spec_obj.flavor
    flavor.extra_specs = resources.replace(flavor.extra_specs, asked) | {
        extra_specs.SPECS[field].key: str(value)
        for field, value in asked.plain().items()
        if value is not None
    }
    spec_obj.scheduler_hints = {
        name: hint
        for name, hint in _read_hints(spec_obj).items()
        if name not in _OURS
    }
    spec_obj.obj_reset_changes(['flavor', 'scheduler_hints'], recursive=True)


def parse(spec_obj: Any) -> Request | None:
    """Read the request that the request filter has admitted.

    :param spec_obj: nova.objects.RequestSpec
    :returns: None for a server that is not real-time
    :raises InvalidRequest: if the request filter did not see it
    """
    return Request.from_flavor(
        _read_specs(spec_obj),
        spec_obj.flavor.vcpus,
        _read_hints(spec_obj),
        admitted=True,
    )


def _read_specs(spec_obj: Any) -> dict[str, str]:
    flavor = spec_obj.flavor
    return flavor.extra_specs if 'extra_specs' in flavor else {}


def _read_hints(spec_obj: Any) -> Mapping[str, Any]:
    """Read all hints but those of ours that are for another flavor."""
    hints = spec_obj.scheduler_hints if 'scheduler_hints' in spec_obj else None
    return choose_hints(hints, spec_obj.flavor.flavorid)


def find_cell(ctxt: Any, spec_obj: Any) -> Any:
    """Find the cell of a server.

    :returns: nova.objects.CellMapping; None for a server that is being
        created, or is gone
    """
    try:
        # An administrator who moves it is not its owner.
        return objects.InstanceMapping.get_by_instance_uuid(
            ctxt.elevated(), spec_obj.instance_uuid
        ).cell_mapping
    except nova_exception.InstanceMappingNotFound:
        return None


def _read_record(ctxt: Any, spec_obj: Any) -> record.Record | None:
    """Read the record of a server that was claimed with the flavor it is in.

    With its wish, if it is moved for that.

    :returns: None for one that is new or gone, or is resized
    :raises InvalidRecord: if it cannot be read
    :raises InvalidReservation: if its wish cannot be read
    """
    cell = find_cell(ctxt, spec_obj)
    if cell is None:
        return None
    try:
        with nova_context.target_cell(ctxt.elevated(), cell) as cell_ctxt:
            instance = objects.Instance.get_by_uuid(
                cell_ctxt,
                spec_obj.instance_uuid,
                expected_attrs=['flavor', 'system_metadata'],
            )
    except nova_exception.InstanceNotFound:
        return None
    text = instance.system_metadata.get(record.KEY)
    if text is None or instance.flavor.id != spec_obj.flavor.id:
        return None
    return wish.take_along(
        record.Record.decode(text),
        instance.system_metadata,
        instance.task_state,
    )


def _image_cpu_policy(spec_obj: Any) -> str | None:
    image = spec_obj.image if 'image' in spec_obj else None
    if not image or 'properties' not in image:
        return None
    policy: str | None = image.properties.get('hw_cpu_policy')
    return policy
