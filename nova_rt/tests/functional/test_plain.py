# SPDX-License-Identifier: Apache-2.0
"""Servers of ordinary flavors: as under nova-compute, beside RT servers."""

import errno

import fixtures
from lxml import etree
from nova import service, utils
from nova.virt.libvirt import config

from nova_rt.reservation import record
from nova_rt.tests.functional import base


class PlainServerTest(base.RTServersTestBase):
    """Two things differ: namespaces of its own for its network and users."""

    def setUp(self):
        super().setUp()
        self.start_compute()
        self.flavor = self._create_flavor(memory_mb=64, vcpu=2)

    def use_stock_compute(self):
        # It would change the owners of every file, if it could.
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.privsep.idmapshift.shift', lambda *args: None
            )
        )
        managers = dict(service.SERVICE_MANAGERS)
        managers['nova-compute'] = 'nova.compute.manager.ComputeManager'
        self.useFixture(
            fixtures.MonkeyPatch('nova.service.SERVICE_MANAGERS', managers)
        )
        self.flags(compute_driver='libvirt.LibvirtDriver')
        self.restart_compute_service('compute1')

    def definition(self, server):
        """The domain's XML, less the time at which it was made."""
        tree = etree.fromstring(self.guest(server).get_xml_desc())
        for made in tree.iter(f'{{{config.NOVA_NS}}}creationTime'):
            made.text = None
        return tree

    def test_domain_is_the_same_but_for_privnet(self):
        server = self.create(self.flavor)
        # After its first start, Nova writes what it chose into the domain.
        self._reboot_server(server, hard=True)
        ours = self.definition(server)
        self.use_stock_compute()
        self._reboot_server(server, hard=True)
        stock = self.definition(server)
        maps = ours.find('idmap')
        self.assertEqual(2, len(maps))
        ours.remove(maps)
        features = ours.find('features')
        privnet = features.find('privnet')
        self.assertIsNotNone(privnet)
        features.remove(privnet)
        dropped = features.find('capabilities')
        self.assertEqual(['sys_resource'], [each.tag for each in dropped])
        features.remove(dropped)
        if stock.find('features') is None:
            self.assertEqual(0, len(features))
            ours.remove(features)
        self.assertEqual(
            *(
                etree.canonicalize(
                    etree.tostring(tree, encoding='unicode'), strip_text=True
                )
                for tree in (stock, ours)
            )
        )

    def test_beside_a_real_time_server(self):
        rt = self.create(self.rt_flavor())
        plain = self.create(self.flavor)
        self.assert_held(rt)
        self.assertNotIn(record.KEY, self.instance(plain).system_metadata)
        self.assertEqual([rt['id']], list(self.claims()))
        self.assertEqual(0, self.allocated(plain))
        written = [
            path for path, _ in self.writes()
            if self.instance(plain).name in str(path)
        ]  # fmt: skip
        self.assertEqual([], written)
        self._reboot_server(plain, hard=True)
        self._reboot_server(plain)
        self._delete_server(plain)
        self.assert_held(rt)

    def test_real_time_servers_have_a_private_network_too(self):
        server = self.create(self.rt_flavor())
        self.assertIsNotNone(self.definition(server).find('features/privnet'))

    def test_cpuset_of_a_real_time_server(self):
        self.create(self.rt_flavor())
        server = self.create(self.rt_flavor(vcpus=2, reservation='100/1000'))
        vcpu = self.definition(server).find('vcpu')
        self.assertEqual(('2', '1-2'), (vcpu.text, vcpu.get('cpuset')))

    def test_suspend_is_left_to_nova(self):
        """Refused for RT servers only."""
        server = self.create(self.flavor)
        self.api.post_server_action(server['id'], {'suspend': None})
        self._wait_for_state_change(server, 'SUSPENDED')


