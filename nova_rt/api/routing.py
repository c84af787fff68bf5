# SPDX-License-Identifier: Apache-2.0
"""The requests that concern us, found as Nova's own router finds them.

Only the router knows the purpose of a request: it takes a line feed behind a
path, and another method in the query. Any pattern of our own would differ
from it somewhere, and requests would get round the middleware there.
"""

from collections.abc import Mapping
from typing import Any

from nova.api import openstack
from routes import middleware

CREATE = 'create'
SET_SPECS = 'set_specs'
SET_SPEC = 'set_spec'

# Of nova/api/openstack/compute/routes.py, with actions of our own.
_ROUTES = (
    ('/servers', 'POST', CREATE),
    ('/os-volumes_boot', 'POST', CREATE),
    ('/flavors/{flavor_id}/os-extra_specs', 'POST', SET_SPECS),
    ('/flavors/{flavor_id}/os-extra_specs/{id}', 'PUT', SET_SPEC),
)


class Router:
    """Nova's router, with our routes alone."""

    def __init__(self) -> None:
        mapper = openstack.ProjectMapper()
        for path, method, action in _ROUTES:
            mapper.create_route(path, method, None, action)
        # Not a singleton: that would be the one of Nova behind us.
        self._find = middleware.RoutesMiddleware(
            _get_match, mapper, singleton=False
        )

    def find(self, environ: dict[str, Any]) -> Mapping[str, str]:
        """Match a request.

        :param environ: of the request; the match is noted there, until Nova
            puts its own in that place
        :returns: ``action`` and the names in the path; empty for a request
            that does not concern us
        """
        return self._find(environ, None)


def _get_match(environ: dict[str, Any], _start_response: Any) -> Any:
    """Return the match; the router calls this in place of an application."""
    return environ['wsgiorg.routing_args'][1]
