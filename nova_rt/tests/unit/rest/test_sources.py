# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.rest.sources."""

import fixtures
from keystoneauth1 import exceptions as ks_exc
from oslo_config import cfg
from oslo_limit import exception as limit_exception
from oslotest import base

from nova_rt.cloud.nova_db import Unreadable
from nova_rt.reservation.reservation import Reservation
from nova_rt.rest import sources
from nova_rt.tests.unit.rest.base import make_server

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

    def patch(self, name, value):
        self.useFixture(
            fixtures.MonkeyPatch(f'nova_rt.rest.sources.{name}', value)
        )

    def enforce(self, project, deltas):
        """As the Enforcer of oslo.limit."""
        if self.used + deltas[LIMIT] > 2_500_000:
            raise limit_exception.ProjectOverLimit(
                project,
                [limit_exception.OverLimitInfo(
                    LIMIT, 2_500_000, self.used, deltas[LIMIT])],
            )  # fmt: skip

    def check(self, runtime_us, number=1):
        self.sources.check_limit(
            make_server(number), Reservation(runtime_us, 2000)
        )

    def test_over(self):
        self.used = 1_600_000
        self.check(1900)
        self.assertRaises(sources.OverLimit, self.check, 1901)

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
