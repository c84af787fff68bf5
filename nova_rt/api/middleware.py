# SPDX-License-Identifier: Apache-2.0
"""Paste filter of nova-api: bad ``rt_`` hints and ``rt:`` specs are a 400.

Nova takes any scheduler hint, and below microversion 2.86 any extra spec; the
scheduler's refusal would only reach the user as a server in ERROR. This
filter looks at them before Nova does. It belongs behind ``keystonecontext`` in
``api-paste.ini``::

    [filter:rt_hints]
    paste.filter_factory = nova_rt.api.middleware:RequestValidator.factory

It also notes with a hint which flavor it was given with
(:data:`nova_rt.reservation.request.FLAVOR_HINT`): a resize ends its effect.

The scheduler and the compute service hold every server against the same rules
again. Therefore it leaves unreadable requests to Nova, and reads a
flavor only for requests that carry a hint of ours or change a flavor.
"""

from collections.abc import Mapping
import json
from typing import Any

from nova import exception as nova_exception
from nova.api import wsgi
from nova.api.openstack import wsgi as openstack_wsgi
import nova.conf
import webob.exc

from nova_rt import exception
from nova_rt.api import flavors, hints, routing
import nova_rt.conf
from nova_rt.reservation import bounds

CONF = nova.conf.CONF
nova_rt.conf.register_opts(CONF)

# Nova's own bound is [oslo_middleware] max_request_body_size, 112 KiB unless
# set; this one keeps us from parsing what nobody bounded.
_MAX_BODY = 1 << 20


class RequestValidator(wsgi.Middleware):
    """Refuse requests with wrong hints or extra specs of ours.

    The name is older than its second task; operators have it in their
    ``api-paste.ini``.
    """

    def __init__(self, application: Any) -> None:
        super().__init__(application)
        self._bounds = bounds.Bounds.from_options(CONF.nova_rt)
        self._router = routing.Router()

    def process_request(self, req: wsgi.Request) -> Any:
        """Answer with a 400, 403 or 413, or None to let the request pass."""
        match = self._router.find(req.environ)
        if not match:
            return None
        try:
            self._check(req, match)
        except exception.InvalidRequest as err:
            return openstack_wsgi.Fault(
                webob.exc.HTTPBadRequest(explanation=str(err))
            )
        except nova_exception.PolicyNotAuthorized as err:
            return openstack_wsgi.Fault(
                webob.exc.HTTPForbidden(explanation=err.format_message())
            )
        except webob.exc.HTTPRequestEntityTooLarge as err:
            return openstack_wsgi.Fault(err)
        return None

    def _check(self, req: wsgi.Request, match: Mapping[str, str]) -> None:
        body = _read(req)
        context = req.environ['nova.context']
        action = match['action']
        if action == routing.CREATE:
            if hints.check(context, body, self._bounds):
                req.body = json.dumps(body).encode()
        elif action == routing.SET_SPECS:
            flavors.check(
                context,
                match['flavor_id'],
                body.get('extra_specs'),
                'create',
                self._bounds,
            )
        else:
            flavors.check(
                context, match['flavor_id'], body, 'update', self._bounds
            )


def _read(req: wsgi.Request) -> dict[str, Any]:
    """Read the body as Nova will, and leave it there for Nova.

    :returns: an empty one where it is not an object that can be read
    :raises webob.exc.HTTPRequestEntityTooLarge: if it is longer than anyone
        needs
    """
    try:
        body = json.loads(_read_bytes(req))
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def _read_bytes(req: wsgi.Request) -> bytes:
    if req.content_length is None and req.is_body_readable:
        # It comes in chunks: only reading it shows how long it is.
        text = _read_chunks(req.body_file)
        req.body = text
        return text
    if (req.content_length or 0) > _MAX_BODY:
        raise _too_large()
    # A copy takes its place.
    return req.body


def _read_chunks(stream: Any) -> bytes:
    text = b''
    while len(text) <= _MAX_BODY:
        # A server may give less than it is asked for, if not at the end.
        some = stream.read(_MAX_BODY + 1 - len(text))
        if not some:
            return text
        text += some
    raise _too_large()


def _too_large() -> webob.exc.HTTPException:
    return webob.exc.HTTPRequestEntityTooLarge(
        explanation=f'The body is longer than {_MAX_BODY} bytes.'
    )
