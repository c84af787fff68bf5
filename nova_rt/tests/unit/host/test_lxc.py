# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.host.lxc."""

from oslotest import base

from nova_rt import exception
from nova_rt.host import lxc
from nova_rt.tests.fixtures import kernel


class KernelTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.files = self.useFixture(kernel.make()).files
        self.task = self.files.proc / 'thread-self'
        self.task.mkdir()

    def test_children(self):
        err = self.assertRaises(
            exception.HostNotPrepared, lxc.check_children, self.files
        )
        self.assertIn('CONFIG_PROC_CHILDREN=y', str(err))
        (self.task / 'children').touch()
        lxc.check_children(self.files)

    def test_fuse(self):
        known = self.files.proc / 'filesystems'
        known.write_text('nodev\tsysfs\n\text4\nnodev\tfusectl\n')
        self.assertIn('CONFIG_FUSE_FS', lxc.find_no_fuse(self.files))
        self.files.dev.mkdir()
        (self.files.dev / 'fuse').touch()
        self.assertIsNone(lxc.find_no_fuse(self.files))
        (self.files.dev / 'fuse').unlink()
        known.write_text('nodev\tsysfs\nnodev\tfuse\n')
        self.assertIsNone(lxc.find_no_fuse(self.files))
