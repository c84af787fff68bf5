# SPDX-License-Identifier: Apache-2.0
"""The DevStack plug-in, its phases run under a stand-in for DevStack."""

import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from tools.tests.devstack import world
from tools.tests.devstack.world import World

PLUGIN = world.CHECKOUT / 'devstack'
SHELL = [
    PLUGIN / 'override-defaults',
    PLUGIN / 'plugin.sh',
    PLUGIN / 'settings',
    *sorted((PLUGIN / 'lib').iterdir()),
]
OURS = ['nova-rt-conductor', 'nova-rt-exporter']
DROP_IN = 'etc/systemd/system/devstack@{}.service.d/nova_rt.conf'
NOVA_CONF = 'etc/nova/nova.conf'
PASTE = 'etc/nova/api-paste.ini'
TEMPEST = 'opt/stack/tempest/etc/tempest.conf'
#: Kept by clean.sh: DevStack leaves packages and its own directory, and the
#: cloud itself, with its flavors, is no part of the machine.
STAYS = ('flavor/', 'image/', 'limit/', 'package/', 'root/opt/stack/data')


class Case(unittest.TestCase):
    """A test with machines of its own."""

    def world(self, localrc: str = '') -> World:
        path = pathlib.Path(tempfile.mkdtemp(prefix='devstack-'))
        self.addCleanup(shutil.rmtree, path)
        return World(path / 'world', localrc)

    def passes(self, machine: World, script: str, times: str = 'once'):
        outcome = machine.run(script, times)
        self.assertEqual([], outcome.unknown, outcome.output)
        self.assertEqual(0, outcome.code, outcome.output)
        return outcome

    def dies(self, machine: World, words: str):
        """stack.sh ends with a message of ours."""
        outcome = machine.run('stack.sh')
        self.assertEqual([], outcome.unknown, outcome.output)
        self.assertNotEqual(0, outcome.code, outcome.output)
        told = outcome.output.partition('DIE: nova_rt: ')[2]
        self.assertIn(words, ' '.join(told.split()))
        return outcome

    def undone(self, machine: World, before: dict[str, str]) -> None:
        after = machine.picture()
        changed = {
            name
            for name in before.keys() | after.keys()
            if before.get(name) != after.get(name)
            and not name.startswith(STAYS)
        }
        self.assertEqual(set(), changed)


class StandInTest(Case):
    """Checks of the stand-in that make the other tests worth something."""

    def test_names_say_where_they_come_from(self):
        self.assertRegex(world.NAMES.commit, '^[0-9a-f]{40}$')
        self.assertRegex(world.NAMES.date, r'^\d{4}-\d\d-\d\dT')

    def test_devstack_has_what_the_stand_in_answers(self):
        has = world.NAMES.functions_of('stack.sh')
        self.assertEqual(set(), world.overridden() - has)

    def test_unknown_function(self):
        machine = self.world()
        with (machine.plugin / 'lib/nova_rt').open('a') as file:
            file.write('\nfunction install_nova_rt {\n    no_such_thing\n}\n')
        outcome = machine.run('stack.sh')
        self.assertNotEqual(0, outcome.code)
        self.assertEqual(['no_such_thing'], outcome.unknown)

    def test_unknown_function_whose_failure_is_ignored(self):
        machine = self.world()
        with (machine.plugin / 'lib/nova_rt').open('a') as file:
            file.write(
                '\nfunction stop_nova_rt {\n    no_such_thing || true\n}\n'
            )
        outcome = machine.run('unstack.sh')
        self.assertNotEqual(0, outcome.code)
        self.assertEqual(['no_such_thing'], outcome.unknown)

    def test_function_that_only_stack_sh_has(self):
        machine = self.world()
        self.assertIn('read_password', world.NAMES.functions_of('stack.sh'))
        with (machine.plugin / 'lib/nova_rt').open('a') as file:
            file.write('\nfunction stop_nova_rt {\n    read_password\n}\n')
        outcome = machine.run('unstack.sh')
        self.assertEqual(['read_password'], outcome.unknown)

    def test_programs_of_this_machine_are_out_of_reach(self):
        for command in ('mount', 'apt-get update', 'sudo reboot'):
            machine = self.world()
            with (machine.plugin / 'lib/nova_rt').open('a') as file:
                file.write(f'\nfunction stop_nova_rt {{\n    {command}\n}}\n')
            outcome = machine.run('unstack.sh')
            self.assertNotEqual(0, outcome.code)
            self.assertTrue(outcome.unknown, command)

    def test_paths_of_this_machine_are_out_of_reach(self):
        for command in ('sudo touch /etc/x', 'touch ../../../x', 'rm -rf /x'):
            machine = self.world()
            with (machine.plugin / 'lib/nova_rt').open('a') as file:
                file.write(f'\nfunction stop_nova_rt {{\n    {command}\n}}\n')
            outcome = machine.run('unstack.sh')
            self.assertNotEqual(0, outcome.code)
            self.assertRegex('\n'.join(outcome.unknown), 'outside')

    def test_refuses_to_run_by_itself(self):
        with tempfile.TemporaryDirectory() as path:
            for variables in (
                {'PATH': '/usr/bin:/bin'},
                {'PATH': '/usr/bin:/bin', 'STANDIN_WORLD': path},
                {'PATH': f'{path}/programs', 'STANDIN_WORLD': path},
            ):
                done = subprocess.run(
                    ['/bin/bash', world.STANDIN, 'stack.sh', 'once'],
                    env=variables,
                    capture_output=True,
                    check=False,
                )
                self.assertEqual(3, done.returncode)


