# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.host.cpus."""

import ddt
from oslotest import base

from nova_rt import exception
from nova_rt.host import cpus
from nova_rt.tests.fixtures import kernel

#: The machine of the manual: 8 cores, whose threads are n and n+8.
MANUAL = 16, None


@ddt.ddt
class CPUsTest(base.BaseTestCase):
    def _files(self, count, threads=1, **kwargs):
        """Make a machine.

        :param threads: of a core; None if CPUs are numbered core by core
        """
        machine = self.useFixture(
            kernel.make(cpus=count, threads=threads or 1, **kwargs)
        )
        if threads is None:
            machine.number_by_core()
        return machine.files

    @ddt.data(
        ((4, 1), None, {}, (0, 1, 2, 3)),
        ((4, 1), '1,3', {}, (1, 3)),
        ((4, 1), '1, 3', {}, (1, 3)),
        ((4, 1), '1-3,^2', {}, (1, 3)),
        ((4, 1), ' 0-3 , ^2, ^0 ', {}, (1, 3)),
        # One thread of a core, the first that was chosen.
        ((4, 2), None, {}, (0, 2)),
        ((4, 2), '1-3', {}, (1, 2)),
        # CPUs 8 and 9 are threads of the cores of plain servers.
        (MANUAL, '2-15', {'shared': '0-1'}, (2, 3, 4, 5, 6, 7),
         {'shared': (8, 9)}),
        (MANUAL, '4-9', {'shared': '0', 'own': '1,10-12'}, (5, 6, 7),
         {'own': (4, 9), 'shared': (8,)}),
        # Every thread of a shared core is named.
        ((8, 4), '1-7', {'shared': '0'}, (4,), {'shared': (1, 2, 3)}),
        # Nobody is kept off threads in no set, and nobody is given them.
        (MANUAL, '2-7', {'shared': '0-1'}, (2, 3, 4, 5, 6, 7)),
        # CPUs of others are not taken by default.
        (MANUAL, None, {'shared': '0-1', 'own': '2-4,^3'}, (3, 5, 6, 7),
         {'shared': (8, 9), 'own': (10, 12)}),
    )  # fmt: skip
    @ddt.unpack
    def test_one_thread(self, machine, cpu_set, others, offered, beside=()):
        found = cpus.choose(self._files(*machine), cpu_set, False, others)
        self.assertEqual(offered, found.offered)
        self.assertEqual(dict(beside), found.beside)

    def test_beside(self):
        found = cpus.Choice((2, 3), {'shared': (8, 9), 'own': (4,)})
        self.assertEqual(
            '8-9 (on cores of CPUs in shared), 4 (on cores of CPUs in own)',
            found.describe_beside(),
        )

    def test_all_threads_are_wanted(self):
        for cpu_set, first in (('2-15', 2), (None, 2), ('4-15', 4)):
            found = cpus.choose(
                self._files(*MANUAL), cpu_set, True, {'shared': '0-1'}
            )
            self.assertEqual(tuple(range(first, 16)), found.offered)
            self.assertEqual('', found.describe_beside())

    @ddt.data(
        # Overlaps.
        ((8, 1), '2-7', {'shared': '0-2'}, 'cpu_set = 2-7',
         '2 are in shared'),
        ((8, 1), '2-7', {'shared': '0-1,4', 'own': '5-9,^6'},
         'cpu_set = 2-7', '4 are in shared', '5,7 are in own'),
        # Nothing is left.
        ((4, 2), None, {'shared': '0-7'}, 'no CPU is left',
         '0-7 are in shared', 'take some out'),
        # No lists.
        ((4, 1), None, {'shared': '0-x'}, 'shared: '),
        *(((4, 1), text, {}, 'cpu_set')
          for text in ('', 'x', '3-1', '1; 2', '^1')),
        ((4, 1), '2-9', {}, 'names CPUs 4-9 that are not online',
         'online are 0-3'),
    )  # fmt: skip
    @ddt.unpack
    def test_refused(self, machine, cpu_set, others, *texts):
        files = self._files(*machine)
        for smt in (True, False):
            err = self.assertRaises(
                exception.HostNotPrepared,
                cpus.choose, files, cpu_set, smt, others,
            )  # fmt: skip
            for text in texts:
                self.assertIn(text, str(err))

    def test_no_core_is_left(self):
        files = self._files(4, 2)
        for cpu_set in ('1,3', None):
            err = self.assertRaises(
                exception.HostNotPrepared,
                cpus.choose, files, cpu_set, False, {'shared': '0,2'},
            )  # fmt: skip
            for text in ('no CPU is left', '1,3 (on cores of', 'smt = true'):
                self.assertIn(text, str(err))

    def test_without_topology(self):
        files = self._files(2)
        cpu = files.sys / 'devices/system/cpu/cpu1/topology'
        (cpu / 'thread_siblings_list').unlink()
        self.assertEqual((0, 1), cpus.choose(files, None, False, {}).offered)

    def test_nodes(self):
        halves = [range(4), range(4, 8)]
        for offered, nodes, expected in (
            ((0, 2, 5), halves, {0: (0, 2), 1: (5,)}),
            # CPUs in turn.
            ((1, 2, 4, 7), [range(0, 8, 2), range(1, 8, 2)],
             {0: (2, 4), 1: (1, 7)}),
            # A node of memory alone.
            ((0, 4), [range(4), (), range(4, 8)], {0: (0,), 2: (4,)}),
            # One node.
            (range(8), None, {}),
            (range(8), [range(8)], {}),
            ((4, 5), halves, {}),
            ((), halves, {}),
        ):  # fmt: skip
            files = self._files(8, nodes=nodes)
            self.assertEqual(expected, cpus.read_nodes(files, offered))
