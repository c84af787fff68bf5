# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.cmd.exporter."""

import contextlib
import errno
import os
import pathlib
import signal
import subprocess
import sys
import urllib.request

import ddt
import fixtures
from oslotest import base

from nova_rt.cmd import exporter
from nova_rt.conf import exporter as exporter_conf
from nova_rt.formats.counts import Counts
from nova_rt.host.options import Options
from nova_rt.tests.fixtures import exporter as exporter_fixture
from nova_rt.tests.fixtures import kernel


@ddt.ddt
class ExporterTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        # Others can look into it, unlike into that of oslotest.
        directory = self.useFixture(fixtures.TempDir(rootdir='/tmp')).path
        self.file = pathlib.Path(directory) / 'nova.conf'

    def options(self, text=''):
        self.file.write_text(f'[nova_rt_exporter]\nport = 0\n{text}')
        return exporter.read_options(['--config-file', str(self.file)])

    def test_a_file_of_nova(self):
        """Options of Nova and of others are none of ours."""
        options = self.options(
            'min_interval = 7\n[DEFAULT]\nstate_path = /x\nlog_dir = /y\n'
            'my_ip = 1.2.3.4\n[libvirt]\nvirt_type = lxc\n'
        )
        group = options.nova_rt_exporter
        self.assertEqual(
            pathlib.Path('/x/nova_rt/counters.json'),
            exporter_conf.find_counters(options),
        )
        self.assertEqual(('127.0.0.1', 7), (group.listen_address,
                                            group.min_interval))  # fmt: skip

    def test_serves(self):
        host = self.useFixture(exporter_fixture.RTHost())
        serving = exporter.make_server(
            self.options(), exporter.Collector(host.reader)
        )
        with serving:
            text = serving.page.get().decode()
        self.assertIn('nova_rt_up{kind="kernel"} 1.0\n', text)
        self.assertIn('process_cpu_seconds_total', text)

    def test_cpus_of_other_servers(self):
        """As nova-rt-compute chooses them, without any option of Nova."""
        machine = self.useFixture(kernel.make(cpus=16))
        machine.number_by_core()
        path = self.file.with_name('counters.json')
        chosen = Options(
            cpu_set='2-15', others={'[compute] cpu_shared_set': '0-1'}
        )
        path.write_text(Counts(host=chosen.to_dict()).encode())
        options = self.options(
            f'libvirt_uri = test:///default\ncounters_file = {path}\n'
        )
        metrics = {
            metric.name: metric
            for metric in exporter.make_collector(
                options, machine.files
            ).collect()
        }
        offered = metrics['nova_rt_host_cpu_capacity_ratio'].samples
        self.assertEqual(
            ['2', '3', '4', '5', '6', '7'],
            [sample.labels['cpu'] for sample in offered],
        )

    def test_mount_points(self):
        """The kernel is read where the options say it is mounted."""
        files = self.useFixture(kernel.make(cpus=16)).files
        options = self.options(
            f'libvirt_uri = test:///default\ncgroup_root = {files.cgroup}\n'
            f'procfs = {files.proc}\nsysfs = {files.sys}\n'
        )
        found = exporter.make_collector(options).collect()
        ceiling = [
            metric.samples
            for metric in found
            if metric.name == 'nova_rt_host_cpu_ceiling_ratio'
        ]
        self.assertEqual(16, len(*ceiling))

    def test_its_own_file(self):
        """No file of Nova's is looked for."""
        own = self.file.with_name('exporter.conf')
        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.cmd.exporter._FILE', own)
        )
        self.assertEqual([], exporter.read_options([]).config_file)
        own.write_text('[nova_rt_exporter]\nmin_interval = 7\n')
        options = exporter.read_options([])
        self.assertEqual([str(own)], options.config_file)
        self.assertEqual(7, options.nova_rt_exporter.min_interval)

    def test_address_in_use(self):
        with exporter.make_server(
            self.options(),
            exporter.make_collector(self.options()),
        ) as first:
            port = first.server_address[1]
            self.useFixture(
                fixtures.MonkeyPatch(
                    'sys.argv', ['x', '--config-file', str(self.file)]
                )
            )
            self.file.write_text(f'[nova_rt_exporter]\nport = {port}\n')
            self.assertEqual(1, exporter.main())

    def refusal(self, text):
        """The one line with which the program ends."""
        self.file.write_text(text)
        log = self.useFixture(fixtures.FakeLogger(format='%(message)s'))
        self.useFixture(
            fixtures.MonkeyPatch(
                'sys.argv', ['x', '--config-file', str(self.file)]
            )
        )
        self.assertEqual(1, exporter.main())
        (line,) = log.output.splitlines()
        return line

    @ddt.data(
        '[nova_rt_exporter] port = 70000', '[nova_rt_exporter] port = x',
        '[nova_rt_exporter] min_interval = 0',
        '[nova_rt_exporter] listen_address = here',
        '[nova_rt_exporter] libvirt_timeout = 1 2',
    )  # fmt: skip
    def test_wrong_value(self, option):
        line = self.refusal(option.replace(' ', '\n', 1) + '\n')
        self.assertIn(f'{self.file}: {option}: ', line)

    @ddt.data('tls_cert_file', 'tls_key_file', 'tls_client_ca_file')
    def test_file_of_tls_is_not_there(self, name):
        there = self.file.with_name('there.pem')
        there.write_text('no certificate')
        files = dict.fromkeys(
            ('tls_cert_file', 'tls_key_file', 'tls_client_ca_file'), there
        )
        files[name] = '/no/such.pem'
        lines = [f'{key} = {path}' for key, path in files.items()]
        line = self.refusal('\n'.join(['[nova_rt_exporter]', *lines]))
        self.assertIn(f'{name} = /no/such.pem: No such file', line)

    def test_file_of_tls_is_something_else(self):
        path = self.file.with_name('there.pem')
        path.write_text('no certificate')
        line = self.refusal(f'[nova_rt_exporter]\ntls_cert_file = {path}\n')
        self.assertIn(f'tls_cert_file = {path}', line)

    def test_address_of_another_host(self):
        def bind(*args):
            raise OSError(errno.EADDRNOTAVAIL, 'not mine')

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_rt.metrics.server.MetricsServer.server_bind', bind
            )
        )
        line = self.refusal(
            '[nova_rt_exporter]\nlisten_address = 192.0.2.1\nport = 9999\n'
        )
        self.assertIn(
            'listen_address = 192.0.2.1, port = 9999: not mine', line
        )

    def test_answers_without_nova_and_libvirt(self):
        """The program itself, as nobody, where there is nothing."""
        self.options('libvirt_uri = lxc+unix:///?socket=/nowhere\n')
        as_nobody = {}
        if os.geteuid() == 0:
            as_nobody = {'user': 65534, 'group': 65534, 'extra_groups': []}
            self.file.parent.chmod(0o755)
        process = subprocess.Popen(
            [sys.executable, '-m', 'nova_rt.cmd.exporter',
             '--config-file', self.file],
            stderr=subprocess.PIPE, text=True, cwd='/',
            env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)},
            **as_nobody,
        )  # fmt: skip
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stderr.close)
        line = process.stderr.readline()
        while 'Serving' not in line:
            self.assertTrue(line, 'it has ended')
            line = process.stderr.readline()
        port = int(line.split()[-1])
        with contextlib.closing(
            urllib.request.urlopen(f'http://127.0.0.1:{port}/metrics')
        ) as answer:
            text = answer.read().decode()
        self.assertIn('nova_rt_up{kind="libvirt"} 0.0\n', text)
        self.assertIn('nova_rt_up{kind="compute"} 0.0\n', text)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(-signal.SIGTERM, process.wait(60))
