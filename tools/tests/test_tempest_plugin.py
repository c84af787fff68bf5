# SPDX-License-Identifier: Apache-2.0
"""The plug-in of Tempest without a cloud: how it looks at hosts."""

import ast
import importlib.metadata
import pathlib
import re
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from unittest import mock

from oslo_config import cfg
import paramiko

import nova_rt_tempest_plugin
from nova_rt_tempest_plugin import config, plugin, reports
from nova_rt_tempest_plugin.hosts import container, transport
from nova_rt_tempest_plugin.tests import base

# As it is installed, from its wheel.
PACKAGE = pathlib.Path(nova_rt_tempest_plugin.__file__).parent

# doc/source/plugins/plugin.rst of Tempest: "Stable Tempest APIs plugins may
# use".
STABLE = (
    'tempest.lib', 'tempest.config', 'tempest.test_discover.plugins',
    'tempest.common.credentials_factory', 'tempest.common.compute',
    'tempest.common.identity', 'tempest.common.image',
    'tempest.common.object_storage', 'tempest.clients', 'tempest.test',
    'tempest.scenario.manager',
)  # fmt: skip


def trees():
    """Every module of the plug-in, parsed."""
    for path in sorted(PACKAGE.rglob('*.py')):
        yield path, ast.parse(path.read_text())


def imported(tree):
    """Full names of what a module imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f'{node.module}.{alias.name}' for alias in node.names)


class PackageTest(unittest.TestCase):
    """The parts that the plug-in is made of."""

    def test_stable_interfaces_alone(self):
        for path, tree in trees():
            for name in imported(tree):
                if name.split('.')[0] == 'tempest':
                    stable = any(
                        name == each or name.startswith(f'{each}.')
                        for each in STABLE
                    )
                    self.assertTrue(stable, f'{path}: {name}')

    def test_nothing_of_nova_rt_and_nova(self):
        for path, tree in trees():
            roots = {name.split('.')[0] for name in imported(tree)}
            self.assertEqual(set(), roots & {'nova_rt', 'nova', 'lab'}, path)

    def test_every_test_has_an_id_of_its_own(self):
        found = []
        for path, tree in trees():
            for node in ast.walk(tree):
                if not isinstance(node, ast.FunctionDef):
                    continue
                if not node.name.startswith('test_'):
                    continue
                ids = re.findall(
                    r"idempotent_id\('([0-9a-f-]{36})'\)",
                    ' '.join(map(ast.unparse, node.decorator_list)),
                )
                self.assertEqual(1, len(ids), f'{path}: {node.name}')
                found += ids
        self.assertEqual(len(set(found)), len(found))

    def test_tempest_finds_it(self):
        (point,) = importlib.metadata.entry_points(
            group='tempest.test_plugins', name='nova_rt'
        )
        self.assertEqual(
            'nova_rt_tempest_plugin.plugin:NovaRTTempestPlugin', point.value
        )
        directory, top = plugin.NovaRTTempestPlugin().load_tests()
        self.assertEqual(
            (str(PACKAGE / 'tests'), str(PACKAGE.parent)), (directory, top)
        )

    def test_options(self):
        conf = cfg.ConfigOpts()
        conf.register_group(cfg.OptGroup('service_available'))
        plugin.NovaRTTempestPlugin().register_opts(conf)
        conf([])
        self.assertTrue(conf.service_available.nova_rt)
        self.assertEqual('none', conf.nova_rt.host_access)
        for option in config.OPTIONS:
            self.assertTrue(option.help.endswith('.'), option.name)


class HostTestCase(unittest.TestCase):
    """A directory, and a host that has it."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.top = pathlib.Path(directory.name)
        self.conf = mock.Mock()
        self.conf.nova_rt.host_sudo = False
        self.conf.nova_rt.host_timeout = 10
        patch = mock.patch.object(transport, 'CONF', self.conf)
        patch.start()
        self.addCleanup(patch.stop)
        self.host = transport.Host('here', '127.0.0.1', self.transport())

    def transport(self):
        return transport.Local()


class FilesTest(HostTestCase):
    """Commands and files of this machine."""

    def test_files(self):
        path = f"{self.top}/it's one"
        self.assertFalse(self.host.exists(path))
        self.host.write(path, '1000 $HOME')
        self.assertTrue(self.host.exists(path))
        self.assertEqual('1000 $HOME', self.host.read(path))
        self.assertEqual(
            '1000 $HOME', self.host.read_some([path, f'{path}.gone'])
        )
        self.assertEqual('', self.host.read_some([]))

    def test_failure_has_what_was_said(self):
        with self.assertRaisesRegex(transport.HostError, 'gone'):
            self.host.read(f'{self.top}/gone')
        with self.assertRaises(transport.HostError):
            self.host.write(f'{self.top}/no/such/directory', '1')

    def test_no_end(self):
        began = time.monotonic()
        with self.assertRaises(transport.HostError):
            self.host.run('sleep', '60', timeout=1)
        self.assertLess(time.monotonic() - began, 30)


class SSHTest(FilesTest):
    """The same over SSH."""

    def transport(self):
        """Log in to a server of this test's own, with a key."""
        self.conf.nova_rt.host_user = 'rt'
        key = paramiko.RSAKey.generate(2048)
        path = self.top / 'key'
        key.write_private_key_file(str(path))
        self.conf.nova_rt.host_key_file = str(path)
        self.conf.nova_rt.host_port = serve_ssh(self, key)
        return transport.SSH('127.0.0.1')


