# SPDX-License-Identifier: Apache-2.0
"""A host that cannot be read, or whose claims cannot be published."""

import errno

import fixtures
from nova import exception as nova_exception

from nova_rt.tests.functional import base


class UnreadableKernelTest(base.RTServersTestBase):
    """Plain servers need nothing of it."""

    def setUp(self):
        super().setUp()
        self.start_compute()
        self.files = self.kernels['compute1'].files
        self.read = self.files.read
        self.broken = False

    def read_or_fail(self, path):
        if self.broken and path.name == 'cpu.rt.effective':
            raise OSError(errno.EMFILE, 'Too many open files')
        return self.read(path)

    def test_plain_servers_and_audits_go_on(self):
        flavor = self._create_flavor(
            memory_mb=64, vcpu=1, disk=10, ephemeral=0
        )
        first = self.create(flavor)
        self.broken = True
        with fixtures.MockPatchObject(self.files, 'read', self.read_or_fail):
            self.create(flavor)
            self._delete_server(first)
            self._run_periodics()
            self.assertEqual({0}, set(self.published().values()))
            refused = self.create(self.rt_flavor(), state='ERROR')
            self.assertIn('free', base.fault_of(refused))
            self.assertEqual({}, self.claims())
            log = self.stdlog.logger.output
            self.assertEqual(1, log.count('No bandwidth is offered: '))
            self.broken = False
            self._run_periodics()
        self.assert_held(self.create(self.rt_flavor()))

    def test_claim(self):
        """The scheduler has an older picture; the claim says why."""
        self.broken = True
        flavor = self.rt_flavor()
        with fixtures.MockPatchObject(self.files, 'read', self.read_or_fail):
            refused = self.create(flavor, state='ERROR')
        self.assertIn('EMFILE', base.fault_of(refused))
        self.assertEqual({}, self.claims())


class PlacementFailsTest(base.RTServersTestBase):
    """After a claim, when it is published."""

    def test_claim_is_given_up(self):
        self.start_compute()
        before = self.published()
        tracker = self.computes['compute1'].manager.rt
        failing = fixtures.MockPatchObject(
            tracker, '_update_to_placement',
            side_effect=nova_exception.PlacementAPIConnectFailure(),
        )  # fmt: skip
        with failing:
            self.create(self.rt_flavor('900/1000', 4), state='ERROR')
        self.assertEqual({}, self.claims())
        self.assertEqual(before, self.published())
        self.assert_held(self.create(self.rt_flavor('900/1000', 4)))
