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
        self.assertEqual(1, len(self.containers.started[1:]))

    def test_same_server_starts(self):
        self.api.post_server_action(self.server['id'], {'os-stop': None})
        self._wait_for_state_change(self.server, 'SHUTOFF')
        self.assertEqual(1, len(self.groups()))
        self.api.post_server_action(self.server['id'], {'os-start': None})
        self._wait_for_state_change(self.server, 'ACTIVE')
        self.assert_held(self.server)
        self.assertEqual(1, len(self.groups()))

    def test_refused(self):
        """The log names what may not be removed."""
        group = self.leave()
        self.kernel.set_age(group, 1)
        self.kernel.leave_groups(False)
        server = self.create(self.flavor, state='ERROR')
        self.assertIn('EINVAL', base.fault_of(server))
        self.assert_nothing_left_but(group, server)
        self.assertIn(
            f'group {group.name} has no tasks and holds 600/1000 us',
            self.stdlog.logger.output,
        )
        self.kernel.set_age(group, 60)
        self.assert_held(self.create(self.flavor))
        self.assertFalse(group.exists())

    def assert_nothing_left_but(self, group, server):
        self.assertEqual([group.name], self.groups())
        self.assertNotIn(server['id'], self.domains())
        self.assertEqual({}, self.claims())
        self.assertEqual(set(), self.mounted)

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
        self.computes['compute1'].manager._verify_reservations(self.ctxt)
        self.assertEqual([], self.groups())
        kernel.let_time_pass()
        self._run_periodics()
        self.assertEqual(self.capacity(), self.published())
        self.assert_held(self.create(flavor))
        self.assertIn(
            f'Removed orphaned group {name}', self.stdlog.logger.output
        )