class SSHServer(paramiko.ServerInterface):
    """Runs commands as sshd does, for whoever has the key."""

    def __init__(self, key):
        self._key = key

    def get_allowed_auths(self, username):
        return 'publickey'

    def check_auth_publickey(self, username, key):
        known = username == 'rt' and key == self._key
        return paramiko.AUTH_SUCCESSFUL if known else paramiko.AUTH_FAILED

    def check_channel_request(self, kind, chanid):
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel, command):
        # paramiko says yes to the client after this, and before any output.
        threading.Timer(0.1, self._run, (channel, command)).start()
        return True

    @staticmethod
    def _run(channel, command):
        done = subprocess.run(
            ['/bin/sh', '-c', command], capture_output=True, check=False
        )
        channel.sendall(done.stdout)
        channel.sendall_stderr(done.stderr)
        channel.send_exit_status(done.returncode)
        channel.close()


def serve_ssh(test, key):
    """Start a server that ends with the test; return its port."""
    listener = socket.create_server(('127.0.0.1', 0))
    test.addCleanup(listener.close)

    def serve():
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            served = paramiko.Transport(client)
            served.add_server_key(key)
            served.start_server(server=SSHServer(key))
            test.addCleanup(served.close)

    threading.Thread(target=serve, daemon=True).start()
    return listener.getsockname()[1]


class GroupsTest(HostTestCase):
    """Control groups, by the files of each kind of kernel."""

    def write(self, name, text):
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    def test_reservation_of_each_interface(self):
        self.write('v1/cpu.rt_runtime_us', '20000\n')
        self.write('v1/cpu.rt_period_us', '100000\n')
        self.write('v2/cpu.rt.max', '20000 100000\n')
        for name in ('v1', 'v2'):
            found = container.held(self.host, f'{self.top}/{name}')
            self.assertEqual('20000/100000', str(found))

    def groups(self, mounts, cgroup):
        """The groups of a process with these files in /proc."""
        texts = {'/proc/self/mountinfo': mounts, '/proc/7/cgroup': cgroup}
        with mock.patch.object(self.host, 'read', texts.__getitem__):
            return container._groups(self.host, 7)

    def test_groups_of_v1(self):
        """Those of other controllers may be libvirt's own."""
        found = self.groups(
            '1 2 0:3 / /cg/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n'
            '1 2 0:3 / /cg/cpuset rw - cgroup cgroup rw,cpuset\n'
            '1 2 0:3 / /cg/pids rw - cgroup cgroup rw,pids\n',
            '3:cpuset:/machine/one\n2:pids:/libvirtd\n'
            '1:cpu,cpuacct:/machine/one\n',
        )
        self.assertEqual(
            {
                'cpu': '/cg/cpu,cpuacct/machine/one',
                'cpuacct': '/cg/cpu,cpuacct/machine/one',
                'cpuset': '/cg/cpuset/machine/one',
            },
            found,
        )

    def test_groups_of_v2(self):
        found = self.groups(
            '1 2 0:3 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n',
            '0::/machine.slice/one.scope/libvirt\n',
        )
        self.assertEqual(
            {'/sys/fs/cgroup/machine.slice/one.scope/libvirt'},
            set(found.values()),
        )


class ReadingTest(unittest.TestCase):
    """Texts of kernels, exporters and APIs."""

    def test_cpu_list(self):
        for text, cpus in (
            ('', []), ('\n', []), ('3', [3]), ('0-2,7\n', [0, 1, 2, 7]),
        ):  # fmt: skip
            self.assertEqual(cpus, container.cpu_list(text))

    def test_policies(self):
        """A name may hold blanks and parentheses."""
        rest = ' '.join(map(str, range(4, 40)))
        found = mock.Mock()
        found.processes.return_value = [7, 8]
        found.host.read_some.return_value = (
            f'7 (a) S (b)) S {rest} 10 1 0\n8 (init) S {rest} 0 0 0\n'
        )
        self.assertEqual(
            {('fifo', 10), ('other', 0)},
            container.Container.policies(found),
        )

    def test_samples(self):
        text = (
            '# HELP nova_rt_x X.\nnova_rt_up{kind="kernel"} 1.0\n'
            'nova_rt_server_cpu_reserved_ratio{server="a",cpu="3"} 0.2\n'
            'nova_rt_server_running{server="a"} 1.0\n'
            'nova_rt_server_running{server="b"} 0.0\n'
            'nova_rt_host_cpu_free_ratio{cpu="3"} 0.75\n'
        )
        conf = mock.Mock()
        conf.nova_rt.exporter_url = 'http://{host}:9839/metrics'
        host = mock.Mock(address='192.0.2.1')
        with (
            mock.patch.object(reports, 'CONF', conf),
            mock.patch('urllib.request.urlopen') as opened,
        ):
            read = opened.return_value.__enter__.return_value.read
            read.return_value = text.encode()
            self.assertEqual(
                {
                    'nova_rt_server_cpu_reserved_ratio': {3: 0.2},
                    'nova_rt_server_running': 1.0,
                },
                reports.of_server(host, 'a'),
            )
            self.assertEqual(
                {3: 0.75}, reports.of_cpus(host, 'nova_rt_host_cpu_free_ratio')
            )
        self.assertEqual(
            'http://192.0.2.1:9839/metrics', opened.call_args.args[0]
        )

    def test_bandwidth(self):
        self.assertEqual(333_334, base.ppm('1000/3000'))
        self.assertEqual('10000/100000', base.times('20000/100000', 0.5))

    def test_messages_of_apis(self):
        for body in (
            {'badRequest': {'message': 'no', 'code': 400}},
            {'message': 'no', 'code': 400},
            '{"badRequest": {"message": "no", "code": 400}}',
            'no',
        ):
            error = mock.Mock(resp_body=body)
            self.assertEqual('no', base.RTTest.message(error))
