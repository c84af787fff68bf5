# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.rest.sources."""

import dataclasses

import fixtures
from keystoneauth1 import exceptions as ks_exc
from oslo_config import cfg
from oslo_limit import exception as limit_exception
from oslotest import base

from nova_rt.cloud.nova_db import Unreadable
from nova_rt.formats.changes import Answer, Condition
from nova_rt.reservation.reservation import Reservation
from nova_rt.rest import sources
from nova_rt.tests.unit.rest.base import make_change, make_server

LIMIT = 'class:CUSTOM_RT_BANDWIDTH'


class LimitTest(base.BaseTestCase):
    """A project that may have 2.5 CPUs, and has servers of 1 CPU."""

    def setUp(self):
        super().setUp()
        self.used = 1_000_000
        self.sources = sources.Sources(cfg.ConfigOpts())
        self.patch('limit_utils.use_unified_limits', lambda: True)
        self.patch('limit_utils.should_enforce', lambda err: True)
        self.patch('limit.Enforcer', lambda count: self)
        self.patch('_count', lambda project, names: {LIMIT: self.used})
        self.limit, self.asked = 2_500_000, 0
        self.servers, self.changes = [], {}
        self.patch('Records', lambda: self)
        self.patch('changes.get_open', lambda: dict(self.changes))

    def patch(self, name, value):
        self.useFixture(
            fixtures.MonkeyPatch(f'nova_rt.rest.sources.{name}', value)
        )

    def enforce(self, project, deltas):
        """As the Enforcer of oslo.limit."""
        if self.used + deltas[LIMIT] > self.limit:
            raise limit_exception.ProjectOverLimit(
                project,
                [limit_exception.OverLimitInfo(
                    LIMIT, self.limit, self.used, deltas[LIMIT])],
            )  # fmt: skip

    def get_project_limits(self, project, names):
        """As the Enforcer of oslo.limit."""
        self.asked += 1
        return [(name, self.limit) for name in names]

    def read_servers(self, uuids, project):
        """As Records."""
        return [
            each
            for each in self.servers
            if each.uuid in uuids and each.project == project
        ]

    def add(self, number, condition=Condition.DEFERRED, flavor=5):
        """Add a server of the project that is to grow by 0.2 CPUs."""
        server = make_server(number)
        self.servers.append(server)
        self.changes[server.uuid] = make_change(
            server, 1, Answer(condition), flavor
        )

    def check(self, runtime_us, number=1):
        self.sources.check_limit(
            make_server(number), Reservation(runtime_us, 2000)
        )

    def test_over(self):
        self.used = 1_600_000
        self.check(1900)
        self.assertRaises(sources.OverLimit, self.check, 1901)

    def test_changes_that_have_not_ended(self):
        """Each of them may be made later."""
        self.add(1)
        self.add(2)
        self.add(3, Condition.IN_PROGRESS)
        self.used = 1_600_000
        # That of the server itself is replaced.
        self.check(1500)
        self.assertRaises(sources.OverLimit, self.check, 1501)

    def test_another_project(self):
        self.add(2)
        self.servers = [
            dataclasses.replace(each, project='b' * 32)
            for each in self.servers
        ]
        self.used = 1_600_000
        self.check(1900)

    def test_no_changes(self):
        """Nova is not asked for the servers of the project."""
        self.add(1)
        self.patch('Records', None)
        self.check(1900)

    def test_changes_that_a_resize_has_ended(self):
        self.add(2, flavor=6)
        self.used = 1_600_000
        self.check(1900)

    def test_limits_that_change(self):
        """Keystone is asked for them each 30 s, and before a refusal."""
        now_s = 100.0
        self.patch('time.monotonic', lambda: now_s)
        self.check(1100)
        self.limit = 1_000_000
        now_s += 29
        self.check(1100)
        self.assertEqual(1, self.asked)
        now_s += 1
        self.assertRaises(sources.OverLimit, self.check, 1100)
        self.limit = 2_500_000
        self.check(1100)

    def test_no_limit(self):
        """Keystone is asked again later: there may be one by then."""
        asked, now_s = [], 100.0
        self.limit = 0
        self.patch('limit_utils.should_enforce', asked.append)
        self.patch('time.monotonic', lambda: now_s)
        self.check(1100)
        self.check(1900)
        self.assertEqual(1, len(asked))
        self.patch('limit_utils.should_enforce', lambda err: True)
        now_s += 29
        self.check(1100)
        now_s += 1
        self.assertRaises(sources.OverLimit, self.check, 1100)

    def test_keystone_that_is_away(self):
        """It is asked for limits, and again when there seem to be none."""

        def fail(*args):
            raise ks_exc.ConnectFailure('gone')

        self.used = 2_500_000
        self.patch('limit_utils.should_enforce', fail)
        self.assertRaises(Unreadable, self.check, 1100)
        self.patch('limit.Enforcer', fail)
        self.sources = sources.Sources(cfg.ConfigOpts())
        self.assertRaises(Unreadable, self.check, 1100)
