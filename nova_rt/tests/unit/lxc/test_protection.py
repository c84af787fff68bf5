# SPDX-License-Identifier: Apache-2.0
"""Groups of containers without a reservation: taken from their roots."""

import errno
from unittest import mock

import fixtures
from nova import exception as nova_exception

from nova_rt import exception
from nova_rt.tests.unit.virt.libvirt import base, test_running
from nova_rt.tracking import stop_policy
from nova_rt.virt.libvirt import running


class ProtectTest(base.TestBase):
    def setUp(self):
        super().setUp()
        self.hypervisor = test_running.Hypervisor(self.kernel)
        self.running = running.RunningContainers(
            self.host,
            self.hypervisor,
            self.reservations,
            stop_policy.StopPolicy(1),
        )
        self.reservations.adopt([])
        self.guest = self.hypervisor.start('plain', 100, '<x/>')
        self.group = self.kernel.group_of(100)
        self.kernel.own(self.group, 100_000, 0o755)
        self.stopped = []

    def owner(self):
        return self.kernel.owner_of(self.group)[0]

    def protect(self):
        self.running.protection.protect(
            'plain', lambda: self.stopped.append('plain')
        )

    def refuse(self, number, end=False):
        def refuse(files, group):
            if end:
                self.guest.poweroff()
            raise OSError(number, 'no')

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_rt.host.files.Files.chown_to_root', refuse
            )
        )

    def test_taken(self):
        self.protect()
        self.assertEqual(0, self.owner())
        self.assertEqual([], self.stopped)

    def test_cannot_be_taken(self):
        """It does not run with them."""
        self.refuse(errno.EPERM)
        refusal = self.assertRaises(exception.HostNotPrepared, self.protect)
        self.assertIn('no (EPERM)', str(refusal))
        self.assertEqual(['plain'], self.stopped)

    def test_it_has_ended_by_itself(self):
        self.refuse(errno.ENOENT, end=True)
        self.protect()
        self.protect()
        self.assertEqual([], self.stopped)

    def test_libvirt_does_not_say(self):
        self.hypervisor.broken.add('plain')
        self.assertRaises(exception.HostNotPrepared, self.protect)
        self.assertEqual(['plain'], self.stopped)

    def test_libvirt_cannot_be_reached(self):
        """Nova's error is none of libvirt's."""
        self.hypervisor.get_connection = mock.Mock(
            side_effect=nova_exception.HypervisorUnavailable()
        )
        self.assertRaises(exception.HostNotPrepared, self.protect)
        self.assertEqual(['plain'], self.stopped)

    def test_check(self):
        self.running.verify('plain')
        self.assertEqual(0, self.owner())

    def test_check_that_cannot(self):
        """Reported once, and stopped never."""
        self.refuse(errno.EMFILE)
        for _ in range(3):
            self.running.verify('plain')
        self.assertTrue(self.guest.is_active())
        self.assertEqual(1, self.log.output.count('Could not protect'))
        self.assertEqual([], self.events)


class LimitsTest(ProtectTest):
    """The same, and limits of a user namespace."""

    def setUp(self):
        super().setUp()
        self.running.protection.limits = True
        self.limited = []
        self.kept = []
        self.answer(0)
        self.answer_oom(0)

    def answer_oom(self, number):
        def keep(files, controller):
            self.kept.append(controller)
            if number:
                raise OSError(number, 'no')

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_rt.host.files.Files.keep_from_oom', keep
            )
        )

    def answer(self, number):
        def limit(files, controller):
            if number:
                raise OSError(number, 'no')
            self.limited.append(controller)

        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.host.files.Files.limit', limit)
        )

    def test_once(self):
        self.protect()
        self.running.verify('plain')
        self.assertEqual(([100], [100]), (self.limited, self.kept))

    def allow(self, number=0):
        """The helper's answer to the question for priorities."""
        allowed = []

        def answer(files, controller, most):
            if number:
                raise OSError(number, 'no')
            allowed.append((controller, most))

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_rt.host.files.Files.allow_priority', answer
            )
        )
        return allowed

    def test_priorities(self):
        allowed = self.allow()
        protection = self.running.protection
        protection.limit('plain', 100)
        protection.forget('plain')
        self.assertEqual([], allowed)
        for _ in range(2):
            protection.limit('plain', 100, 50)
        self.assertEqual([(100, 50)], allowed)

    def test_no_priorities(self):
        """A server that cannot use its pool is not started."""
        self.allow(errno.EPERM)
        err = self.assertRaises(
            exception.HostNotPrepared,
            self.running.protection.limit, 'plain', 100, 50,
        )  # fmt: skip
        self.assertIn('set priorities', str(err))

    def test_without_user_namespaces(self):
        """The helper that mounts may not be installed then."""
        self.running.protection.limits = False
        self.protect()
        self.assertEqual(([], []), (self.limited, self.kept))

    def test_out_of_memory(self):
        """A host that cannot keep it runs it, and logs that once."""
        self.answer_oom(errno.EACCES)
        for number in range(2):
            self.protect()
            self.guest.poweroff()
            self.running.verify('plain')
            self.guest = self.hypervisor.start('plain', 200 + number, '<x/>')
            self.kernel.own(self.kernel.group_of(200 + number), 100_000, 0o755)
        self.assertEqual(([100, 200], []), (self.kept, self.stopped))
        self.assertEqual(1, self.log.output.count('Cannot keep libvirt_lxc'))

    def test_no_limits(self):
        self.answer(errno.EIO)
        refusal = self.assertRaises(exception.HostNotPrepared, self.protect)
        self.assertIn('no (EIO)', str(refusal))
        self.assertEqual(['plain'], self.stopped)

    def test_no_limits_later(self):
        self.answer(errno.EMFILE)
        for _ in range(3):
            self.running.verify('plain')
        self.assertTrue(self.guest.is_active())
        self.assertEqual(1, self.log.output.count('Could not protect'))
        self.answer(0)
        self.running.verify('plain')
        self.assertEqual([100], self.limited)

    def test_started_anew(self):
        self.protect()
        self.guest.poweroff()
        self.running.verify('plain')
        self.guest = self.hypervisor.start('plain', 100, '<x/>')
        self.running.verify('plain')
        self.assertEqual([100, 100], self.limited)
