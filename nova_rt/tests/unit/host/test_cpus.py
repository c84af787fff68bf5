# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.host.cpus."""

from oslotest import base

from nova_rt import exception
from nova_rt.host import cpus
from nova_rt.tests.fixtures import kernel


class CPUsTest(base.BaseTestCase):
    def _files(self, **kwargs):
        return self.useFixture(kernel.make(**kwargs)).files

    def test_all(self):
        files = self._files(cpus=4)
        self.assertEqual((0, 1, 2, 3), cpus.choose_offered(files, None, False))

    def test_chosen(self):
        files = self._files(cpus=4)
        self.assertEqual((1, 3), cpus.choose_offered(files, '1,3', False))

    def test_one_thread_of_a_core(self):
        files = self._files(cpus=4, threads=2)
        self.assertEqual((0, 2), cpus.choose_offered(files, None, False))
        self.assertEqual((0, 1, 2, 3), cpus.choose_offered(files, None, True))

    def test_the_first_chosen_thread_of_a_core(self):
        files = self._files(cpus=4, threads=2)
        self.assertEqual((1, 2), cpus.choose_offered(files, '1-3', False))

    def test_without_topology(self):
        files = self._files(cpus=2)
        cpu = files.sys / 'devices/system/cpu/cpu1/topology'
        (cpu / 'thread_siblings_list').unlink()
        self.assertEqual((0, 1), cpus.choose_offered(files, None, False))

    def _nodes(self, offered, nodes):
        files = self._files(cpus=8, nodes=nodes)
        return cpus.read_nodes(files, offered)

    def test_nodes(self):
        self.assertEqual(
            {0: (0, 2), 1: (5,)},
            self._nodes((0, 2, 5), [range(4), range(4, 8)]),
        )

    def test_nodes_with_cpus_in_turn(self):
        self.assertEqual(
            {0: (2, 4), 1: (1, 7)},
            self._nodes((1, 2, 4, 7), [range(0, 8, 2), range(1, 8, 2)]),
        )

    def test_nodes_of_memory_alone(self):
        self.assertEqual(
            {0: (0,), 2: (4,)},
            self._nodes((0, 4), [range(4), (), range(4, 8)]),
        )

    def test_one_node(self):
        for offered, nodes in (
            (range(8), None), (range(8), [range(8)]),
            ((4, 5), [range(4), range(4, 8)]), ((), [range(4), range(4, 8)]),
        ):  # fmt: skip
            self.assertEqual({}, self._nodes(offered, nodes))

    def test_not_online(self):
        files = self._files(cpus=4)
        err = self.assertRaises(
            exception.HostNotPrepared, cpus.choose_offered, files, '2-9', False
        )
        self.assertIn('names CPUs 4-9 that are not online', str(err))
        self.assertIn('online are 0-3', str(err))

    def test_no_list(self):
        files = self._files()
        for text in ('', 'x', '3-1', '1, 2'):
            self.assertRaises(
                exception.HostNotPrepared,
                cpus.choose_offered,
                files,
                text,
                False,
            )
