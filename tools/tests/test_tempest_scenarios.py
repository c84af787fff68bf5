# SPDX-License-Identifier: Apache-2.0
"""The plug-in's scenarios without a cloud: arithmetic, loops, probe."""

import pathlib
import subprocess
import tempfile
import time
import unittest
from unittest import mock

from nova_rt.model import single, sizing
from nova_rt_tempest_plugin import probe
from nova_rt_tempest_plugin.hosts import load, transport
from nova_rt_tempest_plugin.tests import base
from nova_rt_tempest_plugin.tests.scenario import capacity, test_response


def configured(module, **options):
    """Return a patch that shows a module only these options of the plug-in."""
    conf = mock.Mock()
    conf.nova_rt = mock.Mock(spec_set=list(options), **options)
    return mock.patch.object(module, 'CONF', conf)


class FreeTest(unittest.TestCase):
    """Free bandwidth, and what a server takes from it."""

    # A kernel that sums over the host has less for all than on each CPU.
    FREE = capacity.Free({0: 650_000, 1: 950_000, 2: 950_000}, 900_000)

    def test_emptiest_is_the_first_of_equal_ones(self):
        self.assertEqual(1, self.FREE.emptiest())
        self.assertEqual(0, capacity.Free({0: 5, 1: 5}, 10).emptiest())

    def test_most_on_each(self):
        self.assertEqual(300_000, self.FREE.most_on_each())
        each = capacity.Free({0: 650_000, 1: 950_000}, 1_600_000)
        self.assertEqual(650_000, each.most_on_each())
        self.assertEqual(7, capacity.Free({3: 7}, 7).most_on_each())

    def test_after(self):
        self.assertEqual(
            capacity.Free({0: 550_000, 1: 950_000, 2: 850_000}, 700_000),
            self.FREE.after([0, 2], 100_000),
        )

    def test_reservation_of_so_much_or_a_bit_less(self):
        with configured(capacity, reservation='200/1000'):
            for ppm, wanted in (
                (300_000, '300/1000'),
                (300_999.9, '300/1000'),
            ):
                reservation = capacity.of(ppm)
                self.assertEqual(wanted, reservation)
                self.assertLessEqual(base.ppm(reservation), ppm)


class HogTest(unittest.TestCase):
    """Loops, started by a real shell, with another program for chrt."""

    CHRT = '#!/bin/sh\necho "$@" >>"$(dirname "$0")/said"\nsleep 60\n'

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory())
        )
        chrt = self.directory / 'chrt'
        chrt.write_text(self.CHRT)
        chrt.chmod(0o755)
        group = self.directory / 'a group'
        group.mkdir()
        self.procs = group / 'cgroup.procs'
        self.found = mock.Mock(groups=dict.fromkeys(['cpu', 'cpuset'], group))
        self.found.groups = {
            name: str(path) for name, path in self.found.groups.items()
        }
        self.found.first_process.return_value = 4711
        self.found.host = transport.Host('a', 'a', transport.Local())
        self.enterContext(
            configured(transport, host_sudo=False, host_timeout=20)
        )
        path = f'{self.directory}:/usr/bin:/bin'
        self.enterContext(mock.patch.dict('os.environ', PATH=path))

    def said(self):
        """Return the command lines with which the loops were started."""
        said = self.directory / 'said'
        return said.read_text().splitlines() if said.exists() else []

    def end(self):
        """End those that have joined the group."""
        for pid in self.procs.read_text().split():
            subprocess.run(['kill', pid], check=False)

    def test_group_first_then_policy_then_the_container(self):
        self.addCleanup(self.end)
        self.found.processes.side_effect = [[1], [1, 2]]
        load.hog(self.found, 10, 'rr', 3)
        deadline = time.monotonic() + 20
        while not self.said() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(
            [
                '--rr 1 taskset --cpu-list 3 nsenter --target 4711 --all '
                '--root --wd=/ /bin/sh -c while :; do :; done'
            ],
            self.said(),
        )
        self.assertTrue(self.procs.read_text().strip().isdigit())

    def test_why_there_is_none(self):
        self.found.groups = {'cpu': '/nonexistent'}
        self.found.processes.return_value = [1]
        with (
            mock.patch.object(load, '_START_S', 0),
            self.assertRaisesRegex(transport.HostError, '/nonexistent'),
        ):
            load.hog(self.found, 1)


class ProbeTest(unittest.TestCase):
    """The answers of the program that asks the service."""

    def run_with(self, script, call):
        """Make a call while another program answers in its place."""
        with tempfile.TemporaryDirectory() as directory:
            program = pathlib.Path(directory) / 'rtprobe'
            program.write_text(f'#!/bin/sh\n{script}\n')
            program.chmod(0o755)
            with configured(probe, rtprobe=str(program)):
                return call()

    def test_times_of_the_service_alone(self):
        script = '[ "$*" = "load 192.0.2.1 10 1000 3 1" ] || exit 1\n'
        times = self.run_with(
            f"{script}printf '3000 9000\\nlost\\n1000 8000\\n'",
            lambda: probe.times_us(
                '192.0.2.1', rate=10, service_us=1000, count=3
            ),
        )
        self.assertEqual([1000, 3000], times)

    def test_exponential_work(self):
        times = self.run_with(
            '[ "$*" = "load 192.0.2.1 10 1000 1 1 exponential" ] && echo 7 8',
            lambda: probe.times_us(
                '192.0.2.1',
                rate=10,
                service_us=1000,
                count=1,
                exponential=True,
            ),
        )
        self.assertEqual([7], times)

    def test_no_answer(self):
        with self.assertRaisesRegex(probe.ProbeError, 'no answer'):
            self.run_with(
                'echo no answer; exit 1', lambda: probe.wait('192.0.2.1', 0)
            )


class SizedTest(unittest.TestCase):
    """The plug-in knows nothing of the model, and has its answer."""

    def test_reservation(self):
        found = sizing.size(
            single.SingleQueue(test_response.SIZED_SERVICE_US / 1e6),
            test_response.SIZED_RATE,
            test_response.SIZED_DEADLINE_US / 1e6,
            test_response.SIZED_PERCENT / 100,
            period_us=100_000,
        )
        self.assertEqual(test_response.SIZED, str(found.reservation))
