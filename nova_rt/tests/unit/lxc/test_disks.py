# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.lxc.disks: the noted format of a disk."""

import json
import os

import fixtures
from nova import exception
from oslotest import base

from nova_rt.lxc import disks


class ReadFormatTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        top = self.useFixture(fixtures.TempDir()).path
        self.path = os.path.join(top, 'disk')
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_rt.lxc.disks.host_format', lambda: disks.QCOW2
            )
        )

    def note(self, notes):
        with open(os.path.join(os.path.dirname(self.path), 'disk.info'),
                  'w') as file:  # fmt: skip
            json.dump(notes, file)

    def test_of_this_path(self):
        self.note({'/other/disk': disks.QCOW2, self.path: disks.RAW})
        self.assertEqual(disks.RAW, disks.read_format(self.path))

    def test_of_a_host_with_another_directory(self):
        """Never a guess: a raw disk has what its user writes."""
        self.note({'/srv/nova/uuid/disk': disks.RAW,
                   '/srv/nova/uuid/disk.config': disks.QCOW2})  # fmt: skip
        self.assertEqual(disks.RAW, disks.read_format(self.path))

    def test_other_hosts_disagree(self):
        self.note({'/a/disk': disks.RAW, '/b/disk': disks.QCOW2})
        err = self.assertRaises(
            exception.InvalidDiskInfo, disks.read_format, self.path
        )
        self.assertIn('qcow2 and raw', str(err))

    def test_no_note(self):
        self.assertEqual(disks.QCOW2, disks.read_format(self.path))
        self.note({'/a/disk.config': disks.RAW})
        self.assertEqual(disks.QCOW2, disks.read_format(self.path))
