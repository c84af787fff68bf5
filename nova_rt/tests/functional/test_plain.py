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
        # It would change the owners of every file, if it could.
        self.stub_out('nova.privsep.idmapshift.shift', lambda *args: None)
        managers = dict(service.SERVICE_MANAGERS)
        managers['nova-compute'] = 'nova.compute.manager.ComputeManager'
        self.stub_out('nova.service.SERVICE_MANAGERS', managers)
        self.flags(compute_driver='libvirt.LibvirtDriver')
        self.restart_compute_service('compute1')
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
        # Refused for RT servers only.
        plain = self.create(self.flavor)
        self.ask_for(plain, 'suspend', state='SUSPENDED')

    def test_domain_of_a_real_time_server(self):
        self.create(self.rt_flavor())
        server = self.create(self.rt_flavor(vcpus=2, reservation='100/1000'))
        found = self.definition(server)
        self.assertIsNotNone(found.find('features/privnet'))
        vcpu = found.find('vcpu')
        self.assertEqual(('2', '1-2'), (vcpu.text, vcpu.get('cpuset')))


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

    def refusing(self, name, number):
        """Within, the helper refuses something to the service."""
        return fixtures.MockPatch(
            f'nova_rt.host.files.Files.{name}',
            side_effect=OSError(number, 'no'),
        )

    def flavors(self, **specs):
        """A plain and a real-time flavor with these extra specs of ours."""
        specs = {f'lxc:{key}': value for key, value in specs.items()}
        found = self.plain_flavor(), self.rt_flavor()
        for flavor in found if specs else ():
            self.admin_api.post_extra_spec(flavor, {'extra_specs': specs})
        return found

    def assert_cannot_start(self, text, flavors):
        for flavor in flavors:
            # The start of a real-time server may fail in another step.
            *_, reason = text.rpartition(': ')
            before = self.stdlog.logger.output.count(reason)
            server = self.create(flavor, state='ERROR')
            self.assertGreater(self.stdlog.logger.output.count(reason), before)
            self.assert_nothing_left(of=[server])
            self._delete_server(server)
        self.assertIn(text, self.stdlog.logger.output)

    def test_taken(self):
        """At every start: or it would widen its CPUs onto those of others."""
        self.assertEqual({0}, self.owners())
        self._reboot_server(self.server, hard=True)
        self.assertEqual({0}, self.owners())
        for look in (
            lambda: self.restart_compute_service('compute1'),
            self.verify,
        ):
            self.give()
            self.assertEqual({100_000}, self.owners())
            look()
            self.assertEqual({0}, self.owners())

    def test_refused_at_a_start(self):
        """No container runs without what it is to have."""
        for name, number, text in (
            ('chown_to_root', errno.EPERM,
             'cannot take the groups of the container from its root: no '
             '(EPERM)'),
            ('limit', errno.EIO,
             'limit the user namespace of the container: no (EIO)'),
            ('limit_tasks', errno.ENOENT,
             'cannot limit the tasks of the container: no (ENOENT)'),
        ):  # fmt: skip
            with self.case(name), self.refusing(name, number):
                self.assert_cannot_start(text, self.flavors())
        # An old microversion takes any extra spec.
        with utils.temporary_mutation(self.admin_api, microversion='2.85'):
            flavors = self.flavors(max_tasks='many')
        self.assert_cannot_start(
            'lxc:max_tasks must be a whole number from 1 to', flavors
        )

    def test_helper_does_not_start(self):
        """Known before a container runs without what it is to have."""
        files = self.kernels['compute1'].files
        self.containers.started.clear()
        error = PermissionError(errno.EPERM, 'no sudo')
        with fixtures.MockPatchObject(files, '_call', side_effect=error):
            for flavor in self.flavors():
                self.create(flavor, state='ERROR')
        self.assertEqual([], self.containers.started)
        self.assertIn('helper for control groups does not answer ([Errno 1]',
                      self.stdlog.logger.output)  # fmt: skip

    def test_refused_later(self):
        """Reported; servers run on, and get it at the next check."""
        real_time = self.create(self.rt_flavor())
        self.give()
        with (
            self.refusing('chown_to_root', errno.EMFILE),
            self.refusing('limit', errno.EIO),
            self.refusing('limit_tasks', errno.ENOENT),
        ):
            self.restart_compute_service('compute1')
            for _ in range(3):
                self.verify()
        for server in self.server, real_time:
            self.assertTrue(self.guest(server).is_active())
        log = self.stdlog.logger.output
        self.assertEqual(1, log.count('Could not protect the host from'))
        self.assertIn('no (EMFILE)', log)
        self.limited.clear()
        self.verify()
        pids = [self.guest(each).id for each in (self.server, real_time)]
        self.assertCountEqual(pids, self.limited)
        self.assertEqual({0}, self.owners())

    def test_once_at_every_start(self):
        """Limits of its user namespace and its tasks; kept from being killed.

        The limit of tasks is by the option, or by the flavor.
        """
        for flavors, most in (
            (self.flavors(), 4096), (self.flavors(max_tasks='50'), 50),
        ):  # fmt: skip
            for flavor in flavors:
                for found in self.limited, self.kept, self.task_limits:
                    found.clear()
                server = self.create(flavor)
                pids = [self.guest(server).id]
                self._reboot_server(server, hard=True)
                self.verify()
                pids.append(self.guest(server).id)
                self.assertEqual(pids, self.limited)
                self.assertEqual(pids, self.kept)
                self.assertEqual(
                    [(pid, most) for pid in pids], self.task_limits
                )

    def test_limits_of_what_runs(self):
        """It was started by an earlier release, or with another option."""
        pid = self.guest(self.server).id
        for most in 9, 0:
            self.limited.clear()
            self.task_limits.clear()
            self.flags_of_ours(max_tasks=most)
            self.restart_compute_service('compute1')
            self.assertEqual([pid], self.limited)
            self.assertEqual([(pid, most)] if most else [], self.task_limits)
        for flavor in self.flavors(max_tasks='50'):
            self.create(flavor)
        self.assertEqual([50, 50], [most for _, most in self.task_limits])

    def test_host_permits_no_keeping(self):
        """It is logged once, and servers run."""
        with self.refusing('keep_from_oom', errno.EACCES):
            for flavor in self.flavors():
                server = self.create(flavor)
                self.assertTrue(self.guest(server).is_active())
        text = 'Cannot keep libvirt_lxc from the out-of-memory killer'
        self.assertEqual(1, self.stdlog.logger.output.count(text))

    def test_limits_of_what_has_ended(self):
        """Removed as soon as it is stopped; an error hinders nothing."""
        swept = []

        def sweep(host):
            swept.append(self.domains())
            raise OSError(errno.EMFILE, 'no')

        self.stub_out('nova_rt.host.host.Host.sweep_task_limits', sweep)
        self._delete_server(self.server)
        self.assertIn({self.server['id']}, swept)
        self.assertIn('Cannot remove task limits: [Errno',
                      self.stdlog.logger.output)  # fmt: skip
        self.assertEqual(set(), self.domains())
