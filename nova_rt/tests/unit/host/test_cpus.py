# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.host.cpus."""

from oslotest import base

from nova_rt import exception
from nova_rt.host import cpus
from nova_rt.tests.fixtures import kernel


class CPUsTest(base.BaseTestCase):
    def _files(self, **kwargs):
        return self.useFixture(kernel.make(**kwargs)).files

    @staticmethod
    def offered(files, cpu_set, smt, **others):
        return cpus.choose(files, cpu_set, smt, others).offered

    def test_all(self):
        files = self._files(cpus=4)
        self.assertEqual((0, 1, 2, 3), self.offered(files, None, False))

    def test_chosen(self):
        files = self._files(cpus=4)
        for text in ('1,3', '1, 3', '1-3,^2', ' 0-3 , ^2, ^0 '):
            self.assertEqual((1, 3), self.offered(files, text, False), text)

    def test_one_thread_of_a_core(self):
        files = self._files(cpus=4, threads=2)
        self.assertEqual((0, 2), self.offered(files, None, False))
        self.assertEqual((0, 1, 2, 3), self.offered(files, None, True))

    def test_the_first_chosen_thread_of_a_core(self):
        files = self._files(cpus=4, threads=2)
        self.assertEqual((1, 2), self.offered(files, '1-3', False))

    def _manual(self):
        """The machine of the manual: 8 cores, whose threads are n and n+8."""
        machine = self.useFixture(kernel.make(cpus=16))
        machine.number_by_core()
        return machine.files

    def test_cores_of_which_others_have_a_thread(self):
        """CPUs 8 and 9 are threads of the cores of plain servers."""
        found = cpus.choose(self._manual(), '2-15', False, {'shared': '0-1'})
        self.assertEqual((2, 3, 4, 5, 6, 7), found.offered)
        self.assertEqual({'shared': (8, 9)}, found.beside)
        self.assertEqual(
            '8-9 (on cores of CPUs in shared)', found.describe_beside()
        )

    def test_several_owners(self):
        found = cpus.choose(
            self._manual(), '4-9', False, {'shared': '0', 'own': '1,10-12'}
        )
        self.assertEqual((5, 6, 7), found.offered)
        self.assertEqual({'own': (4, 9), 'shared': (8,)}, found.beside)

    def test_every_thread_of_a_shared_core_is_named(self):
        files = self._files(cpus=8, threads=4)
        found = cpus.choose(files, '1-7', False, {'shared': '0'})
        self.assertEqual((4,), found.offered)
        self.assertEqual({'shared': (1, 2, 3)}, found.beside)

    def test_all_threads_are_wanted(self):
        found = cpus.choose(self._manual(), '2-15', True, {'shared': '0-1'})
        self.assertEqual(tuple(range(2, 16)), found.offered)
        self.assertEqual('', found.describe_beside())

    def test_threads_that_are_in_no_set(self):
        """Nobody is kept off them, and nobody is given them."""
        found = cpus.choose(self._manual(), '2-7', False, {'shared': '0-1'})
        self.assertEqual((2, 3, 4, 5, 6, 7), found.offered)
        self.assertEqual({}, found.beside)

    def test_what_others_have_is_not_taken_by_default(self):
        found = cpus.choose(
            self._manual(), None, False, {'shared': '0-1', 'own': '2-4,^3'}
        )
        self.assertEqual((3, 5, 6, 7), found.offered)
        self.assertEqual({'shared': (8, 9), 'own': (10, 12)}, found.beside)

    def test_overlaps(self):
        files = self._files(cpus=8)
        for others, texts in (
            ({'shared': '0-2'}, ['2 are in shared']),
            ({'shared': '0-1,4', 'own': '5-9,^6'},
             ['4 are in shared', '5,7 are in own']),
        ):  # fmt: skip
            for smt in (True, False):
                err = self.assertRaises(
                    exception.HostNotPrepared, cpus.choose, files, '2-7', smt,
                    others,
                )  # fmt: skip
                for text in ('cpu_set = 2-7', *texts):
                    self.assertIn(text, str(err))

    def test_nothing_is_left(self):
        files = self._files(cpus=4, threads=2)
        for cpu_set, smt, theirs, texts in (
            (None, False, '0-3', ['0-3 are in shared', 'take some out']),
            (None, True, '0-7', ['0-7 are in shared', 'take some out']),
            ('1,3', False, '0,2', ['1,3 (on cores of', 'smt = true']),
            (None, False, '0,2', ['1,3 (on cores of', 'smt = true']),
        ):
            err = self.assertRaises(
                exception.HostNotPrepared, cpus.choose, files, cpu_set, smt,
                {'shared': theirs},
            )  # fmt: skip
            for text in ('no CPU is left', *texts):
                self.assertIn(text, str(err))

    def test_no_list_of_others(self):
        err = self.assertRaises(
            exception.HostNotPrepared, cpus.choose, self._files(cpus=4), None,
            False, {'shared': '0-x'},
        )  # fmt: skip
        self.assertIn('shared: ', str(err))

    def test_without_topology(self):
        files = self._files(cpus=2)
        cpu = files.sys / 'devices/system/cpu/cpu1/topology'
        (cpu / 'thread_siblings_list').unlink()
        self.assertEqual((0, 1), self.offered(files, None, False))

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
            exception.HostNotPrepared, self.offered, files, '2-9', False
        )
        self.assertIn('names CPUs 4-9 that are not online', str(err))
        self.assertIn('online are 0-3', str(err))

    def test_no_list(self):
        files = self._files()
        for text in ('', 'x', '3-1', '1; 2', '^1'):
            self.assertRaises(
                exception.HostNotPrepared,
                self.offered,
                files,
                text,
                False,
            )
