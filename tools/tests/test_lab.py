# SPDX-License-Identifier: Apache-2.0
"""Modules of the lab that need no lab."""

import dataclasses
import graphlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import types
import unittest
from unittest import mock

from lab import (
    accounts,
    catalog,
    config,
    leftovers,
    paths,
    process,
    second,
    second_machine,
    second_services,
    second_steps,
    services,
    setup_steps,
    tempest,
    world,
)
from lab.console import LabError

PASSWD = 'root:x:0:0:root:/root:/bin/bash\n'
GROUP = 'root:x:0:\nlibvirt:x:109:admin\nkvm:x:110:\n'


class AccountsTest(unittest.TestCase):
    """User nova, in texts of the machine's files."""

    def test_user(self):
        text = accounts.with_user(PASSWD)
        self.assertTrue(text.startswith(PASSWD))
        name, password, number, *_ = text.splitlines()[-1].split(':')
        self.assertEqual(('nova', '*', '64060'), (name, password, number))
        self.assertEqual(text, accounts.with_user(text))

    def test_groups(self):
        text = accounts.with_groups(GROUP)
        self.assertIn('\nkvm:x:110:\n', text)
        self.assertIn('\nnova:x:64060:\n', text)
        self.assertIn('\nlibvirt:x:109:admin,nova\n', text)
        self.assertEqual(text, accounts.with_groups(text))

    def test_machine_without_group_libvirt(self):
        self.assertRegex(
            accounts.with_groups('root:x:0:\n'), r'\nlibvirt:x:\d+:nova\n'
        )

    def test_own_account_of_the_machine_is_replaced(self):
        text = accounts.with_user(f'{PASSWD}nova:x:999:999::/home/x:/bin/sh\n')
        self.assertNotIn(':999:', text)

    def test_somebody_else_has_the_id(self):
        for function, line in (
            (accounts.with_user, 'nina:x:64060:100::/home/nina:/bin/sh\n'),
            (accounts.with_groups, 'nina:x:64060:\n'),
        ):
            with self.assertRaisesRegex(LabError, "'nina' has the id 64060"):
                function(line)

    def test_rules_have_the_places_of_the_lab(self):
        text = accounts.sudoers(accounts.RULES.read_text())
        rules = [line for line in text.splitlines() if 'Cmnd_Alias' in line]
        shipped = accounts.RULES.read_text().count('Cmnd_Alias ')
        self.assertEqual(2 * shipped, len(rules))
        for rule in rules:
            self.assertIn(f'{paths.VENV}/bin/privsep-helper ^', rule)
            for place in ('/usr/bin/', '/etc/nova/nova'):
                self.assertNotIn(f' {place}', rule)
        self.assertEqual(
            shipped, sum(r'nova-compute-stock\.conf' in rule for rule in rules)
        )


