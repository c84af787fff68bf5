# SPDX-License-Identifier: Apache-2.0
"""The lab's own commands, and the client's, as an operator types them."""

import subprocess
import sys

from lab import namespace, paths
from lab.tests import base
from nova_rt.reservation import extra_specs


class StatusTest(base.LabTestCase):
    def test_reader_that_has_had_enough(self):
        """``lab status | head -1``: not a word about the broken pipe."""
        status = subprocess.Popen(
            [sys.executable, '-m', 'lab', '_status'],
            cwd=paths.CHECKOUT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        status.stdout.close()
        _, errors = status.communicate(timeout=60)
        self.assertEqual(b'', errors)
        self.assertEqual(128 + 13, status.returncode)

    def test_everything_is_up(self):
        status = subprocess.run(
            [sys.executable, '-m', 'lab', '_status'],
            cwd=paths.CHECKOUT,
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        lines = status.stdout.splitlines()[1:]
        self.assertIn('nova-compute', [line.split()[0] for line in lines])
        self.assertEqual({'up'}, {line.split()[3] for line in lines})


class ClientTest(base.LabTestCase):
    OURS = extra_specs.RESOURCE_CLASS

    def _openstack(self, *arguments):
        return subprocess.run(
            [paths.BIN / 'openstack', *arguments, '-f', 'value'],
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        ).stdout.splitlines()

    def test_inventory_of_a_host(self):
        """The commands of the manual that ask Placement."""
        host = namespace.HOST_NAME
        (provider,) = self._openstack(
            'resource', 'provider', 'list', '--name', host, '-c', 'uuid'
        )
        asked = 'resource', 'provider'
        inventory = self._table(
            *asked, 'inventory', 'list', provider,
            '-c', 'resource_class', '-c', 'total',
        )  # fmt: skip
        usage = self._table(*asked, 'usage', 'show', provider)
        free = inventory[self.OURS] - usage[self.OURS]
        self.assertEqual(self.stats()[host].capacity.total_ppm, free)

    def _table(self, *arguments):
        rows = (line.split() for line in self._openstack(*arguments))
        return {name: int(number) for name, number in rows}
