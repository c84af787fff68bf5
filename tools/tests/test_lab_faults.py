# SPDX-License-Identifier: Apache-2.0
"""Basis of the lab's tests of faults, without a lab."""

import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from lab import edition, paths
from lab.service import Service
from lab.tests import test_kills

_MODULE = """
class Thing:
    def work(self):
        print('work', flush=True)

class Special(Thing):
    pass
"""
_PROGRAM = """
import pathlib, sys
from lab.programs import mortal_compute
import thing
mortal_compute.Step(pathlib.Path(sys.argv[1]), 'thing:Special.work').wrap()
print('begin', flush=True)
thing.Thing().work()
for _ in range(2):
    thing.Special().work()
print('end', flush=True)
"""


class MortalTest(unittest.TestCase):
    """A process that dies where it is told to, once."""

    def setUp(self):
        super().setUp()
        self.top = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.top)
        (self.top / 'thing.py').write_text(_MODULE)
        self.at = self.top / 'die-at'

    def live(self, text):
        self.at.write_text(text)
        done = subprocess.run(
            [sys.executable, '-c', _PROGRAM, self.at],
            env={'PYTHONPATH': f'{paths.CHECKOUT}:{self.top}'},
            cwd=self.top,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout.split()

    def test_lives(self):
        for text in ('', 'thing:Thing.work before'):
            self.assertEqual(
                (0, ['begin', 'work', 'work', 'work', 'end']), self.live(text)
            )

    def test_dies_before(self):
        self.assertEqual(
            (-signal.SIGKILL, ['begin', 'work']),
            self.live('thing:Special.work before'),
        )
        self.assertEqual('', self.at.read_text())

    def test_dies_after(self):
        self.assertEqual(
            (-signal.SIGKILL, ['begin', 'work', 'work']),
            self.live('thing:Special.work after'),
        )


class StepsTest(unittest.TestCase):
    """The steps at which nova-rt-compute is killed."""

    def test_methods_are_there(self):
        # Apart: it prepares the process as nova-compute does.
        program = """
import sys
from lab.programs import mortal_compute
mortal_compute.hooks.extend_nova_virt()
for name in sys.argv[1:]:
    mortal_compute.Step(None, name).wrap()
"""
        words = [sys.executable, '-W', 'ignore', '-c', program]
        subprocess.run(
            [*words, *test_kills.METHODS], cwd=paths.CHECKOUT, check=True
        )

    def test_names(self):
        names = [name for steps in test_kills.STEPS for name in steps]
        self.assertEqual(len(names), len(set(names)))
        self.assertLessEqual(test_kills.SHORT, set(names))


class EditionTest(unittest.TestCase):
    """Services of another environment."""

    def test_commands(self):
        top = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, top)
        (top / 'bin').mkdir()
        other = edition.Edition(top, '1')
        service = Service(
            'x', ('env', paths.VENV / 'bin' / 'privsep-helper', '--quiet')
        )
        helper = top / 'bin' / 'privsep-helper'
        self.assertEqual(
            ('env', str(helper), '--quiet'), other.put_in(service).command
        )
        self.assertTrue(helper.read_text().startswith(f'#!{top}/bin/python\n'))
        self.assertEqual(
            service.command[1],
            pathlib.Path(
                edition.Edition(paths.VENV, '1').put_in(service).command[1]
            ),
        )