class SecondComputeTest(unittest.TestCase):
    """Second compute on the same machine: what it adds and what it shares."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.work = pathlib.Path(directory.name)

    def _put(self, module, **names):
        for name, value in names.items():
            patcher = mock.patch.object(module, name, value)
            patcher.start()
            self.addCleanup(patcher.stop)

    def _choosing(self):
        self._put(paths, VAR=self.work)
        self._put(second, _COMPUTES=self.work / 'computes')

    def test_cpus_are_disjoint(self):
        for online, first, other in (
            ('0-1', '0', '1'),
            ('0-4', '0-2', '3-4'),
            ('0,2-3', '0,2', '3'),
            ('0', '0', ''),
        ):
            with self.subTest(online):
                self.assertEqual((first, other), second.cpu_sets(online))

    def test_halves_are_not_more_than_the_whole(self):
        # What the kernel gives, of which period, what the sysctl allows.
        for runtime_us, period_us, limit_ppm, half in (
            (950_000, 1_000_000, 950_000, 475_000),
            (950_000, 1_000_000, 900_000, 450_000),
            (99_999, 100_000, 1_000_000, 499_995),
            (1, 3, 950_000, 166_666),
        ):
            with self.subTest(runtime_us):
                found = second_machine.half_us(
                    runtime_us, period_us, limit_ppm
                )
                self.assertEqual(half, found)

    def test_group_has_half_and_takes_processes(self):
        """In a tree of plain files; the kernel makes those of a new group."""
        tree = {
            'cpu': {'cpu.rt_runtime_us': 0, 'cpu.rt_period_us': 1_000_000},
            'cpuset': {'cpuset.cpus': '', 'cpuset.mems': ''},
        }
        tops = {
            'cpu': {
                'cpu.rt_runtime_us': 900_000,
                'cpu.rt_period_us': 1_000_000,
            },
            'cpuset': {'cpuset.cpus': '0-1', 'cpuset.mems': '0'},
        }
        for name, files in tree.items():
            for file, text in files.items():
                own = self.work / name / second.HOST / file
                config.put(own, f'{text}\n')
                config.put(self.work / name / file, f'{tops[name][file]}\n')
        self._put(
            second_machine,
            hierarchies=lambda: [self.work / name for name in tree],
        )
        second_machine._make_groups()
        found = {
            file.name: file.read_text()
            for file in self.work.glob(f'*/{second.HOST}/*')
        }
        self.assertEqual('450000', found['cpu.rt_runtime_us'])
        self.assertEqual('0-1', found['cpuset.cpus'])
        self.assertEqual('0', found['cpuset.mems'])

    def test_loop_devices_are_known_by_inode(self):
        """The path of a dead machine's disk begins nowhere."""
        disk = self.work / 'nova' / 'instances' / 'one' / 'disk'
        config.put(disk, '')
        found = disk.stat()
        device = f'  {os.major(found.st_dev)}:{os.minor(found.st_dev)}  '
        # As losetup of util-linux 2.38 prints them.
        rows = [
            {'name': name, 'back-ino': inode, 'back-maj:min': device}
            for name, inode in (
                ('/dev/loop0', found.st_ino),
                ('/dev/loop1', found.st_ino + 1),
            )
        ]
        listed = mock.Mock(stdout=json.dumps({'loopdevices': rows}))
        self._put(leftovers, SECOND_VAR=self.work)
        with mock.patch('subprocess.run', return_value=listed):
            self.assertEqual(['/dev/loop0'], leftovers.second_disks())

    def test_loop_devices_of_removed_disks(self):
        """Of a removed file the kernel keeps where it was in its mount."""
        found = self.work.stat()
        here = f'  {os.major(found.st_dev)}:{os.minor(found.st_dev)}  '
        uuid = 'ae423e76-ddab-4dd0-9507-65dbd09e2ff6'
        removed = f'/instances/{uuid}_del/disk (deleted)'
        rows = [
            {
                'name': f'/dev/loop{number}',
                'back-file': file,
                'back-ino': 1,
                'back-maj:min': device,
            }
            for number, (file, device) in enumerate(
                (
                    (removed, here),
                    (f'/instances/{uuid}/disk (deleted)', here),
                    # Not the lab's: it is there, is of another file system,
                    # or was elsewhere.
                    (f'/instances/{uuid}_del/disk', here),
                    (removed, '  7:7  '),
                    (f'/srv{removed}', here),
                    ('/instances/other/disk (deleted)', here),
                    (None, here),
                )
            )
        ]
        listed = mock.Mock(stdout=json.dumps({'loopdevices': rows}))
        self._put(leftovers, SECOND_VAR=self.work / 'gone')
        with mock.patch('subprocess.run', return_value=listed):
            self.assertEqual(
                ['/dev/loop0', '/dev/loop1'], leftovers.second_disks()
            )

    def test_number_is_settled_once(self):
        self._choosing()
        second.choose(None)
        self.assertFalse(second.wanted())
        second.choose(2)
        self.assertTrue(second.wanted())
        (self.work / 'done').mkdir()
        second.choose(None)
        second.choose(2)
        with self.assertRaisesRegex(LabError, r'has 2 compute\(s\)'):
            second.choose(1)
        self.assertTrue(second.wanted())

    def test_lab_from_before_there_were_two(self):
        self._choosing()
        (self.work / 'done').mkdir()
        with self.assertRaisesRegex(LabError, r'has 1 compute\(s\)'):
            second.choose(2)
        self.assertFalse(second.wanted())

    def test_one_compute_has_nothing_of_it(self):
        self._choosing()
        for name, service in services.table().items():
            self.assertFalse(service.on_second, name)
            self.assertNotIn('sshd', name)

    def test_all_that_is_needed_is_there(self):
        self._put(second, wanted=lambda: True)
        table = services.table()
        needs = {name: service.needs for name, service in table.items()}
        for steps in (setup_steps.STEPS, second_steps.STEPS):
            needs |= {name: step[1] for name, step in steps.items()}
        order = list(graphlib.TopologicalSorter(needs).static_order())
        self.assertEqual(set(needs), set(order))
        # It waits for its own, not for those of the first machine.
        self.assertLessEqual(
            {'libvirtd-2', 'ovs-vswitchd-2', 'sshd', 'sshd-2', 'relay-2'},
            set(table['nova-compute-2'].needs),
        )
        self.assertNotIn('libvirtd', table['nova-compute-2'].needs)

    def test_files_are_its_own(self):
        self._put(second, wanted=lambda: True)
        table = services.table()
        for name in ('libvirtd-2', 'nova-compute-2', 'nova-rt-exporter-2'):
            own = [
                file
                for file in table[name].files
                if file.is_relative_to(paths.ETC)
            ]
            self.assertTrue(own)
            for file in own:
                self.assertTrue(file.is_relative_to(second.ETC), file)
        # Both machines see the directory of OVN's databases.
        words = table['ovsdb-2'].command
        self.assertIn(second_services.SWITCH, words)
        self.assertNotIn(paths.VAR / 'ovs' / 'conf.db', words)

    def test_dead_machine_runs_nothing(self):
        self._put(second, wanted=lambda: True, holder=lambda: None)
        table = services.table()
        possible = second_services.possible(table)
        self.assertIn('nova-compute', possible)
        self.assertEqual(
            {name for name in table if name.endswith('-2')} | {'sshd'},
            set(table) - set(possible),
        )

    def test_configuration_of_each(self):
        self._put(paths, ETC=self.work)
        self._put(
            second, ETC=self.work / 'machine-2', ONLINE=self.work / 'online'
        )
        self._put(config, STOCK_COMPUTE=self.work / 'nova' / 'stock.py')
        second.ONLINE.write_text('0-1\n')
        exporter = f'nova/{config.EXPORTER}'
        for name in ('nova/nova.conf', 'nova/stock.py', exporter):
            config.put(self.work / name, name)
        for name in ('libvirt/libvirtd.conf', 'libvirt/lxc.conf'):
            config.put(self.work / name, name)
        config._write_second()
        for directory, host, address, cpu in (
            (self.work, 'nova-rt-lab', '10.67.0.1', 0),
            (second.ETC, 'nova-rt-lab-2', '10.67.0.2', 1),
        ):
            for name in ('nova-compute.conf', 'nova-compute-stock.conf'):
                text = (directory / 'nova' / name).read_text()
                lines = text.splitlines()
                self.assertIn(f'host = {host}', lines)
                self.assertIn(f'my_ip = {address}', lines)
                self.assertIn(f'cpu_set = {cpu}', lines)
        shared = (self.work / 'nova' / 'nova.conf').read_text()
        own = (second.ETC / 'nova' / 'nova.conf').read_text()
        self.assertEqual(shared, own)
        self.assertEqual(exporter, (self.work / exporter).read_text())
        self.assertIn(
            'listen_address = 10.67.0.2', (second.ETC / exporter).read_text()
        )
        # User nova runs it.
        script = second.ETC / 'nova' / 'stock.py'
        self.assertEqual(0o644, script.stat().st_mode & 0o777)


