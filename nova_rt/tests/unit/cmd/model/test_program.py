# SPDX-License-Identifier: Apache-2.0
"""nova-rt-model as users start it, and what it loads for an answer."""

from importlib import metadata
import os
import pathlib
import subprocess
import sys

from nova_rt.cmd.model import app
from nova_rt.tests.unit.cmd.model import base

# What takes longer to load than an answer may take.
HEAVY = ('nova', 'numpy', 'scipy', 'matplotlib', 'sqlalchemy',
         'cmd2', 'rich', 'oslo_config', 'oslo_log', 'libvirt')  # fmt: skip
TOP = pathlib.Path(app.__file__).parents[3]


class ProgramTest(base.TestCase):
    def loaded(self, *words):
        """Heavy modules that a command leaves loaded."""
        code = (
            'import sys; from nova_rt.cmd.model import app; '
            'code = app.main(sys.argv[2:]); '
            'print(*[name for name in sys.argv[1].split() '
            'if name in sys.modules]); sys.exit(code)'
        )
        result = subprocess.run(
            [sys.executable, '-c', code, ' '.join((*HEAVY, 'yaml')), *words],
            env={**os.environ, 'PYTHONPATH': self.path()},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        self.assertEqual(0, result.returncode, result.stderr)
        return result.stdout.splitlines()[-1].split()

    @staticmethod
    def path():
        return os.pathsep.join([str(TOP), *filter(None, sys.path)])

    def test_answers_load_nothing_heavy(self):
        about = ('--service-time=1ms', '--percentile=99', '-f', 'value')
        words = ('latency', '--reservation=744/1000', '--rate=500/s')
        for more in ((), ('--split', '--vcpus=2')):
            self.assertEqual([], self.loaded(*words, *about, *more))
        # Which simulates what a swinging rate does.
        words = ('reservation', '--rate=500/s', '--deadline=20ms')
        self.assertEqual(['numpy'], self.loaded(*words, *about))
        path = self.write(
            'x.yaml',
            'hosts: [{cpus: 1}]\nservices: [{reservation: 2/1000}]\n',
        )
        self.assertEqual(['yaml'], self.loaded('plan', path, '-f', 'value'))

    def test_help(self):
        commands = metadata.entry_points(group=app.App.COMMANDS).names
        self.assertIn('reservation', commands)
        for name in commands:
            result = self.run_it(f'{name} --help')
            self.assertEqual((0, ''), (result.code or 0, result.err))
            self.assertIn('usage: nova-rt-model', result.out)
