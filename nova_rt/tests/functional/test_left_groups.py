# SPDX-License-Identifier: Apache-2.0
"""libvirt leaves groups of containers that have ended, with reservations."""

from nova_rt.tests.functional import base


class LeftGroupsTest(base.RTServersTestBase):
    """Left groups if the kernel sums over the host: no server fits beside."""

    INTERFACE = 'v1-throttle'

    def setUp(self):
        super().setUp()
        self.start_compute()
        self.kernel = self.kernels['compute1']
        self.flavor = self.rt_flavor('600/1000')
        self.server = self.create(self.flavor)
        self.kernel.leave_groups()
        # Its own group is not in the way of its next start.
        self._stop_server(self.server)
        self.assertEqual(1, len(self.groups()))
        self._start_server(self.server)
        self.assert_held(self.server)
        self.assertEqual(1, len(self.groups()))
        self.containers.started.clear()

    def leave(self):
        """Delete the server; what is left of it holds its bandwidth.

        :returns: its group
        """
        self._delete_server(self.server)
        (name,) = self.groups()
        # It is nobody's: not in a claim, in Placement, or in the statistics.
        self.assertEqual({}, self.claims())
        self.assertEqual(0, self.used())
        driver = self.computes['compute1'].driver
        self.assertEqual(set(), driver.running.list_running())
        return self.kernel.partition / name

    def test_next_server_starts(self):
        """The kernel refuses what Placement has granted, and then takes it."""
        group = self.leave()
        server = self.create(self.flavor)
        self.assert_held(server)
        self.assertFalse(group.exists())
        self.assertEqual(1, len(self.groups()))
        self.assertIn(
            f'Removed orphaned group {group.name}, which held 600/1000 us',
            self.stdlog.logger.output,
        )
        self.assertEqual(1, len(self.containers.started))

    def test_refused(self):
        """The log names what may not be removed."""
        group = self.leave()
        self.kernel.set_age(group, 1)
        self.kernel.leave_groups(False)
        server = self.create(self.flavor, state='ERROR')
        self.assertIn('EINVAL', base.fault_of(server))
        self.assertEqual([group.name], self.groups())
        self.assertNotIn(server['id'], self.domains())
        self.assertEqual({}, self.claims())
        self.assertEqual(set(), self.mounted)
        self.assertIn(
            f'group {group.name} has no tasks and holds 600/1000 us',
            self.stdlog.logger.output,
        )
        self.kernel.set_age(group, 60)
        self.assert_held(self.create(self.flavor))
        self.assertFalse(group.exists())

    def test_start_of_the_service(self):
        group = self.leave()
        self.restart_compute_service('compute1')
        self.assertFalse(group.exists())
        self.assert_held(self.create(self.flavor))


class GuaranteeTest(base.RTServersTestBase):
    """A kernel that says what it has left, on each CPU."""

    def test_periodic_check(self):
        self.start_compute()
        kernel = self.kernels['compute1']
        flavor = self.rt_flavor('600/1000', vcpus=4, numa='any')
        server = self.create(flavor)
        kernel.leave_groups()
        self._delete_server(server)
        (name,) = self.groups()
        self.verify()
        self.assertEqual([], self.groups())
        kernel.let_time_pass()
        self._run_periodics()
        self.assertEqual(self.capacity(), self.published())
        self.assert_held(self.create(flavor))
        self.assertIn(
            f'Removed orphaned group {name}', self.stdlog.logger.output
        )