class ReportingTest(unittest.TestCase):
    """Check of whether a service that was started takes requests."""

    def reporting(self, seconds, since, state='up'):
        stamp = f'2026-11-21T12:00:{seconds:02}.000000'
        service = types.SimpleNamespace(state=state, updated_at=stamp)
        compute = types.SimpleNamespace(
            services=lambda binary, host: [service]
        )
        cloud = types.SimpleNamespace(compute=compute)
        return catalog.reporting(cloud, 'nova-compute', 'host', since)

    def test_report_of_the_one_before_in_the_same_second(self):
        # Nova keeps whole seconds: this may be any moment of second 5.
        began = catalog._seconds('2026-11-21T12:00:05.000000') + 0.7
        self.assertFalse(self.reporting(4, began))
        self.assertFalse(self.reporting(5, began))
        self.assertTrue(self.reporting(6, began))
        self.assertFalse(self.reporting(6, began, state='down'))


def bootstrap(word, **environment):
    """Run tools/bootstrap.sh."""
    return subprocess.run(
        [paths.CHECKOUT / 'tools' / 'bootstrap.sh', word],
        capture_output=True, text=True, env=os.environ | environment,
        check=False,
    )  # fmt: skip


class ProcessTest(unittest.TestCase):
    def test_first_thread_ends_first(self):
        """As a process that was killed may look until its last thread ends."""
        program = (
            'import ctypes, sys, threading\n'
            'threading.Thread(target=sys.stdin.read).start()\n'
            'ctypes.CDLL(None).pthread_exit(None)\n'
        )
        with subprocess.Popen(
            [sys.executable, '-c', program], stdin=subprocess.PIPE
        ) as child:
            found = process.identify(child.pid)
            stat = pathlib.Path(f'/proc/{child.pid}/stat')
            while stat.read_text().rpartition(') ')[2][0] != 'Z':
                time.sleep(0.01)
            self.assertTrue(found.alive())
            child.stdin.close()
            self.assertEqual([], process.wait_gone([found], 60))

    def test_zombie(self):
        with subprocess.Popen(['true']) as child:
            found = process.identify(child.pid)
            self.assertEqual([], process.wait_gone([found], 60))


