# SPDX-License-Identifier: Apache-2.0
"""The policy on hints, once more where no request can get round it.

nova-api refuses a hint that the policy denies, where it has our filter. A hint
that comes past it makes no server.
"""

from typing import Any

from nova import exception as nova_exception

from nova_rt.api import policies
from nova_rt.reservation import extra_specs
from nova_rt.scheduler import request_specs


def check(ctxt: Any, request_spec: Any) -> None:
    """Require the right to give the hints of a new server.

    A hint stays in the RequestSpec for the server's life. A user who moves
    the server later need not have the right to give it.

    :param ctxt: nova.context.RequestContext of the user
    :param request_spec: nova.objects.RequestSpec
    :raises nova.exception.RequestFilterFailed: if not
    """
    hints = None
    if 'scheduler_hints' in request_spec:
        hints = request_spec.scheduler_hints
    if not any(name in extra_specs.HINTS for name in hints or ()):
        return
    # It is in no cell while it is being created; nothing comes of one that
    # was deleted meanwhile.
    if request_specs.find_cell(ctxt, request_spec) is not None:
        return
    try:
        policies.authorize_hints(ctxt)
    except nova_exception.PolicyNotAuthorized as err:
        raise nova_exception.RequestFilterFailed(
            reason=err.format_message()
        ) from err