class TextTest(unittest.TestCase):
    """Checks of the plug-in's text, without running it."""

    def test_no_program_is_called_by_its_path(self):
        # The stand-in could not keep it from running.
        for file in SHELL:
            for line in file.read_text().splitlines():
                self.assertNotRegex(
                    line, r'(^|[;&|(!]|\bsudo|\bthen|\belse)\s*/', file
                )

    def test_variables_are_ours_or_of_devstack(self):
        known = world.NAMES.variables_of('stack.sh')
        known |= {'BASH_SOURCE', 'LINENO', 'IFS', 'DISTRO'}
        for file in SHELL:
            text = re.sub(r'^\s*#.*', '', file.read_text(), flags=re.M)
            used = set(re.findall(r'\$\{?!?([A-Z_][A-Z0-9_]{2,})', text))
            foreign = {
                name
                for name in used - known
                if not name.startswith(('NOVA_RT_', '_RT_', '_XTRACE_'))
            }
            self.assertEqual(set(), foreign, file)

    def test_settings_are_set_in_one_file(self):
        text = (PLUGIN / 'settings').read_text()
        text += (PLUGIN / 'override-defaults').read_text()
        found = set(re.findall(r'^ *(NOVA_RT_\w+)=', text, re.M))
        for file in SHELL:
            text = file.read_text()
            own = set(re.findall(r'^ *(NOVA_RT_\w+)\+?=', text, re.M))
            used = set(re.findall(r'\$\{?(NOVA_RT_\w+)', text))
            # Where the machine has its files; and the text of all faults.
            known = found | own | {'NOVA_RT_CGROUPS', 'NOVA_RT_FAULTS'}
            self.assertEqual(set(), used - known, file)


