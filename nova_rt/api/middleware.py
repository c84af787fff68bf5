# SPDX-License-Identifier: Apache-2.0
"""Paste filter of nova-api: bad ``rt_`` hints and ``rt:`` specs are a 400.

Nova takes any scheduler hint, and below microversion 2.86 any extra spec; the
scheduler's refusal would only reach the user as a server in ERROR. This
filter looks at them before Nova does. It belongs behind ``keystonecontext`` in
``api-paste.ini``::

    [filter:rt_hints]
    paste.filter_factory = nova_rt.api.middleware:RTHintMiddleware.factory

It also notes with a hint which flavor it was given with
(:data:`nova_rt.request.FLAVOR_HINT`): a resize ends its effect.

It is no gate: the scheduler and the compute service hold
every request against the same rules again. Therefore it leaves to Nova what
it cannot read, and reads a flavor only for requests that carry a hint of ours
or change a flavor.
"""

import json
import re
from typing import Any

from nova import exception as nova_exception
from nova.api import wsgi
from nova.api.openstack import wsgi as openstack_wsgi
import nova.conf
import webob.exc

from nova_rt import bounds, exception
from nova_rt.api import flavors, hints
import nova_rt.conf

CONF = nova.conf.CONF
nova_rt.conf.register_opts(CONF)

# Routes of nova/api/openstack/compute/routes.py; the project ID in the path
# is optional.
_CREATE = re.compile(r'(/[^/]+)?/(servers|os-volumes_boot)(\.json)?/?')
_SET_SPECS = re.compile(
    r'(/[^/]+)?/flavors/(?P<flavor>[^/]+)/os-extra_specs(\.json)?/?'
)
_SET_SPEC = re.compile(
    r'(/[^/]+)?/flavors/(?P<flavor>[^/]+)/os-extra_specs/.+'
)

# Nova's own bound is [oslo_middleware] max_request_body_size, 112 KiB unless
# set; this one only keeps us from parsing what nobody bounded.
_MAX_BODY = 1 << 20


class RTHintMiddleware(wsgi.Middleware):
    """Refuse requests whose hints or extra specs of ours are wrong.

    The name is older than its second task; operators have it in their
    ``api-paste.ini``.
    """

    def __init__(self, application: Any) -> None:
        super().__init__(application)
        self._bounds = bounds.Bounds.from_options(CONF.nova_rt)

    def process_request(self, req: wsgi.Request) -> Any:
        """Answer with a 400 or 403, or with None to let the request pass."""
        try:
            if req.method == 'POST':
                self._check_post(req)
            elif req.method == 'PUT':
                self._check_put(req)
        except exception.InvalidRequest as err:
            return openstack_wsgi.Fault(
                webob.exc.HTTPBadRequest(explanation=str(err))
            )
        except nova_exception.PolicyNotAuthorized as err:
            return openstack_wsgi.Fault(
                webob.exc.HTTPForbidden(explanation=err.format_message())
            )
        return None

    def _check_post(self, req: wsgi.Request) -> None:
        if _CREATE.fullmatch(req.path_info):
            body = _read(req)
            context = req.environ['nova.context']
            if hints.check(context, body, self._bounds):
                req.body = json.dumps(body).encode()
        elif match := _SET_SPECS.fullmatch(req.path_info):
            self._check_flavor(
                req, match['flavor'], _read(req).get('extra_specs'), 'create'
            )

    def _check_put(self, req: wsgi.Request) -> None:
        if match := _SET_SPEC.fullmatch(req.path_info):
            self._check_flavor(req, match['flavor'], _read(req), 'update')

    def _check_flavor(
        self, req: wsgi.Request, flavor_id: str, specs: Any, action: str
    ) -> None:
        context = req.environ['nova.context']
        flavors.check(context, flavor_id, specs, action, self._bounds)


def _read(req: wsgi.Request) -> dict[str, Any]:
    """The body; an empty one where it is not an object that we read.

    Reading it through webob puts a copy in its place: Nova reads it again.
    """
    if req.content_length is None or req.content_length > _MAX_BODY:
        return {}
    try:
        body = json.loads(req.body)
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}
