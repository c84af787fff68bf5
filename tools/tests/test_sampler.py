# SPDX-License-Identifier: Apache-2.0
"""The sampler of the kernel, on files like the kernel's."""

import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from lab.measure import course, sampler
from lab.measure.course import Course

ALL = course.budgets({0: 950_000, 1: 950_000}, None)
HOST = course.budgets({0: 950_000, 1: 950_000}, 950_000)

# Samples files below argv[1], every 5 ms.
_PROGRAM = """
import pathlib, sys
from lab.measure import sampler
tree = sampler.Tree(pathlib.Path(sys.argv[1]) / 'cpu',
                    pathlib.Path(sys.argv[1]) / 'cpuset', ('machine',))
with open(sys.argv[2], 'w') as output:
    sampler.watch(tree, output, 5_000_000)
"""


class FilesTest(unittest.TestCase):
    """A tree of plain files."""

    def setUp(self):
        super().setUp()
        self.top = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.top)
        self.tree = sampler.Tree(
            self.top / 'cpu', self.top / 'cpuset', ('machine',)
        )
        for top in (self.tree.cpu, self.tree.cpuset):
            (top / 'machine').mkdir(parents=True)
        (self.tree.cpuset / 'machine' / 'cpuset.cpus').write_text('0-1\n')

    def put(self, name, runtime_us, cpus, period_us=100_000):
        # As in the kernel, no file is ever seen half written, and no group
        # without its files.
        self.write(self.tree.cpuset / 'machine' / name, {'cpuset.cpus': cpus})
        self.write(
            self.tree.cpu / 'machine' / name,
            {'cpu.rt_period_us': period_us, 'cpu.rt_runtime_us': runtime_us},
        )

    def write(self, group, files):
        new = self.top / 'new'
        new.mkdir()
        for file, value in files.items():
            (new / file).write_text(f'{value}\n')
        if not group.exists():
            new.rename(group)
            return
        for file in files:
            (new / file).rename(group / file)
        new.rmdir()

    def remove(self, name):
        for top in (self.tree.cpu, self.tree.cpuset):
            shutil.rmtree(top / 'machine' / name)


class WatchTest(FilesTest):
    """The program itself."""

    def watch(self, *steps):
        """Run it, take steps meanwhile, and return its course."""
        file = self.top / 'samples'
        child = subprocess.Popen(
            [sys.executable, '-c', _PROGRAM, self.top, file],
            cwd=pathlib.Path(__file__).parents[2],
        )
        try:
            for step in (lambda: None, *steps):
                step()
                self.see(file)
        finally:
            child.send_signal(signal.SIGTERM)
            child.wait(10)
        return Course.read(file)

    def see(self, file):
        """Wait until it has seen the present state."""
        wanted = sampler._plain(self.tree.read({}))
        deadline = time.monotonic() + 30
        while True:
            lines = file.read_text().splitlines() if file.exists() else []
            if lines and json.loads(lines[-1])['groups'] == wanted:
                return
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_finds_overcommitment(self):
        seen = self.watch(
            lambda: self.put('a', 60_000, '0'),
            lambda: self.put('b', 40_000, '1'),
            lambda: self.put('c', 35_100, '0-1'),
            lambda: self.remove('c'),
        )
        self.assertEqual(5, len(seen.states))
        self.assertGreaterEqual(seen.samples, 5)
        self.assertGreater(seen.longest_ns, 0)
        (found,) = seen.over(ALL)
        self.assertIn('CPU 0 was to hold at most 950000 ppm, held 951000',
                      found)  # fmt: skip
        # A kernel that sums over the host has no room for b either.
        self.assertEqual(4, len(seen.over(HOST)))
        self.assertEqual(951_000, seen.most(ALL[0]))

    def test_finds_what_was_lost_for_a_moment(self):
        self.put('a', 20_000, '0')
        seen = self.watch(
            lambda: self.put('a', 10_000, '0'),
            lambda: self.put('a', 20_000, '0'),
        )
        self.assertEqual(3, len(seen.changes('machine/a')))
        (drop,) = seen.drops()
        self.assertIn('20000/100000 on 0 became 10000/100000 on 0', drop)
        self.assertEqual([], seen.over(ALL))

    def test_finds_another_cpu(self):
        self.put('a', 20_000, '0')
        seen = self.watch(lambda: self.put('a', 20_000, '1'))
        self.assertEqual(2, len(seen.changes('machine/a')))

    def test_start_and_end_are_no_loss(self):
        seen = self.watch(
            lambda: self.put('a', 0, '0-1'),
            lambda: self.put('a', 20_000, '0'),
            lambda: self.remove('a'),
        )
        self.assertEqual([], seen.drops())
        changes = seen.changes('machine/a')
        self.assertEqual(2, len(changes))
        self.assertIn('gone', changes[1])

    def test_killed(self):
        file = self.top / 'samples'
        file.write_text(json.dumps({'t': 1, 'groups': {}}) + '\n')
        with self.assertRaisesRegex(ValueError, 'did not run to its end'):
            Course.read(file)
