# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.api.routing, against the router of nova-api itself."""

import itertools
import logging

import ddt
import fixtures
from nova import test
from nova.api.openstack.compute import flavors_extraspecs, routes, servers
import webob

from nova_rt.api import routing

# What our actions are there.
OURS = {
    routing.CREATE: (servers.ServersController, 'create'),
    routing.SET_SPECS: (
        flavors_extraspecs.FlavorExtraSpecsController,
        'create',
    ),
    routing.SET_SPEC: (
        flavors_extraspecs.FlavorExtraSpecsController,
        'update',
    ),
}

PATHS = [
    prefix + path + suffix
    for prefix, path, suffix in itertools.product(
        ('', '/', '/0f', '/0f-3', '/0F', '/0f%0a', '/project', '//', '/%2f'),
        (
            '/servers', '/Servers', '/servers/x', '/servers/x/action',
            '/os-volumes_boot', '/flavors', '/flavors/x/os-extra_specs',
            '/flavors/x/os-extra_specs/rt:policy',
            '/flavors/x%2fy/os-extra_specs', '/flavors/x%0a/os-extra_specs',
            '/flavors/%c3%a9/os-extra_specs/%c3%a9',
            '/flavors/%ff/os-extra_specs/%ff',
            '/flavors/x%2574+y/os-extra_specs', '/flavors//os-extra_specs',
        ),
        (
            '', '/', '//', '%0a', '%0a%0a', '/%0a', '%0d', '%0d%0a', '%20',
            '%00', '.json', '.json%0a', '.xml', ';x', '%3fx', '?x=1',
            '?_method=POST', '?_method=put', '?_method=GET',
            '?_method=POST&_method=PUT', '?x_method=POST', '%23x',
        ),
    )
]  # fmt: skip


def _our_action(resource, action):
    """Our name of what Nova does; None if it does not concern us."""
    for ours, (controller, novas) in OURS.items():
        # There are heirs of the controller of servers.
        if isinstance(resource.controller, controller) and action == novas:
            return ours
    return None


@ddt.ddt
class RoutingTest(test.TestCase):
    def setUp(self):
        super().setUp()
        # It notes each match, which is more than a test's log can be.
        self.useFixture(
            fixtures.MockPatchObject(
                logging.getLogger('routes.middleware'), 'disabled', True
            )
        )
        self.nova = routes.APIRouterV21()

    def _novas(self, request):
        """Return what Nova would do: the match, and our name of the action."""
        self.nova._router.app = lambda environ, start_response: None
        self.nova._router(request.environ, None)
        match = dict(request.environ['wsgiorg.routing_args'][1])
        resource = match.pop('controller', None)
        if resource is None:
            return {}
        action = _our_action(resource, match['action'])
        return match | {'action': action} if action else {}

    @ddt.data('GET', 'POST', 'PUT', 'DELETE', 'PATCH')
    def test_as_nova(self, method):
        router = routing.Router()
        found = set()
        for path in PATHS:
            request = webob.Request.blank(path, method=method)
            ours = dict(router.find(request.environ.copy()))
            ours.pop('controller', None)
            with self.subTest(path=path):
                self.assertEqual(self._novas(request), ours)
            found.add(ours.get('action'))
        # By the query, each of them is reached whatever the method.
        self.assertEqual({None, *OURS}, found)

    def test_every_route(self):
        """Nova has no other that does the same."""
        novas = {
            (path, method, _our_action(controller(), action))
            for path, methods in routes.ROUTE_LIST
            if not isinstance(methods, str)
            for method, (controller, action) in methods.items()
            if _our_action(controller(), action)
        }
        self.assertEqual(set(routing._ROUTES), novas)

    def test_request_is_left_as_it_was(self):
        request = webob.Request.blank('/servers?_method=POST', method='PUT')
        self.assertTrue(routing.Router().find(request.environ))
        self.assertEqual('PUT', request.method)
