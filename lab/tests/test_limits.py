# SPDX-License-Identifier: Apache-2.0
"""A project gets no more bandwidth than its limit, from Keystone to Nova."""

import uuid

from openstack import exceptions

from lab import catalog, config
from lab.tests import base


class BandwidthLimitTest(base.LabTestCase):
    """A project of its own, with room for one server of flavor rt.small."""

    LIMIT_PPM = 300_000

    def setUp(self):
        super().setUp()
        self.user = self.connect_user()

    def connect_user(self):
        """Make a project with a limit and a user in it."""
        identity = self.cloud.identity
        name = f'e2e-{uuid.uuid4().hex[:8]}'
        project = identity.create_project(name=name, domain_id=catalog.DOMAIN)
        self.addCleanup(identity.delete_project, project)
        user = identity.create_user(
            name=name, password=config.PASSWORD, domain_id=catalog.DOMAIN
        )
        self.addCleanup(identity.delete_user, user)
        identity.assign_project_role_to_user(
            project, user, identity.find_role('member', ignore_missing=False)
        )
        limit = identity.create_limit(
            service_id=identity.find_service('nova', ignore_missing=False).id,
            region_id='RegionOne',
            project_id=project.id,
            resource_name=catalog.BANDWIDTH_LIMIT,
            resource_limit=self.LIMIT_PPM,
        )
        self.addCleanup(identity.delete_limit, limit)
        connection = catalog.connect(user=name, project=name)
        self.addCleanup(connection.close)
        return connection

    def ask(self, flavor, hint=None):
        return self.request_server(flavor, hint=hint, user=self.user)

    def test_refused_until_something_is_deleted(self):
        server = self.reach(self.ask('rt.small'), 'ACTIVE')
        with self.assertRaises(exceptions.ForbiddenException) as refused:
            self.ask('rt.small')
        self.assertIn(
            f'Resource {catalog.BANDWIDTH_LIMIT} is over limit of 300000 due '
            'to current usage 200000 and delta 200000',
            str(refused.exception),
        )
        # Half of that fits, and plain servers do not count.
        self.reach(self.ask('rt.tiny'), 'ACTIVE')
        self.reach(self.ask(base.PLAIN), 'ACTIVE')
        self.delete(server)
        self.reach(self.ask('rt.small'), 'ACTIVE')

    def test_a_hint_does_not_get_around_it(self):
        with self.assertRaises(exceptions.BadRequestException):
            self.ask('rt.small', '40000/100000')
        # What counts is the flavor: less by a hint helps as little.
        with self.assertRaises(exceptions.ForbiddenException):
            self.ask('rt.medium', '10000/100000')
