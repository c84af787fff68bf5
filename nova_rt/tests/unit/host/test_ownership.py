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

    def setUp(self):
        super().setUp()
        self.top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.files = Files(cgroup=str(self.top))
        self.systemd = self.top / 'systemd'

    def test_no_such_hierarchy(self):
        ownership.check_delegation(self.files)

    def test_directory_without_a_mount(self):
        self.systemd.mkdir()
        ownership.check_delegation(self.files)

    def test_systemd_makes_groups_in_it(self):
        (self.systemd / 'system.slice').mkdir(parents=True)
        (self.systemd / 'tasks').touch()
        ownership.check_delegation(self.files)

    def test_nobody_makes_groups_in_it(self):
        self.systemd.mkdir()
        (self.systemd / 'tasks').touch()
        refusal = self.assertRaises(
            exception.HostNotPrepared, ownership.check_delegation, self.files
        )
        self.assertIn(str(self.systemd), str(refusal))
        self.assertIn('Unmount', str(refusal))
