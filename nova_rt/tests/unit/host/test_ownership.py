# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.host.ownership; more of it is in test_drift."""

import pathlib

import fixtures
from oslotest import base

from nova_rt import exception
from nova_rt.host import ownership
from nova_rt.host.files import Files


class DelegationTest(base.BaseTestCase):
    """The groups that libvirt would give to the root of a container."""

    def test_groups(self):
        """Only a mounted hierarchy without systemd's groups is refused."""
        top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        files = Files(cgroup=str(top))
        ownership.check_delegation(files)
        (top / 'systemd').mkdir()
        ownership.check_delegation(files)
        (top / 'systemd/tasks').touch()
        refusal = self.assertRaises(
            exception.HostNotPrepared, ownership.check_delegation, files
        )
        self.assertIn(f'{top}/systemd', str(refusal))
        self.assertIn('Unmount', str(refusal))
        (top / 'systemd/system.slice').mkdir()
        ownership.check_delegation(files)
