# SPDX-License-Identifier: Apache-2.0
"""The plug-in of Tempest without a cloud: how it looks at hosts."""

import ast
import importlib.metadata
import itertools
import pathlib
import re
import unittest

from oslo_config import cfg

import nova_rt_tempest_plugin
from nova_rt_tempest_plugin import config, plugin
from nova_rt_tempest_plugin.hosts import container, transport

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
    """Full names of the imports of a module."""
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


class Files:
    """A host with nothing but files."""

    def __init__(self, texts):
        self.texts = texts

    def run(self, line, timeout):
        words = line.split()
        if words[0] == 'if':
            return 'yes' if words[3] in self.texts else ''
        paths = itertools.takewhile(lambda each: '/' in each, words[1:])
        return ''.join(self.texts.get(path, '') for path in paths)


class ContainerTest(unittest.TestCase):
    """The group with the reservation."""

    SCOPE = '/sys/fs/cgroup/machine.slice/machine-7.scope'

    def read(self, **held):
        groups = {
            'root': '/sys/fs/cgroup', 'slice': self.SCOPE.rpartition('/')[0],
            'scope': self.SCOPE, 'own': f'{self.SCOPE}/libvirt',
        }  # fmt: skip
        texts = {
            '/proc/self/mountinfo': '25 21 0:21 / /sys/fs/cgroup rw - '
            'cgroup2 cgroup2 rw\n',
            '/proc/7/cgroup': '0::/machine.slice/machine-7.scope/libvirt\n',
        } | {
            f'{group}/cpu.rt.max': held.get(name, 'max 1000000') + '\n'
            for name, group in groups.items()
        }
        host = transport.Host('h', 'h', Files(texts))
        return str(container.Container(host, 'uuid', 7).held())

    def test_its_own(self):
        self.assertEqual('20/100', self.read(own='20 100'))

    def test_the_outer_one(self):
        """Of a container that may use all CPUs of its host."""
        self.assertEqual('20/100', self.read(scope='20 100'))

    def test_none(self):
        """The root has all of the CPU, and no reservation."""
        self.assertEqual('0/1000000', self.read(root='1000000 1000000'))
