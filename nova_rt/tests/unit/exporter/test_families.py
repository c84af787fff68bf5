# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.exporter.families, read as Prometheus reads."""

import re
import shutil
import subprocess

import ddt
from nova.virt.libvirt import config
from oslotest import base
from prometheus_client import parser

from nova_rt.formats import counts
from nova_rt.reservation.extra_specs import Enforcement
from nova_rt.tests.fixtures import exporter

# What a label may be, whatever somebody has called something.
LABELS = {
    'server': re.compile('[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}'),
    'cpu': re.compile('[0-9]{1,5}'),
    'kind': re.compile('[a-z0-9][a-z0-9_-]{1,30}'),
}
HOSTILE = 'x"} 1\nnova_rt_up{kind="\\\'\x1b[2J\u202e<script>'


def describe(name, flavor, project):
    """Return the element that Nova writes about a server."""
    made = config.LibvirtConfigGuestMetaNovaInstance()
    made.package, made.name = '34.0.0', name
    made.flavor = config.LibvirtConfigGuestMetaNovaFlavor()
    made.flavor.name, made.flavor.id = flavor, '1'
    made.owner = config.LibvirtConfigGuestMetaNovaOwner()
    made.owner.projectid, made.owner.projectname = project, name
    made.owner.userid, made.owner.username = 'u', name
    return made.to_xml()


