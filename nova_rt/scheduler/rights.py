# SPDX-License-Identifier: Apache-2.0
"""The policy on hints, once more where no request can get round it.

nova-api refuses a hint that the policy denies, where it has our filter. A hint
that comes past it makes no server.
"""

from typing import Any

from nova import exception as nova_exception
from nova import objects

from nova_rt.api import policies
from nova_rt.reservation import extra_specs


def check(ctxt: Any, request_spec: Any) -> None:
    """Require the right to give the hints of a new server.

    A hint stays in the RequestSpec for the server's life. A user who moves
    the server later need not have the right to give it.

    :param ctxt: nova.context.RequestContext of the user
    :param request_spec: nova.objects.RequestSpec
    :raises nova.exception.RequestFilterFailed: if not
    """
    if not _has_hints(request_spec) or not _is_new(ctxt, request_spec):
        return
    try:
        policies.authorize_hints(ctxt)
    except nova_exception.PolicyNotAuthorized as err:
        raise nova_exception.RequestFilterFailed(
            reason=err.format_message()
        ) from err


def _has_hints(request_spec: Any) -> bool:
    hints = None
    if 'scheduler_hints' in request_spec:
        hints = request_spec.scheduler_hints
    return any(name in extra_specs.HINTS for name in hints or ())


def _is_new(ctxt: Any, request_spec: Any) -> bool:
    """Whether the server is being created: it is in no cell until then."""
    try:
        # An administrator who moves it is not its owner.
        mapping = objects.InstanceMapping.get_by_instance_uuid(
            ctxt.elevated(), request_spec.instance_uuid
        )
    except nova_exception.InstanceMappingNotFound:
        # Deleted meanwhile; nothing comes of it.
        return True
    return mapping.cell_mapping is None
