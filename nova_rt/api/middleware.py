# SPDX-License-Identifier: Apache-2.0
"""Paste filter of nova-api: a bad ``rt_reservation`` hint is a 400.

Nova takes any scheduler hint, and the scheduler's refusal would only reach
the user as a server in ERROR. This filter looks at the hint before Nova does.
It belongs behind ``keystonecontext`` in ``api-paste.ini``::

    [filter:rt_hints]
    paste.filter_factory = nova_rt.api.middleware:RTHintMiddleware.factory

It is a convenience, not a gate: the scheduler and the compute service hold
every request against the same rules again. Therefore it leaves to Nova what
it cannot read, and reads the flavor only for requests that carry a hint of
ours; a real-time flavor whose own extra specs are wrong is refused by the
scheduler, and its creation by the extra-spec validators.
"""

import json
import re
from typing import Any

from nova import exception as nova_exception
from nova import objects
from nova.api import wsgi
from nova.api.openstack import common
from nova.api.openstack import wsgi as openstack_wsgi
import nova.conf
import webob.exc

from nova_rt import bounds, exception, extra_specs
import nova_rt.conf

CONF = nova.conf.CONF
nova_rt.conf.register_opts(CONF)

# The routes of nova/api/openstack/compute/routes.py that create servers; the
# project ID in the path is optional.
_CREATE = re.compile(r'(/[^/]+)?/(servers|os-volumes_boot)(\.json)?/?')

# In the order in which nova/api/openstack/compute/servers.py looks for them.
_HINTS = ('os:scheduler_hints', 'OS-SCH-HNT:scheduler_hints')

_PREFIX = 'rt_'

# Nova's own bound is [oslo_middleware] max_request_body_size, 112 KiB unless
# set; this one only keeps us from parsing what nobody bounded.
_MAX_BODY = 1 << 20


class RTHintMiddleware(wsgi.Middleware):
    """Refuse requests for servers whose ``rt_`` hints are wrong."""

    def __init__(self, application: Any) -> None:
        super().__init__(application)
        self._bounds = bounds.Bounds.from_options(CONF.nova_rt)

    def process_request(self, req: wsgi.Request) -> Any:
        """Answer with a 400, or with None to let the request pass."""
        if req.method != 'POST' or not _CREATE.fullmatch(req.path_info):
            return None
        body = _read(req)
        hints = _our_hints(body)
        if not hints:
            return None
        try:
            self._check(req.environ['nova.context'], body, hints)
        except exception.InvalidRequest as err:
            return openstack_wsgi.Fault(
                webob.exc.HTTPBadRequest(explanation=str(err))
            )
        return None

    def _check(
        self, context: Any, body: dict[str, Any], hints: dict[str, Any]
    ) -> None:
        extra_specs.check_hints(hints)
        flavor = _flavor(context, body)
        if flavor is not None:
            # As nova/objects/request_spec.py, _from_hints(), stores them.
            stored = {
                name: hint if isinstance(hint, list) else [hint]
                for name, hint in hints.items()
            }
            self._bounds.parse_request(
                flavor.extra_specs, flavor.vcpus, stored
            )


def _read(req: wsgi.Request) -> Any:
    """The body, or None where there is none that we read.

    Reading it through webob puts a copy in its place: Nova reads it again.
    """
    if req.content_length is None or req.content_length > _MAX_BODY:
        return None
    try:
        return json.loads(req.body)
    except (ValueError, RecursionError):
        return None


def _our_hints(body: Any) -> dict[str, Any]:
    if not isinstance(body, dict):
        return {}
    hints = next((body[key] for key in _HINTS if key in body), None)
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