@ddt.ddt
class FamiliesTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.host = self.useFixture(exporter.RTHost())
        self.one = self.host.add_server(10_000, 100_000, (1, 2))
        self.off = self.host.add_server(
            20_000, 100_000, (2,), running=False,
            enforcement=Enforcement.LIMIT,
        )  # fmt: skip

    def read(self):
        """(name, values of its labels, by their names) -> value."""
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in parser.text_string_to_metric_families(
                self.host.text()
            )
            for sample in family.samples
        }

    def test_a_host(self):
        group = self.host.group_of(self.one)
        self.host.machine.use(group, 1, 70, 30, 2_500_000)
        self.host.count(
            counts.Counts(
                {'repaired': 3, 'claimed': 4}, {'claim': 2}, dropped=5,
                by_adaptation={'grown': 6}, frozen=1,
            )
        )  # fmt: skip
        found = self.read()
        one, off = self.one.name, self.off.name
        for name, value in {
            ('nova_rt_up', 'kernel'): 1,
            ('nova_rt_up', 'containers'): 1,
            ('nova_rt_up', 'libvirt'): 1,
            ('nova_rt_up', 'compute'): 1,
            ('nova_rt_host_interface_info', 'v2-rt-max-cpu'): 1,
            ('nova_rt_host_guarantees',): 1,
            ('nova_rt_host_prepared',): 1,
            ('nova_rt_host_cpu_ceiling_ratio', '3'): 0.9,
            ('nova_rt_host_cpu_capacity_ratio', '3'): 0.9,
            ('nova_rt_host_cpu_reserved_ratio', '2'): 0.3,
            ('nova_rt_host_cpu_reserved_ratio', '3'): 0,
            ('nova_rt_host_cpu_free_ratio', '2'): 0.6,
            ('nova_rt_host_capacity_cpus',): 3.6,
            ('nova_rt_host_ceiling_cpus',): 3.6,
            ('nova_rt_host_reserved_cpus',): 0.4,
            ('nova_rt_host_free_cpus',): 3.2,
            ('nova_rt_server_running', one): 1,
            ('nova_rt_server_running', off): 0,
            ('nova_rt_server_record_readable', off): 1,
            ('nova_rt_server_guaranteed', one): 1,
            ('nova_rt_server_guaranteed', off): 0,
            ('nova_rt_server_drifted', one): 0,
            ('nova_rt_server_cpu_reserved_ratio', '1', one): 0.1,
            ('nova_rt_server_cpu_reserved_ratio', '2', one): 0.1,
            ('nova_rt_server_cpu_reserved_ratio', '2', off): 0.2,
            ('nova_rt_server_cpu_used_seconds_total', '1', one): 2.5,
            ('nova_rt_server_cpu_periods_total', '1', one): 70,
            ('nova_rt_server_cpu_throttled_periods_total', '1', one): 30,
            ('nova_rt_events_total', 'claimed'): 4,
            ('nova_rt_events_total', 'refused'): 0,
            ('nova_rt_refusals_total', 'claim'): 2,
            ('nova_rt_refusals_total', 'move'): 0,
            ('nova_rt_repairs_total',): 3,
            ('nova_rt_history_dropped_events_total',): 5,
            ('nova_rt_server_cpu_actual_ratio', '2', one): 0.1,
            ('nova_rt_adaptations_total', 'grown'): 6,
            ('nova_rt_adaptations_total', 'limited'): 0,
            ('nova_rt_frozen_servers',): 1,
        }.items():
            self.assertAlmostEqual(value, found[name], 6, name)
        self.assertNotIn(('nova_rt_server_drifted', off), found)
        self.assertLess(
            1.5e9, found['nova_rt_compute_last_write_timestamp_seconds',]
        )

    def test_a_pool(self):
        """Absent without one, and for servers that never used it."""
        pools = [name for name, *_ in self.read() if '_pool_' in name]
        self.assertEqual([], pools)
        machine, one = self.host.machine, self.one.name
        group = self.host.group_of(self.one)
        machine.write(machine.partition / 'cpu.rt.spare.max', '1000 10000')
        machine.write(group / 'cpu.rt.spare', '2')
        machine.use(group, 1, 70, 30, 2_500_000)
        machine.use_pool(machine.partition, group, 1, 500_000, 7)
        found = self.read()
        for name, value in {
            ('nova_rt_host_cpu_pool_ratio', '3'): 0.1,
            ('nova_rt_host_cpu_capacity_ratio', '3'): 0.8,
            ('nova_rt_host_cpu_pool_used_seconds_total', '1'): 0.5,
            ('nova_rt_host_cpu_pool_used_seconds_total', '3'): 0,
            ('nova_rt_host_cpu_pool_throttled_periods_total', '1'): 7,
            ('nova_rt_server_cpu_used_seconds_total', '1', one): 2.5,
            ('nova_rt_server_cpu_pool_used_seconds_total', '1', one): 0.5,
            ('nova_rt_server_cpu_pool_waits_total', '1', one): 7,
            ('nova_rt_up', 'kernel'): 1,
        }.items():
            self.assertAlmostEqual(value, found[name], 6, name)

    def test_what_is_reserved_has_its_overhead(self):
        """A host that is full by its own count is full in the metrics."""
        self.host = self.useFixture(exporter.RTHost('v2-sched-ext'))
        self.host.add_server(400, 1_000, (1,))
        self.host.add_server(400, 1_000, (1, 2))
        found = self.read()
        for cpu, reserved in ('1', 0.812), ('2', 0.406), ('3', 0):
            self.assertAlmostEqual(
                reserved, found['nova_rt_host_cpu_reserved_ratio', cpu]
            )
            self.assertAlmostEqual(
                found['nova_rt_host_cpu_capacity_ratio', cpu] - reserved,
                found['nova_rt_host_cpu_free_ratio', cpu],
            )
        self.assertAlmostEqual(1.218, found['nova_rt_host_reserved_cpus',])

    def test_what_is_reserved_off_line_is_told(self):
        self.host.machine.take_off_line(2)
        found = self.read()
        self.assertEqual(0, found['nova_rt_host_cpu_capacity_ratio', '2'])
        self.assertAlmostEqual(
            0.3, found['nova_rt_host_cpu_reserved_ratio', '2']
        )
        self.assertEqual(1, found['nova_rt_server_drifted', self.one.name])

    def test_nothing_is_told_that_is_not_known(self):
        """A value that could not be read is absent, not 0."""
        self.host.libvirt.alive = False
        self.host.reader._domains._connect = self._refuse
        self.host.counters.unlink()
        found = self.read()
        names = {name[0] for name in found}
        self.assertEqual(0, found['nova_rt_up', 'libvirt'])
        self.assertEqual(0, found['nova_rt_up', 'containers'])
        self.assertEqual(0, found['nova_rt_up', 'compute'])
        self.assertEqual(1, found['nova_rt_up', 'kernel'])
        for name in names:
            self.assertNotIn('_server_', name)
            self.assertNotIn('_total', name)
            self.assertNotIn('reserved', name)
            self.assertNotIn('free', name)
            self.assertNotIn('capacity', name)
        self.assertIn('nova_rt_host_ceiling_cpus', names)

    def test_details(self):
        """They are texts, whatever is in them, and off by default."""
        self.assertNotIn('nova_rt_server_info', self.host.text())
        # XML has no control characters.
        name = HOSTILE.replace('\x1b', '')
        self.one.nova = describe(name, 'rt.small', 'a' * 32)
        self.host.reader._domains._details = True
        found = {
            sample.name: sample.labels
            for family in parser.text_string_to_metric_families(
                self.host.text()
            )
            for sample in family.samples
            if sample.name in ('nova_rt_server_info', 'nova_rt_up')
        }
        self.assertEqual(
            {'server': self.one.name, 'project': 'a' * 32,
             'flavor': 'rt.small', 'name': name},
            found['nova_rt_server_info'],
        )  # fmt: skip
        self.assertEqual(['kind'], list(found['nova_rt_up']))

    def _refuse(self, uri):
        raise exporter.error(1)

    @ddt.data(
        HOSTILE, f'v=1;q=10000;p=100000;n=1;c=1;z={HOSTILE}',
        f'v=1;q=10000;p=100000;n=1;c={HOSTILE};e=guarantee;s=rr;r=1',
    )  # fmt: skip
    def test_no_text_of_others_in_a_label(self, text):
        """A record, the counters and a name of a group that want to be."""
        self.one.text = text
        self.host.counters.write_text(
            counts.Counts({HOSTILE: 1}, {HOSTILE: 1}).encode()
        )
        self.host.machine.add_container(77, HOSTILE.replace('/', ''), (1,))
        page = self.host.text()
        self.assertNotIn('script', page)
        self.assertNotIn('\x1b', page)
        for family in parser.text_string_to_metric_families(page):
            for sample in family.samples:
                for label, value in sample.labels.items():
                    self.assertRegex(value, f'^{LABELS[label].pattern}$')

    def test_labels_are_bounded(self):
        """As many as servers and their CPUs; no other grows with them."""
        count = len(self.read())
        self.host.add_server(10_000, 100_000, (0, 1, 3))
        # Four of the server, and five on each CPU.
        self.assertEqual(count + 4 + 3 * 5, len(self.read()))

    def test_every_metric_says_what_it_is(self):
        for family in parser.text_string_to_metric_families(self.host.text()):
            self.assertTrue(family.documentation, family.name)
            self.assertNotEqual('unknown', family.type)
            self.assertTrue(family.name.startswith('nova_rt_'))

    def test_conventions_of_prometheus(self):
        promtool = shutil.which('promtool')
        if promtool is None:
            self.skipTest('no promtool')
        answer = subprocess.run(
            [promtool, 'check', 'metrics'],
            input=self.host.text(),
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(
            (0, '', ''), (answer.returncode, answer.stdout, answer.stderr)
        )