class SingleNodeTest(Case):
    """One machine with all services."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        path = pathlib.Path(tempfile.mkdtemp(prefix='devstack-'))
        cls.addClassCleanup(shutil.rmtree, path)
        cls.machine = World(path / 'world')
        cls.outcome = cls.machine.run('stack.sh')

    def test_passes(self):
        self.assertEqual([], self.outcome.unknown, self.outcome.output)
        self.assertEqual(0, self.outcome.code, self.outcome.output)

    def test_services(self):
        self.assertEqual(
            ['n-cpu', 'n-sch', *OURS], self.machine.names('running')
        )
        for service, name in (('n-cpu', 'compute'), ('n-sch', 'scheduler')):
            command = self.machine.read(DROP_IN.format(service)).splitlines()
            self.assertEqual(['[Service]', 'ExecStart='], command[:2])
            self.assertRegex(
                command[2], rf'=\S+/venv/bin/nova-rt-{name} --config-file '
            )

    def test_middleware(self):
        for section in ('', '_legacy_v2_compatible'):
            (pipeline,) = self.machine.option(
                PASTE, f'composite:openstack_compute_api_v21{section}',
                'keystone',
            )  # fmt: skip
            self.assertIn(' keystonecontext rt_hints ', pipeline)
        self.assertEqual(
            ['nova_rt.api.middleware:RTHintMiddleware.factory'],
            self.machine.option(
                PASTE, 'filter:rt_hints', 'paste.filter_factory'
            ),
        )

    def test_scheduler(self):
        def option(name):
            return self.machine.option(NOVA_CONF, 'filter_scheduler', name)

        self.assertEqual(
            ['ComputeFilter,RTBandwidthFilter'], option('enabled_filters')
        )
        self.assertEqual(
            'nova.scheduler.filters.all_filters',
            option('available_filters')[0],
        )
        self.assertEqual(2, len(option('available_filters')))
        self.assertIn('RTBandwidthWeigher', option('weight_classes')[0])

    def test_compute(self):
        for section, name, value in (
            ('DEFAULT', 'compute_driver', 'nova_rt.RTLibvirtDriver'),
            ('nova_rt', 'id_pool', '2000224256:65536000'),
            ('nova_rt', 'partition', 'machine'),
            ('nova_rt', 'report', 'True'),
        ):
            self.assertEqual(
                [value], self.machine.option(NOVA_CONF, section, name)
            )
        self.assertEqual([], self.machine.option(NOVA_CONF, 'nova_rt', 'cpu'))

    def test_conductor_is_on_the_bus_of_the_cell(self):
        file = 'etc/nova/nova-rt-conductor.conf'
        (url,) = self.machine.option(file, 'DEFAULT', 'transport_url')
        self.assertTrue(url.endswith('/nova_cell1'), url)
        (url,) = self.machine.option(file, 'nova_rt_database', 'connection')
        self.assertIn('/nova_rt?', url)
        # Not where nova-compute would read it.
        self.assertNotIn('nova_rt_database', self.machine.read(NOVA_CONF))
        self.assertEqual(['nova_rt'], self.machine.names('database'))

    def test_cloud(self):
        self.assertEqual(
            ['rt.large', 'rt.medium', 'rt.small', 'rt.tiny'],
            self.machine.names('flavor'),
        )
        specs = (self.machine.path / 'flavor/rt.small').read_text()
        self.assertIn('rt:enforcement=limit', specs)
        self.assertEqual(['rt-busybox'], self.machine.names('image'))
        self.assertEqual(
            ['class:CUSTOM_RT_BANDWIDTH'], self.machine.names('limit')
        )

    def test_machine(self):
        self.assertIn(
            'install nbd /bin/true',
            self.machine.read('etc/modprobe.d/nova-rt-devstack.conf'),
        )
        # cpu and cpuacct are mounted apart.
        self.assertEqual(
            ['systemd-machined.service'], self.machine.names('masked')
        )

    def test_defaults_of_devstack(self):
        variables = self.machine.variables()
        self.assertEqual('lxc', variables['LIBVIRT_TYPE'])
        self.assertEqual('', variables['IMAGE_URLS'])
        self.assertEqual('rt-busybox', variables['DEFAULT_IMAGE_NAME'])
        self.assertEqual('True', variables['NOVA_USE_UNIFIED_LIMITS'])

    def test_tempest(self):
        self.assertTrue(
            self.machine.variables()['TEMPEST_PLUGINS'].endswith(
                '/nova_rt/tempest_plugin'
            )
        )

        def option(name):
            (value,) = self.machine.option(TEMPEST, 'nova_rt', name)
            return value

        self.assertEqual('local', option('host_access'))
        self.assertEqual('True', option('host_sudo'))
        self.assertEqual('True', option('unified_limits'))
        self.assertIn('devstack@n-cpu,', option('restart_commands'))
        self.assertTrue(
            option('manage_command').endswith('nova-rt-conductor.conf')
        )
        self.assertEqual(
            'http://127.0.0.1:9839/metrics', option('exporter_url')
        )


class LifeTest(Case):
    """Again and back."""

    def test_each_phase_twice(self):
        """The second time changes nothing."""
        once, twice = self.world(PROMETHEUS), self.world(PROMETHEUS)
        self.passes(once, 'stack.sh')
        self.passes(twice, 'stack.sh', 'twice')
        self.assertEqual(self.lines(once), self.lines(twice))

    def lines(self, machine: World) -> dict[str, list[str]]:
        """All files; iniset_multiline may change the order of options."""
        return {
            name: sorted(text.replace(str(machine.path), '').splitlines())
            for name, text in machine.picture().items()
        }

    def test_unstack_and_clean_undo_everything(self):
        machine = self.world(PROMETHEUS + 'OVS_DATAPATH_TYPE=netdev\n')
        grafana = machine.root / 'etc/grafana/provisioning/dashboards'
        grafana.mkdir(parents=True)
        (grafana.parent / 'datasources').mkdir()
        (grafana / 'other.yaml').write_text('theirs')
        before = machine.picture()
        for _ in range(2):
            self.passes(machine, 'stack.sh')
            self.populate(machine)
            self.passes(machine, 'unstack.sh', 'twice')
            self.assertEqual([], machine.names('running'))
            self.assertEqual(['virtual'], machine.names('domain'))
            (machine.path / 'domain/virtual').unlink()
            self.assertEqual([], machine.names('loop'))
            self.assertEqual([], machine.names('switch'))
            self.assertEqual('', (machine.path / 'mounts').read_text())
            self.assertNotIn('nova_rt.conf', str(machine.picture().keys()))
            # clean.sh begins with it.
            self.passes(machine, 'unstack.sh')
            self.passes(machine, 'clean.sh', 'twice')
            self.undone(machine, before)
            for kind in ('flavor', 'image', 'limit'):
                for name in machine.names(kind):
                    (machine.path / kind / name).unlink()

    def populate(self, machine: World) -> None:
        """Servers, as they are when unstack.sh is called."""
        instances = machine.root / 'opt/stack/data/nova/instances'
        rootfs = instances / 'f00/rootfs'
        rootfs.mkdir(parents=True)
        (machine.path / 'mounts').write_text(f'{rootfs}\n')
        (machine.path / 'loop/loop0').write_text(f'{instances}/f00/disk')
        (machine.path / 'domain/instance-00000001').write_text('running')
        (machine.path / 'domain/instance-00000002').write_text('shut off')
        (machine.path / 'domain/virtual').write_text('running')
        machine.cgroup('cpu/machine/cpu.rt_runtime_us', '950000')

    def test_second_stack(self):
        machine = self.world()
        self.passes(machine, 'stack.sh')
        before = machine.picture()
        self.passes(machine, 'unstack.sh')
        self.passes(machine, 'stack.sh')
        self.undone(machine, before)

    def test_machined_of_others_stays_masked(self):
        machine = self.world()
        (machine.path / 'masked/systemd-machined.service').touch()
        before = machine.picture()
        self.passes(machine, 'stack.sh')
        self.passes(machine, 'unstack.sh')
        self.passes(machine, 'clean.sh')
        self.undone(machine, before)

    def test_machined_that_is_not_there_yet(self):
        """DevStack installs it after the first phase."""
        machine = self.world()
        name = 'org.freedesktop.machine1.service'
        services = machine.root / 'usr/share/dbus-1/system-services'
        (services / name).unlink()
        before = machine.picture()
        self.passes(machine, 'stack.sh')
        self.assertEqual([name], machine.names('diverted'))
        self.passes(machine, 'unstack.sh')
        self.passes(machine, 'clean.sh')
        self.undone(machine, before)

    def test_clean_without_stack(self):
        machine = self.world()
        before = machine.picture()
        self.passes(machine, 'unstack.sh')
        self.passes(machine, 'clean.sh')
        self.undone(machine, before)

    def test_bad_settings_stop_neither(self):
        machine = self.world('NOVA_RT_HINTS=maybe\n')
        self.passes(machine, 'unstack.sh')
        self.passes(machine, 'clean.sh')


PROMETHEUS = 'NOVA_RT_PROMETHEUS=True\n'


class PrometheusTest(Case):
    """Rules, targets and dashboards."""

    def test_configuration(self):
        machine = self.world(
            PROMETHEUS
            + 'NOVA_RT_PROMETHEUS_TARGETS="192.0.2.11:9839 192.0.2.12:9839"\n'
        )
        self.passes(machine, 'stack.sh')
        text = machine.read('opt/stack/data/nova_rt/prometheus/prometheus.yml')
        self.assertIn('[192.0.2.11:9839, 192.0.2.12:9839]', text)
        self.assertIn('[127.0.0.1:9840]', text)
        machine.read('opt/stack/data/nova_rt/prometheus/rules.yaml')
        self.assertIn('nova-rt-prometheus', machine.names('running'))
        # The package's own service did not start.
        self.assertIn('prometheus.service', machine.names('masked'))

    def test_prometheus_of_others(self):
        machine = self.world(PROMETHEUS)
        (machine.path / 'packages/prometheus').touch()
        self.passes(machine, 'stack.sh')
        self.assertNotIn('prometheus.service', machine.names('masked'))


class MultiNodeTest(Case):
    """Controller and compute host, from the samples."""

    def sample(self, name: str) -> World:
        text = (PLUGIN / name).read_text()
        return self.world(re.sub(r'^\[\[.*', '', text, flags=re.M))

    def test_single(self):
        machine = self.sample('local.conf.sample')
        self.passes(machine, 'stack.sh')
        self.assertEqual(['n-cpu', 'n-sch', *OURS], machine.names('running'))

    def test_controller(self):
        machine = self.sample('local.conf.controller.sample')
        # It has no kernel of ours, and needs none.
        shutil.rmtree(machine.root / 'sys')
        before = machine.picture()
        self.passes(machine, 'stack.sh', 'twice')
        self.assertEqual(
            ['n-sch', 'nova-rt-conductor'], machine.names('running')
        )
        self.assertEqual([], machine.names('masked'))
        self.assertEqual(
            [], machine.option(NOVA_CONF, 'DEFAULT', 'compute_driver')
        )
        self.assertEqual(4, len(machine.names('flavor')))
        self.assertEqual(
            ['none'], machine.option(TEMPEST, 'nova_rt', 'host_access')
        )
        self.passes(machine, 'unstack.sh')
        self.passes(machine, 'clean.sh')
        self.undone(machine, before)

    def test_compute(self):
        machine = self.sample('local.conf.compute.sample')
        before = machine.picture()
        outcome = self.passes(machine, 'stack.sh', 'twice')
        self.assertEqual(
            ['n-cpu', 'nova-rt-exporter'], machine.names('running')
        )
        self.assertFalse([c for c in outcome.calls if 'openstack' in c])
        self.assertEqual([], machine.names('database'))
        # Prometheus is on the controller.
        self.assertEqual(
            ['192.0.2.11'],
            machine.option(NOVA_CONF, 'nova_rt_exporter', 'listen_address'),
        )
        self.passes(machine, 'unstack.sh')
        self.passes(machine, 'clean.sh')
        self.undone(machine, before)

    def test_stock_compute(self):
        machine = self.world('NOVA_RT_COMPUTE=False\n')
        self.passes(machine, 'stack.sh')
        self.assertEqual('kvm', machine.variables()['LIBVIRT_TYPE'])
        self.assertFalse((machine.root / DROP_IN.format('n-cpu')).exists())
        self.assertTrue((machine.root / DROP_IN.format('n-sch')).exists())
        self.assertNotIn('nova-rt-exporter', machine.names('running'))


class SettingsTest(Case):
    """Faults of local.conf are told before anything is done."""

    def test_each(self):
        # Nothing is done: one machine for all.
        machine = self.world()
        before = machine.picture()
        for line, told in (
            ('NOVA_RT_ENFORCEMENT=always', 'NOVA_RT_ENFORCEMENT is "always"'),
            ('NOVA_RT_HINTS=maybe', 'not one of: lower deny any'),
            ('NOVA_RT_REFUSAL_DETAILS=all', 'NOVA_RT_REFUSAL_DETAILS'),
            ('NOVA_RT_MACHINED=True', 'NOVA_RT_MACHINED'),
            ('NOVA_RT_TEMPEST_ACCESS=telnet', 'NOVA_RT_TEMPEST_ACCESS'),
            ('NOVA_RT_RESERVED_PPM=5%', 'not a number from 0 to 999999'),
            ('NOVA_RT_RESERVED_PPM=08', 'NOVA_RT_RESERVED_PPM is "08"'),
            ('NOVA_RT_ID_BASE=0', 'NOVA_RT_ID_BASE'),
            ('NOVA_RT_ID_COUNT=99999999999999999999', 'NOVA_RT_ID_COUNT'),
            ('NOVA_RT_EXPORTER_PORT=0', 'NOVA_RT_EXPORTER_PORT'),
            ('NOVA_RT_CPU_SET=2,3-', 'NOVA_RT_CPU_SET is "2,3-"'),
            ('NOVA_RT_CPU_SHARED_SET=all', 'NOVA_RT_CPU_SHARED_SET'),
            ('NOVA_RT_FLAVORS="a:1:10/100 b:1"', 'NOVA_RT_FLAVORS has "b:1"'),
            ('NOVA_RT_DATABASE="a;b"', 'NOVA_RT_DATABASE'),
            ('NOVA_NUM_CELLS=2', 'NOVA_NUM_CELLS is 2'),
            ('VIRT_DRIVER=fake', 'VIRT_DRIVER is "fake"'),
            ('LIBVIRT_TYPE=qemu', 'set NOVA_RT_COMPUTE=False'),
            ('STANDIN_DEBIAN=False', 'Debian or Ubuntu is needed'),
            ('NOVA_RT_KERNEL_PACKAGES=/no.deb', 'no such file'),
        ):
            with self.subTest(line):
                (machine.path / 'localrc').write_text(f'{line}\n')
                outcome = self.dies(machine, told)
                self.assertEqual(['define_plugin nova_rt'], outcome.calls)
                self.assertEqual(before, machine.picture())

    def test_empty_is_the_default(self):
        machine = self.world('NOVA_RT_HINTS=\nNOVA_RT_CPU_SET=\n')
        self.passes(machine, 'stack.sh')
        self.assertEqual(
            ['lower'], machine.option(NOVA_CONF, 'nova_rt', 'hints')
        )

    def test_all_at_once(self):
        outcome = self.dies(
            self.world('NOVA_RT_HINTS=x\nNOVA_RT_ID_BASE=y\n'),
            'NOVA_RT_HINTS is "x"',
        )
        self.assertIn('NOVA_RT_ID_BASE is "y"', outcome.output)


class KernelTest(Case):
    """lib/rt_kernel."""

    def test_none(self):
        machine = self.world()
        shutil.rmtree(machine.root / 'sys/fs/cgroup/cpu')
        self.dies(machine, 'has neither cpu.rt.max nor cpu.rt_runtime_us')

    def test_none_and_no_check(self):
        machine = self.world('NOVA_RT_CHECK=False\n')
        shutil.rmtree(machine.root / 'sys/fs/cgroup/cpu')
        self.passes(machine, 'stack.sh')

    def test_guarantee_on_a_kernel_that_limits(self):
        machine = self.world('NOVA_RT_ENFORCEMENT=guarantee\n')
        self.dies(machine, 'only limits (v1-throttle)')

    def test_guarantee(self):
        machine = self.world()
        machine.unified()
        self.passes(machine, 'stack.sh')
        specs = (machine.path / 'flavor/rt.small').read_text()
        self.assertIn('rt:enforcement=guarantee', specs)
        # systemd-machined is as it was, and names the groups.
        self.assertEqual([], machine.names('masked'))
        self.assertEqual([], machine.option(NOVA_CONF, 'nova_rt', 'partition'))

    def test_packages(self):
        machine = self.world()
        package = machine.path / 'linux-image.deb'
        package.touch()
        (machine.path / 'localrc').write_text(
            f'NOVA_RT_KERNEL_PACKAGES={package}\n'
        )
        outcome = self.dies(machine, 'Reboot into it')
        self.assertIn(f'dpkg -i {package}', outcome.calls)
        machine.unified()
        outcome = self.passes(machine, 'stack.sh')
        self.assertNotIn(f'dpkg -i {package}', outcome.calls)

    def test_host_check(self):
        machine = self.world()
        machine.exit_codes({'nova-rt-status host check': 1})
        self.dies(machine, 'this host cannot hold reservations')

    def test_nova_does_not_fit(self):
        machine = self.world()
        machine.exit_codes({'nova-rt-status upgrade check': 2})
        self.dies(machine, 'the installed Nova does not fit')

    def test_warnings_about_nova(self):
        machine = self.world()
        machine.exit_codes({'nova-rt-status upgrade check': 1})
        self.passes(machine, 'stack.sh')
