# SPDX-License-Identifier: Apache-2.0
"""Checks of the hints of a request for servers, in nova-api."""

from typing import Any

from nova import exception as nova_exception
from nova import objects
from nova.api.openstack import common

from nova_rt.api import policies
from nova_rt.reservation import extra_specs
from nova_rt.reservation.bounds import Bounds
from nova_rt.reservation.request import FLAVOR_HINT

# In the order in which nova/api/openstack/compute/servers.py looks for them.
_KEYS = ('os:scheduler_hints', 'OS-SCH-HNT:scheduler_hints')

_PREFIX = 'rt_'


def check(context: Any, body: dict[str, Any], allowed: Bounds) -> bool:
    """Hold the hints of ours against the flavor and the operator's rules.

    A good request gets the flavor's ID as one hint more: the hints apply to
    that flavor alone, and not after a resize to another.

    :param context: nova.context.RequestContext of the user
    :param body: of the request, not validated; changed in place
    :returns: whether the body was changed
    :raises InvalidRequest: with a message for the user
    :raises nova.exception.PolicyNotAuthorized: if the user may give none
    """
    given = next((body[key] for key in _KEYS if key in body), None)
    if not isinstance(given, dict):
        return False
    hints = {
        key: value for key, value in given.items() if key.startswith(_PREFIX)
    }
    if not hints:
        return False
    policies.authorize_hints(context)
    extra_specs.check_hints(hints)
    flavor = _flavor(context, body)
    if flavor is None:
        return False
    # As nova/objects/request_spec.py, _from_hints(), stores them.
    stored = {
        name: hint if isinstance(hint, list) else [hint]
        for name, hint in hints.items()
    }
    allowed.parse_request(flavor.extra_specs, flavor.vcpus, stored)
    given[FLAVOR_HINT] = flavor.flavorid
    return True


def _flavor(context: Any, body: dict[str, Any]) -> Any:
    """The flavor asked for, or None where Nova will refuse it."""
    server = body.get('server')
    ref = server.get('flavorRef') if isinstance(server, dict) else None
    if not isinstance(ref, str | int):
        return None
    try:
        # The user's context: what the user may not see, Nova refuses.
        return objects.Flavor.get_by_flavor_id(
            context, common.get_id_from_href(str(ref))
        )
    except (nova_exception.FlavorNotFound, ValueError):
        return None