class InstalledTest(unittest.TestCase):
    """Wheels in the environment of the lab, and the checkout's own."""

    def installed(self, work):
        return bootstrap('installed', NOVA_RT_LAB=work).returncode

    def test_key_of_another_tree(self):
        with tempfile.TemporaryDirectory() as work:
            venv = pathlib.Path(work, 'venv')
            venv.mkdir()
            (venv / '.nova-rt-key').write_text('key\n')
            self.assertEqual(1, self.installed(work))
            (venv / '.nova-rt-wheel').write_text(f'{"0" * 64}\n')
            self.assertEqual(1, self.installed(work))


class InterfaceTest(unittest.TestCase):
    """The check of the kernel, before anything is installed."""

    def test_files(self):
        for name in (
            'cpu.rt.max', 'unified/cpu.rt.max', 'cpu/cpu.rt_runtime_us',
            'cpu,cpuacct/cpu.rt_runtime_us',
        ):  # fmt: skip
            with tempfile.TemporaryDirectory() as root:
                file = pathlib.Path(root, name)
                file.parent.mkdir(exist_ok=True)
                file.touch()
                found = bootstrap('kernel', NOVA_RT_CGROUP_ROOT=root)
            self.assertEqual(
                (0, '', ''), (found.returncode, found.stdout, found.stderr)
            )

    def test_no_file(self):
        with tempfile.TemporaryDirectory() as root:
            pathlib.Path(root, 'cpu.max').touch()
            found = bootstrap('kernel', NOVA_RT_CGROUP_ROOT=root)
        self.assertEqual(1, found.returncode)
        self.assertIn('Two ways on', found.stderr)


class WorldTest(unittest.TestCase):
    """Leftovers of a run, by a look before it and looks after it."""

    def setUp(self):
        names = {each.name: [] for each in dataclasses.fields(world.World)}
        self.before = world.World(**names)
        self.worse = dataclasses.replace(
            self.before, ports=['one'], flavors=['two']
        )

    def left(self, *looks):
        with (
            mock.patch.object(world, 'look', side_effect=looks),
            mock.patch.object(world, '_SETTLE_S', 0),
            mock.patch('time.sleep'),
        ):
            return world.left(None, self.before)

    def test_nothing(self):
        self.assertEqual({}, self.left(self.before))

    def test_named(self):
        self.assertEqual(
            {'ports': ([], ['one']), 'flavors': ([], ['two'])},
            self.left(self.worse, self.worse),
        )

    def test_something_that_goes(self):
        with mock.patch('time.monotonic', return_value=0):
            self.assertEqual({}, self.left(self.worse, self.before))


class TempestTest(unittest.TestCase):
    """Tempest's configuration, read back."""

    def test_commands_survive_a_list_of_options(self):
        """A comma would end them."""
        for name in tempest._SERVICES:
            self.assertNotIn(',', tempest._restart(name))
            self.assertTrue(tempest._restart(name).startswith(f'{name}:'))
