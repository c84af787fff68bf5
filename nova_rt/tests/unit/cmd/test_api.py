# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.cmd.api and of the WSGI entry, in processes of their own.

Both read the global configuration when they start.
"""

import os
import pathlib
import subprocess
import sys

import fixtures
from oslotest import base

_ASK = """
from werkzeug import test
from nova_rt.rest.wsgi import application
client = test.Client(application)
print(*(client.get(path).status_code for path in ('/healthcheck', '/v1')))
"""
_CONF = """
[keystone_authtoken]
www_authenticate_uri = http://keystone
[nova_rt_database]
connection = sqlite://
"""


class ProcessTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.path = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def run_python(self, *words, **variables):
        """Run Python.

        :returns: exit code, the last line of its output, its errors
        """
        environment = {'PATH': os.environ['PATH'], 'HOME': str(self.path)}
        environment['PYTHONPATH'] = os.pathsep.join(sys.path)
        done = subprocess.run(
            [sys.executable, *words],
            env=environment | variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        lines = done.stdout.splitlines() or ['']
        return done.returncode, lines[-1], done.stderr

    def test_wsgi(self):
        (self.path / 'one.conf').write_text('[DEFAULT]\ndebug = false\n')
        (self.path / 'two.conf').write_text(_CONF)
        code, out, err = self.run_python(
            '-c', _ASK,
            OS_NOVA_CONFIG_DIR=str(self.path),
            OS_NOVA_CONFIG_FILES='one.conf;two.conf',
        )  # fmt: skip
        self.assertEqual((0, '200 200'), (code, out), err)

    def test_wsgi_alone(self):
        """It finds its files by itself, also where there is one only."""
        (self.path / 'nova.conf').write_text('[DEFAULT]\ndebug = false\n')
        own = self.path / 'nova-rt-api.conf'
        own.write_text(_CONF)
        for _ in range(2):
            code, out, err = self.run_python(
                '-c', _ASK, OS_NOVA_CONFIG_DIR=str(self.path)
            )
            self.assertEqual((0, '200 200'), (code, out), err)
            if own.exists():
                own.rename(self.path / 'nova.conf')

    def test_cannot_start(self):
        path = self.path / 'one.conf'
        path.write_text('[DEFAULT]\ndebug = false\n')
        code, _, err = self.run_python(
            '-m', 'nova_rt.cmd.api', f'--config-file={path}'
        )
        self.assertEqual(
            (1, 'nova-rt-api cannot start: [nova_rt_database] connection is '
             'not set'),
            (code, err.splitlines()[-1]),
        )  # fmt: skip
