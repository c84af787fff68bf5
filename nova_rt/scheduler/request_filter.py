# SPDX-License-Identifier: Apache-2.0
"""The request filter: the demands of a real-time server on Placement."""

from typing import Any

from nova import exception as nova_exception
import nova.conf
from nova.scheduler import request_filter

from nova_rt import exception
import nova_rt.conf
from nova_rt.reservation import bounds
from nova_rt.scheduler import cells, request_specs, rights

CONF = nova.conf.CONF
nova_rt.conf.register_opts(CONF)


@request_filter.trace_request_filter
def rt_bandwidth_filter(ctxt: Any, request_spec: Any) -> bool:
    """Ask for the bandwidth, the trait of the enforcement, and no VCPU.

    :param ctxt: nova.context.RequestContext
    :param request_spec: nova.objects.RequestSpec, changed in place
    :returns: whether the server is a real-time one
    :raises nova.exception.RequestFilterFailed: if its request is wrong
        or not allowed, or it is to leave its cell
    """
    # First: a user who may give no hint does not learn what is wrong with it.
    rights.check(ctxt, request_spec)
    try:
        asked = request_specs.admit(
            ctxt, request_spec, bounds.Bounds.from_options(CONF.nova_rt)
        )
    except (exception.InvalidRequest, exception.InvalidRecord) as err:
        raise nova_exception.RequestFilterFailed(reason=str(err)) from err
    cells.stay(ctxt, request_spec, asked is not None)
    if asked is None:
        return False
    request_specs.settle(request_spec, asked)
    return True


def register() -> None:
    """Make nova-scheduler run the filter on every request.

    In front of Nova's own: ``isolate_aggregates`` has to see the trait.
    """
    if rt_bandwidth_filter not in request_filter.ALL_REQUEST_FILTERS:
        request_filter.ALL_REQUEST_FILTERS.insert(0, rt_bandwidth_filter)
