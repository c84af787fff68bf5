# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.exporter.reading."""

import errno
import os
from unittest import mock

import ddt
from oslotest import base

from nova_rt.exporter.reading import Source
from nova_rt.formats import counts
from nova_rt.host import sched_ext
from nova_rt.host.options import Options
from nova_rt.reservation import record
from nova_rt.tests.fixtures import exporter, kernel

INTERFACES = sorted(set(kernel.KERNELS) - {'none'})


@ddt.ddt
class ReadingTest(base.BaseTestCase):
    def host(self, interface='v2-rt-max-cpu'):
        return self.useFixture(exporter.RTHost(interface))

    def failed(self, host):
        return host.reader.read().failed

    def fail(self, *args):
        raise exporter.error(1)

    @ddt.data(*INTERFACES)
    def test_all_is_well(self, interface):
        host = self.host(interface)
        domain = host.add_server(10_000, 100_000, (1, 2))
        stopped = host.add_server(20_000, 100_000, (2,), running=False)
        found = host.reader.read()
        self.assertEqual(frozenset(), found.failed)
        self.assertEqual(
            [((1, 2), 100_000), ((2,), 200_000)],
            [(rec.cpus, rec.ppm) for rec in found.claims],
        )
        self.assertEqual({domain.name}, set(found.states))
        self.assertIs(False, found.states[domain.name].drifted)
        ceiling = kernel.CEILINGS[interface]
        # Two switches of 3 us in each period of 100 ms; two servers on CPU 2.
        over = 60 if interface == 'v2-sched-ext' else 0
        self.assertEqual(
            {0: ceiling, 1: ceiling - 100_000 - over,
             2: ceiling - 300_000 - 2 * over, 3: ceiling},
            dict(found.kernel.free.cpus),
        )  # fmt: skip
        self.assertNotIn(stopped.name, found.states)

    @ddt.data(*INTERFACES)
    def test_boosts_are_free(self, interface):
        """A new server would be given their bandwidth."""
        host = self.host(interface)
        specs = {'startup_runtime': 80_000, 'startup_s': 60}
        domain = host.add_server(10_000, 100_000, (1,), **specs)
        before = host.reader.read().kernel.free
        rec = record.Record.decode(domain.text)
        host.host.apply(domain.pid, rec.with_runtime(80_000))
        found = host.reader.read()
        self.assertEqual(800_000, found.states[domain.name].actual.ppm)
        self.assertEqual(before, found.kernel.free)
        host.machine.remove_container(domain.pid)
        self.assertIsNotNone(host.reader.read().kernel.free)

    @ddt.data(*INTERFACES)
    def test_drift(self, interface):
        host = self.host(interface)
        domain = host.add_server(10_000, 100_000, (1,))
        other = host.add_server(10_000, 100_000, (2,))
        host.machine.reset(domain.pid)
        states = host.reader.read().states
        self.assertIs(True, states[domain.name].drifted)
        self.assertIs(False, states[other.name].drifted)

    def test_what_a_container_makes_costs_nothing(self):
        """Groups and tasks in a container are not looked at."""
        host = self.host()
        domain = host.add_server(10_000, 100_000, (1,))
        host.reader.read()
        group = host.group_of(domain)
        host.machine.enable(group)
        seen = []
        read = host.machine.files.read
        host.machine.files.read = lambda path: seen.append(path) or read(path)
        host.reader.read()
        before = len(seen)
        for number in range(10):
            host.machine.make_group(group / str(number))
            host.machine.add_task(group / str(number))
        seen.clear()
        host.reader.read()
        self.assertEqual(before, len(seen))

    def test_a_kernel_that_does_not_count(self):
        host = self.host('v1-throttle')
        domain = host.add_server(10_000, 100_000, (1,))
        self.assertIsNone(host.reader.read().states[domain.name].usage)

    def test_a_container_that_ended_since(self):
        """It is missing, the others are not, and the reading says so."""
        host = self.host()
        domain = host.add_server(10_000, 100_000, (1,))
        other = host.add_server(10_000, 100_000, (2,))
        host.machine.remove_container(domain.pid)
        found = host.reader.read()
        self.assertEqual({Source.CONTAINERS}, found.failed)
        self.assertEqual({other.name}, set(found.states))
        domain.pid = None
        self.assertEqual(frozenset(), self.failed(host))

    def test_a_number_that_is_another_process_now(self):
        host = self.host()
        domain = host.add_server(10_000, 100_000, (1,))
        domain.pid = host.machine.add_task(host.machine.root)
        found = host.reader.read()
        self.assertEqual({Source.CONTAINERS}, found.failed)
        self.assertEqual({}, found.states)

    def test_a_file_that_cannot_be_read_is_no_drift(self):
        host = self.host()
        domain = host.add_server(10_000, 100_000, (1,))
        read = host.machine.files.read

        def refuse(path):
            if path.name == 'cpu.rt.effective' and 'instance' in str(path):
                raise PermissionError(errno.EACCES, 'Permission denied')
            return read(path)

        host.machine.files.read = refuse
        found = host.reader.read()
        self.assertEqual({Source.CONTAINERS}, found.failed)
        self.assertNotIn(domain.name, found.states)

    def test_a_broken_record(self):
        """The free bandwidth is unknown then; the server's usage is not."""
        host = self.host()
        domain = host.add_server(10_000, 100_000, (1,))
        domain.text = 'v=9'
        found = host.reader.read()
        self.assertEqual(frozenset(), found.failed)
        self.assertIsNone(found.kernel.free)
        self.assertIsNone(found.states[domain.name].drifted)
        self.assertIn(1, found.states[domain.name].usage)

    def test_libvirtd_is_down(self):
        """Then nothing is said of servers, rather than what was."""
        host = self.host()
        host.add_server(10_000, 100_000, (1,))
        host.reader.read()
        host.libvirt.alive = False
        host.libvirt.hook = self.fail
        found = host.reader.read()
        self.assertEqual({Source.LIBVIRT, Source.CONTAINERS}, found.failed)
        self.assertIsNone(found.servers)
        self.assertEqual({}, found.states)
        self.assertIsNone(found.kernel.free)
        self.assertEqual(900_000, found.kernel.offered.cpus[1])

    def test_the_kernel_has_lost_its_files(self):
        host = self.useFixture(exporter.RTHost('v2-rt-max-cpu'))
        domain = host.add_server(10_000, 100_000, (1,))
        for path in host.machine.root.glob('cpu.rt.*'):
            path.unlink()
        found = host.reader.read()
        self.assertEqual({Source.KERNEL, Source.CONTAINERS}, found.failed)
        self.assertIsNone(found.kernel)
        self.assertEqual([domain.name], [each.uuid for each in found.servers])

    @ddt.data(*INTERFACES)
    def test_each_file_is_read_once_and_again_the_next_time(self, interface):
        host = self.host(interface)
        host.add_server(10_000, 100_000, (1,))
        files, seen = host.machine.files, []
        read, ask = files.read, files.ask_scheduler
        files.read = lambda path: seen.append(str(path)) or read(path)
        files.ask_scheduler = lambda what: seen.append(what) or ask(what)
        host.reader.read()
        once = sorted(seen)
        self.assertEqual(sorted(set(seen)), once)
        host.reader.read()
        self.assertEqual(sorted(once * 2), sorted(seen))

    def test_a_list_is_parsed_once(self):
        """Not for each container, of which it has a line."""
        host = self.host('v2-sched-ext')
        for _ in range(3):
            host.add_server(10_000, 100_000, (1,))
        for _ in range(2):
            with mock.patch.object(
                sched_ext, 'Held', wraps=sched_ext.Held
            ) as held:
                host.reader.read()
            # And one to compare each with.
            self.assertEqual(3 + 3, held.call_count)

    def test_reads_only(self):
        host = self.host()
        refused = self.assertRaises(
            PermissionError,
            host.reader._files.write,
            host.machine.root / 'cpu.rt.max',
            '1 2',
        )
        self.assertEqual(errno.EPERM, refused.errno)

    @ddt.data(*INTERFACES)
    def test_nothing_is_written(self, interface):
        host = self.host(interface)
        domain = host.add_server(10_000, 100_000, (1,))
        host.machine.reset(domain.pid)
        before = list(host.machine.writes)
        host.reader.read()
        self.assertEqual(before, host.machine.writes)

    def test_counters(self):
        host = self.host()
        host.count(counts.Counts({'repaired': 3}))
        os.utime(host.counters, (0, 12_345))
        found = host.reader.read().counted
        self.assertEqual((3, 12_345), (found.counts.by_kind['repaired'],
                                       found.at))  # fmt: skip

    @ddt.data(b'', b'{', b'\xff\xfe', b'{"v":1,' + b' ' * 2_000_000)
    def test_broken_counters(self, text):
        host = self.host()
        host.counters.write_bytes(text)
        found = host.reader.read()
        self.assertEqual({Source.COMPUTE}, found.failed)
        self.assertIsNone(found.counted)

    def test_options_of_compute(self):
        """The host is read by those that nova-rt-compute has now."""
        host = self.host()
        host.count(counts.Counts(), Options(reserved_ppm=100_000))
        self.assertEqual(
            {cpu: 800_000 for cpu in range(4)},
            dict(host.reader.read().kernel.offered.cpus),
        )
        host.count(counts.Counts(), Options(cpu_set='1-2'))
        found = host.reader.read().kernel
        self.assertEqual([1, 2], list(found.offered.cpus))
        self.assertEqual([1, 2], list(found.free.cpus))
        host.count(counts.Counts(), Options(cpu_set='9'))
        with self.assertLogs('nova_rt.exporter.reading') as logs:
            self.assertIn(Source.KERNEL, self.failed(host))
        self.assertIn('CPU', logs.output[0])

    def test_compute_that_writes_no_options(self):
        """The kernel and the servers can be read, not what is offered."""
        host = self.host()
        domain = host.add_server(10_000, 100_000, (1,))
        host.count(counts.Counts(), None)
        found = host.reader.read()
        self.assertEqual(frozenset(), found.failed)
        self.assertIsNone(found.kernel.offered)
        self.assertIsNone(found.kernel.free)
        self.assertIs(False, found.states[domain.name].drifted)

    def test_broken_options(self):
        host = self.host()
        host.counters.write_text(counts.Counts(host={'cpu_set': 5}).encode())
        found = host.reader.read()
        self.assertEqual({Source.COMPUTE}, found.failed)
        self.assertIsNone(found.kernel.offered)

    def test_what_fails_is_logged_once(self):
        host = self.host()
        host.counters.unlink()
        with self.assertLogs('nova_rt.exporter.reading') as logs:
            for _ in range(3):
                host.reader.read()
            host.count(counts.Counts())
            for _ in range(3):
                host.reader.read()
        self.assertEqual(2, len(logs.output), logs.output)