class GroupsTest(base.RTServersTestBase):
    """On cgroup v2, libvirt gives a container's groups to its root."""

    def setUp(self):
        super().setUp()
        self.start_compute()
        self.server = self.create(self._create_flavor(memory_mb=64))

    @property
    def group(self):
        pid = self.guest(self.server).id
        return self.kernels['compute1'].group_of(pid)

    def owners(self):
        """Users whose the files of its group are."""
        group = self.group
        owner_of = self.kernels['compute1'].owner_of
        return {owner_of(path)[0] for path in (group, *group.iterdir())}

    def give(self):
        """Give it to its root, as a start by an earlier release did."""
        for path in (self.group, *self.group.iterdir()):
            self.kernels['compute1'].own(path, 100_000)

    def refuse(self, number):
        """From now on, nothing can be taken."""

        def refuse(files, group):
            raise OSError(number, 'no')

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_rt.host.files.Files.chown_to_root', refuse
            )
        )

    def verify(self):
        self.computes['compute1'].driver.running.verify_all()

    def test_taken_at_every_start(self):
        """Or it would widen its CPUs onto those of others."""
        self.assertEqual({0}, self.owners())
        self._reboot_server(self.server, hard=True)
        self.assertEqual({0}, self.owners())

    def test_taken_from_what_runs(self):
        self.give()
        self.assertEqual({100_000}, self.owners())
        self.restart_compute_service('compute1')
        self.assertEqual({0}, self.owners())
        self.give()
        self.verify()
        self.assertEqual({0}, self.owners())

    def test_cannot_be_taken_at_a_start(self):
        self.refuse(errno.EPERM)
        server = self.create(self._create_flavor(memory_mb=64), state='ERROR')
        self.assertIn(
            'cannot take the groups of the container from its root: no '
            '(EPERM)', self.stdlog.logger.output,
        )  # fmt: skip
        self.assert_nothing_left(of=[server])

    def refuse_limits(self, number):
        """From now on, no user namespace can be given limits."""

        def refuse(files, controller):
            raise OSError(number, 'no')

        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.host.files.Files.limit', refuse)
        )

    def test_limited_at_every_start(self):
        self.limited.clear()
        for flavor in (self._create_flavor(memory_mb=64), self.rt_flavor()):
            server = self.create(flavor)
            self.assertEqual([self.guest(server).id], self.limited)
            self.limited.clear()
            self._reboot_server(server, hard=True)
            self.verify()
            self.assertEqual([self.guest(server).id], self.limited)
            self.limited.clear()

    def test_limits_of_what_runs(self):
        """It was started by an earlier release."""
        self.limited.clear()
        self.restart_compute_service('compute1')
        self.assertEqual([self.guest(self.server).id], self.limited)

    def test_cannot_be_limited_at_a_start(self):
        self.refuse_limits(errno.EIO)
        for flavor in (self._create_flavor(memory_mb=64), self.rt_flavor()):
            server = self.create(flavor, state='ERROR')
            self.assertIn(
                'limit the user namespace of the container: no (EIO)',
                self.stdlog.logger.output,
            )
            self._delete_server(server)

    def test_cannot_be_limited_later(self):
        """Reported; it runs on, and gets its limits at the next check."""
        real_time = self.create(self.rt_flavor())
        self.refuse_limits(errno.EMFILE)
        self.restart_compute_service('compute1')
        self.verify()
        for server in (self.server, real_time):
            self.assertTrue(self.guest(server).is_active())
        self.assertIn('no (EMFILE)', self.stdlog.logger.output)
        self.limited.clear()
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_rt.host.files.Files.limit',
                lambda files, controller: self.limited.append(controller),
            )
        )
        self.verify()
        pids = [self.guest(each).id for each in (self.server, real_time)]
        self.assertCountEqual(pids, self.limited)

    def test_helper_does_not_start(self):
        """Known before a container runs without what it is to have."""
        files = self.kernels['compute1'].files
        self.containers.started.clear()
        flavors = self.flavors()
        with fixtures.MockPatchObject(
            files, '_call', side_effect=PermissionError(errno.EPERM, 'no sudo')
        ):
            for flavor in flavors:
                self.create(flavor, state='ERROR')
        self.assertEqual([], self.containers.started)
        self.assertIn('helper for control groups does not answer ([Errno 1]',
                      self.stdlog.logger.output)  # fmt: skip

    def test_kept_from_the_oom_killer(self):
        """At every start, once."""
        for flavor in self.flavors():
            self.kept.clear()
            server = self.create(flavor)
            expected = [self.guest(server).id]
            self._reboot_server(server, hard=True)
            self.verify()
            self.assertEqual([*expected, self.guest(server).id], self.kept)

    def test_host_permits_no_keeping(self):
        """It is logged once, and servers run."""

        def refuse(files, controller):
            raise OSError(errno.EACCES, 'no')

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_rt.host.files.Files.keep_from_oom', refuse
            )
        )
        for flavor in self.flavors():
            server = self.create(flavor)
            self.assertTrue(self.guest(server).is_active())
        text = 'Cannot keep libvirt_lxc from the out-of-memory killer'
        self.assertEqual(1, self.stdlog.logger.output.count(text))

    def flavors(self, **specs):
        """A plain and a real-time flavor with these extra specs of ours."""
        specs = {f'lxc:{key}': value for key, value in specs.items()}
        found = []
        for flavor in (self._create_flavor(memory_mb=64), self.rt_flavor()):
            if specs:
                self.admin_api.post_extra_spec(flavor, {'extra_specs': specs})
            found.append(flavor)
        return found

    def test_limit_of_tasks_at_every_start(self):
        """By the option, or by the flavor."""
        for most, flavors in (
            (4096, self.flavors()),
            (50, self.flavors(max_tasks='50')),
        ):
            for flavor in flavors:
                self.task_limits.clear()
                server = self.create(flavor)
                expected = [(self.guest(server).id, most)]
                self.assertEqual(expected, self.task_limits)
                self._reboot_server(server, hard=True)
                self.verify()
                expected.append((self.guest(server).id, most))
                self.assertEqual(expected, self.task_limits)

    def test_limit_of_tasks_of_what_runs(self):
        self.task_limits.clear()
        self.flags_of_ours(max_tasks=9)
        self.restart_compute_service('compute1')
        self.assertEqual([(self.guest(self.server).id, 9)], self.task_limits)

    def test_no_limit_of_tasks(self):
        self.task_limits.clear()
        self.flags_of_ours(max_tasks=0)
        self.restart_compute_service('compute1')
        self.assertEqual([], self.task_limits)
        for flavor in self.flavors(max_tasks='50'):
            self.create(flavor)
        self.assertEqual([50, 50], [most for _, most in self.task_limits])

    def test_no_number_of_tasks(self):
        """An old microversion takes any extra spec."""
        with utils.temporary_mutation(self.admin_api, microversion='2.85'):
            flavors = self.flavors(max_tasks='many')
        for flavor in flavors:
            self.create(flavor, state='ERROR')
        self.assertIn('lxc:max_tasks must be a whole number from 1 to',
                      self.stdlog.logger.output)  # fmt: skip

    def test_limits_of_what_has_ended(self):
        """Removed as soon as it is stopped; an error hinders nothing."""
        swept = []

        def sweep(host):
            swept.append(self.domains())
            raise OSError(errno.EMFILE, 'no')

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_rt.host.host.Host.sweep_task_limits', sweep
            )
        )
        self._delete_server(self.server)
        self.assertIn({self.server['id']}, swept)
        self.assertIn('Cannot remove task limits: [Errno',
                      self.stdlog.logger.output)  # fmt: skip
        self.assertEqual(set(), self.domains())

    def test_tasks_cannot_be_limited(self):
        def refuse(files, group, most):
            raise OSError(errno.ENOENT, 'no')

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_rt.host.files.Files.limit_tasks', refuse
            )
        )
        for flavor in self.flavors():
            server = self.create(flavor, state='ERROR')
            self.assertIn(
                'cannot limit the tasks of the container: no (ENOENT)',
                self.stdlog.logger.output,
            )
            self._delete_server(server)
        self.restart_compute_service('compute1')
        self.verify()
        self.assertTrue(self.guest(self.server).is_active())

    def test_cannot_be_taken_later(self):
        """Reported once; it runs on."""
        self.give()
        self.refuse(errno.EMFILE)
        for _ in range(3):
            self.verify()
        self.assertTrue(self.guest(self.server).is_active())
        log = self.stdlog.logger.output
        self.assertEqual(1, log.count('Could not protect the host from'))
        self.assertIn('no (EMFILE)', log)
