# SPDX-License-Identifier: Apache-2.0
"""The kernel does not hold what it should: nothing runs, nothing is left."""

import errno
from unittest import mock

import fixtures
from oslo_privsep import comm, daemon

from nova_rt.tests.fixtures import kernel
from nova_rt.tests.functional import base


class FaultAtCreateTest(base.RTServersTestBase):
    """The only host refuses: the server ends in ERROR and says why."""

    def setUp(self):
        super().setUp()
        self.start_compute()
        self.kernel = self.kernels['compute1']

    def assert_not_created(self, *texts):
        self.containers.started.clear()
        server = self.create(self.rt_flavor('1400/2000'), state='ERROR')
        for text in texts:
            self.assertIn(text, base.fault_of(server))
        # It did start, and was stopped.
        self.assertEqual(1, len(self.containers.started))
        self.assert_nothing_left(of=[server])
        self.assertEqual([], self.groups())
        self.assertEqual(0, self.used())
        self.assertEqual(self.capacity(), self.published())

    def test_refused(self):
        """The next server is created as if nothing had been."""
        for number in errno.EINVAL, errno.EBUSY, errno.EPERM:
            with self.case(number):
                self.kernel.refuse(number)
                self.assert_not_created('1400/2000', errno.errorcode[number])
        self.kernel.refuse(0)
        self.assert_held(self.create(self.rt_flavor('1400/2000')))

    def test_reads_back_otherwise(self):
        self.kernel.falsify(700)
        self.assert_not_created('1400', '700')

    def test_group_is_gone(self):
        self.kernel.vanish()
        self.assert_not_created('1400/2000')

    def test_something_else_goes_wrong(self):
        host = self.computes['compute1'].driver._rt_host
        host.apply = mock.Mock(side_effect=RuntimeError('daemon is gone'))
        self.assert_not_created('daemon is gone')


class V1ThrottlingFaultAtCreateTest(FaultAtCreateTest):
    """The same where a group can only hold what its parents hold."""

    INTERFACE = 'v1-throttle'

    def test_parent_has_no_bandwidth(self):
        """And gets none: another group holds it by now."""
        self.kernel.reset_partition()
        other = self.kernel.root / 'other'
        self.kernel.make_group(other)
        self.kernel.write(other / 'cpu.rt_runtime_us', '950000')
        self.assert_not_created('partition lost its bandwidth')


class FaultOnOneHostTest(base.RTServersTestBase):
    """Another host takes the server."""

    def test_next_host(self):
        self.start_compute('compute1')
        self.start_compute('compute2')
        # Preferred: it is emptier.
        first = self.create(self.rt_flavor('100/1000'))
        full = self.instance(first).host
        other = ({'compute1', 'compute2'} - {full}).pop()
        self.refuse_writes(errno.EINVAL, other)
        server = self.create(self.rt_flavor('1400/2000'))
        self.assertEqual(full, self.instance(server).host)
        self.assert_held(server, full)
        self.assertEqual({}, self.claims(other))
        self.assertEqual(0, self.used(other))
        self.assertEqual(set(), self.domains(other))
        self.assertEqual([], self.groups(other))


class FaultLaterTest(base.RTServersTestBase):
    """A server that was fine cannot have its reservation any more."""

    CAST_AS_CALL = False

    def test_it(self):
        self.start_compute()
        server = self.create(self.rt_flavor())
        self._stop_server(server)
        self.refuse_writes()
        self.ask_in_vain(
            server, 'os-start', None, 'compute_start_instance', 'start'
        )
        self.assertEqual([], self.groups())
        self.assertEqual(set(), self.mounted)
        server = self._reboot_server(server, True, 'ERROR')
        self.assertIn('EINVAL', base.fault_of(server))
        self.assertEqual([], self.groups())
        self.assertEqual(set(), self.mounted)
        # It keeps what it holds, to be started again.
        self.assertIn(server['id'], self.claims())
        self.assertEqual(600_000, self.used())
        self.refuse_writes(0)
        self._reboot_server(server, hard=True)
        self.assert_held(server)


class ParentTest(base.RTServersTestBase):
    """The partition loses its bandwidth, and gets it again."""

    INTERFACE = 'v1-throttle'

    def test_given_again(self):
        self.start_compute()
        self.kernels['compute1'].reset_partition()
        self.assert_held(self.create(self.rt_flavor()))
        self.assertIn('restoring its share', self.stdlog.logger.output)


class StartUpTest(base.RTServersTestBase):
    """Hosts on which nova-rt-compute does not start."""

    def host(self, *args, **kwargs):
        self.kernels['compute1'] = self.useFixture(
            kernel.make(*args, **kwargs)
        )

    def test_kernel_without_bandwidth(self):
        self.host('none')
        self.assert_not_started('CONFIG_RT_GROUP_SCHED')
        self.host('v1-throttle', runtime_us=0)
        self.assert_not_started('nothing is left')

    def test_helper_does_not_answer(self):
        """The refusal says what must be allowed, and where."""
        self.host('v2-rt-max-cpu')
        files = self.kernels['compute1'].files
        for error in (
            PermissionError(errno.EPERM, 'the helper does not start'),
            daemon.FailedToDropPrivileges('sudo: a password is required'),
            comm.PrivsepTimeout('no answer'),
            NameError('Invalid privileged function'),
        ):
            with fixtures.MockPatchObject(files, '_call', side_effect=error):
                self.assert_not_started(
                    str(error),
                    '--privsep_context nova_rt.privsep.rt_pctxt',
                    '/etc/sudoers.d/nova-rt',
                )
            self.assertEqual([], self.kernels['compute1'].writes)

    def test_other_options_of_nova(self):
        self.flags(virt_type='kvm', group='libvirt')
        self.assert_not_started('virt_type = lxc')
        self.flags(virt_type='lxc', group='libvirt')
        self.flags(compute_driver='libvirt.LibvirtDriver')
        self.assert_not_started('compute_driver = nova_rt.RTLibvirtDriver')
