# SPDX-License-Identifier: Apache-2.0
"""Tests of the commands for hosts and flavors, and of the plug-in."""

import importlib.metadata
import pathlib
import subprocess
import sys
import tomllib
from unittest import mock

import testtools

import nova_rt_client
from nova_rt_client import flavor, host, plugin
from nova_rt_client.tests import base

ROOT = pathlib.Path(nova_rt_client.__file__).parents[1]

HOST = {
    'name': 'one', 'interface': 'x', 'enforcement': 'limit',
    'capacity_ppm': 10, 'reserved_ppm': 4, 'free_ppm': 6, 'servers': 1,
    'seen_at': None,
}  # fmt: skip


class HostTest(base.CommandTestCase):
    def test_list(self):
        self.answer({'hosts': [HOST]}, f'{base.URL}/v1/hosts')
        (found,) = self.run_command(host.ListHost)
        self.assertEqual(
            ('one', 10, 6),
            (found['Name'], found['Capacity ppm'], found['Free ppm']),
        )

    def test_show(self):
        cpus = [{'cpu': 3, 'reserved_ppm': 4, 'servers': [base.UUID]}]
        self.answer(
            {'host': HOST | {'cpus': cpus}}, f'{base.URL}/v1/hosts/one'
        )
        found = self.run_command(host.ShowHost, 'one')
        self.answer(
            {'host': HOST | {'cpus': []}}, f'{base.URL}/v1/hosts/a%2F%3F'
        )
        self.run_command(host.ShowHost, 'a/?')
        self.assertEqual((cpus, 4), (found['cpus'], found['reserved_ppm']))


class FlavorTest(base.CommandTestCase):
    def create(self, *words):
        made = self.cloud.compute.create_flavor.return_value
        made.configure_mock(id='1', name='f', vcpus=3, ram=64, disk=0)
        return self.run_command(
            flavor.CreateFlavor, 'f', '--reservation', '1000/3000',
            '--vcpus', '3', '--ram', '64', *words,
        )  # fmt: skip

    def test_create(self):
        wanted = {
            'rt:reservation': '1000/3000',
            'rt:enforcement': 'limit',
            'rt:runtime_max': '2000',
            'resources:CUSTOM_RT_BANDWIDTH': '1000002',
            'resources:VCPU': '0',
            'trait:CUSTOM_RT_LIMIT': 'required',
        }
        found = self.create(
            '--enforcement', 'limit', '--runtime-max', '2000', '--private'
        )
        compute = self.cloud.compute
        compute.create_flavor.assert_called_once_with(
            name='f', vcpus=3, ram=64, disk=0, is_public=False
        )
        compute.create_flavor_extra_specs.assert_called_once_with(
            compute.create_flavor.return_value, wanted
        )
        compute.delete_flavor.assert_not_called()
        self.assertEqual(wanted, found['properties'])

    def test_refused(self):
        compute = self.cloud.compute
        compute.create_flavor_extra_specs.side_effect = ValueError
        self.assertRaises(ValueError, self.create)
        compute.delete_flavor.assert_called_once_with(
            compute.create_flavor.return_value
        )

    def test_as_nova_rt_manage(self):
        """The properties are those that nova-rt-manage prints."""
        try:
            from nova_rt.manage import flavor as manage
            from nova_rt.reservation.bounds import Bounds
            from nova_rt.reservation.request import HintRule
        except ImportError:
            self.skipTest('nova_rt is not installed')
        bounds = Bounds(HintRule.LOWER, 100, 1_000_000)
        for given in (
            {},
            {'enforcement': 'limit', 'priority': '5'},
            {'enforcement': 'guarantee', 'policy': 'fifo', 'numa': 'same'},
            {
                'enforcement': 'soft',
                'runtime_min': '500',
                'adapt': 'throttled',
            },
            {'startup_runtime': '2000', 'startup_s': '60'},
            {'spare': '100/1000', 'spare_priority': '9'},
        ):
            ours = flavor.make_specs('1000/3000', 3, given)
            specs = {key: ours[key] for key in ours if key.startswith('rt:')}
            theirs = manage.design(None, 3, specs, bounds).specs
            self.assertEqual(theirs, ours)


class PluginTest(testtools.TestCase):
    def test_commands(self):
        """Each entry point of the distribution is a command with a help."""
        project = tomllib.loads((ROOT / 'pyproject.toml').read_text())
        points = project['project']['entry-points']
        self.assertEqual(
            {plugin.API_NAME: plugin.__name__},
            points['openstack.cli.extension'],
        )
        commands = points[f'openstack.rt.v{plugin.DEFAULT_API_VERSION}']
        for name, value in commands.items():
            kind = importlib.metadata.EntryPoint(name, value, '').load()
            parser = kind(mock.Mock(), None).get_parser(name)
            self.assertTrue(parser.format_help())
            self.assertTrue(kind.__doc__.splitlines()[0].endswith('.'))

    def test_without_nova(self):
        """No module needs Nova or nova_rt."""
        modules = [
            f'nova_rt_client.{path.stem}'
            for path in ROOT.glob('nova_rt_client/*.py')
            if path.stem != '__init__'
        ]
        self.assertIn(plugin.__name__, modules)
        program = (
            'import importlib, sys\n'
            'for name in "nova", "nova_rt": sys.modules[name] = None\n'
            f'for name in {modules!r}: importlib.import_module(name)\n'
        )
        subprocess.run(
            [sys.executable, '-P', '-c', program],
            check=True,
            env={'PYTHONPATH': str(ROOT)},
            timeout=60,
        )
