# SPDX-License-Identifier: Apache-2.0
"""The sampler of the kernel, on files like the kernel's."""

import json
import pathlib
import shutil
import tempfile
import unittest

from lab.measure import course, sampler

ALL = course.budgets({0: 950_000, 1: 950_000}, None)
HOST = course.budgets({0: 950_000, 1: 950_000}, 950_000)


class CourseTest(unittest.TestCase):
    """A course of readings of plain files."""

    def setUp(self):
        super().setUp()
        self.top = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.top)
        self.cpu, self.cpuset = self.top / 'cpu', self.top / 'cpuset'
        for top in (self.cpu, self.cpuset):
            (top / 'machine').mkdir(parents=True)
        (self.cpuset / 'machine/cpuset.cpus').write_text('0-1\n')

    def put(self, name, runtime_us, cpus):
        for top, file, text in (
            (self.cpuset, 'cpuset.cpus', cpus),
            (self.cpu, 'cpu.rt_period_us', '100000'),
            (self.cpu, 'cpu.rt_runtime_us', str(runtime_us)),
        ):
            (top / 'machine' / name).mkdir(exist_ok=True)
            (top / 'machine' / name / file).write_text(f'{text}\n')

    def remove(self, name, *tops):
        for top in tops or (self.cpu, self.cpuset):
            shutil.rmtree(top / 'machine' / name)

    def watch(self, *steps):
        """Return the course of readings, one after each step."""
        tree = sampler.Tree(self.cpu, self.cpuset, ('machine',))
        states, groups = [], {}
        for t, step in enumerate(steps):
            step()
            groups = tree.read(groups)
            states.append((t, groups))
        return course.Course(tuple(states), len(states), 1, 0, len(states))

    def test_finds_overcommitment(self):
        seen = self.watch(
            lambda: self.put('a', 60_000, '0'),
            lambda: self.put('b', 40_000, '1'),
            lambda: self.put('c', 35_100, '0-1'),
            lambda: self.remove('c'),
        )
        (found,) = seen.over(ALL)
        self.assertIn('CPU 0 was to hold at most 950000 ppm, held 951000',
                      found)  # fmt: skip
        # A kernel that sums over the host has no room for b either.
        self.assertEqual(4, len(seen.over(HOST)))
        self.assertEqual(951_000, seen.most(ALL[0]))

    def test_changes(self):
        """A loss for a moment, and other CPUs; no start and no end."""
        put = self.put
        for steps, drops, changes in (
            ((20_000, 10_000, 20_000), 1, 3),
            ((20_000, 20_000), 0, 1),
            ((0, 20_000, None), 0, 2),
        ):
            with self.subTest(steps):
                seen = self.watch(*(
                    (lambda us=us: put('a', us, '0'))
                    if us is not None else lambda: self.remove('a')
                    for us in steps
                ))  # fmt: skip
                self.assertEqual(drops, len(seen.drops()))
                self.assertEqual(changes, len(seen.changes('machine/a')))
        self.assertIn('gone', seen.changes('machine/a')[1])
        self.put('a', 20_000, '0')
        seen = self.watch(lambda: None, lambda: self.put('a', 20_000, '1'))
        self.assertEqual(2, len(seen.changes('machine/a')))
        # The group goes from one hierarchy after the other.
        seen = self.watch(lambda: None, lambda: self.remove('a', self.cpuset))
        self.assertEqual(1, len(seen.changes('machine/a')))

    def test_killed(self):
        file = self.top / 'samples'
        file.write_text(json.dumps({'t': 1, 'groups': {}}) + '\n')
        with self.assertRaisesRegex(ValueError, 'did not run to its end'):
            course.Course.read(file)
