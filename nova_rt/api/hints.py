# SPDX-License-Identifier: Apache-2.0
"""What nova-api says of the hints of a request for servers."""

from typing import Any

from nova import exception as nova_exception
from nova import objects
from nova.api.openstack import common

from nova_rt import extra_specs
from nova_rt.api import policies
from nova_rt.bounds import Bounds

# In the order in which nova/api/openstack/compute/servers.py looks for them.
_KEYS = ('os:scheduler_hints', 'OS-SCH-HNT:scheduler_hints')

_PREFIX = 'rt_'


def check(context: Any, body: dict[str, Any], allowed: Bounds) -> None:
    """Hold the hints of ours against the flavor and the operator's rules.

    :param context: nova.context.RequestContext of the user
    :param body: of the request, not validated
    :raises InvalidRequest: with a message for the user
    :raises nova.exception.PolicyNotAuthorized: if the user may give none
    """
    hints = _ours(body)
    if not hints:
        return
    policies.authorize_hints(context)
    extra_specs.check_hints(hints)
    flavor = _flavor(context, body)
    if flavor is not None:
        # As nova/objects/request_spec.py, _from_hints(), stores them.
        stored = {
            name: hint if isinstance(hint, list) else [hint]
            for name, hint in hints.items()
        }
        allowed.parse_request(flavor.extra_specs, flavor.vcpus, stored)


def _ours(body: dict[str, Any]) -> dict[str, Any]:
    hints = next((body[key] for key in _KEYS if key in body), None)
    if not isinstance(hints, dict):
        return {}
    return {
        key: value for key, value in hints.items() if key.startswith(_PREFIX)
    }


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
