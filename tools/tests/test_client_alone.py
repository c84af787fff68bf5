# SPDX-License-Identifier: Apache-2.0
"""``openstack rt`` in a virtual environment without Nova and nova_rt."""

import http.server
import json
import os
import pathlib
import subprocess
import tempfile
import threading
import unittest
import venv

from tools.install import standins

UUID = '2f0b0a5e-3b1c-4f6a-9d0e-7c1a54f3c001'
_RUNTIME = {'runtime_us': 20000, 'period_us': 100000}
_STATE = {
    'server_id': UUID,
    'project_id': 'p',
    'state': 'held',
    'host': None,
    'cpus': None,
    'vcpus': 1,
    'generation': 3,
    'desired': _RUNTIME,
    'allocated': _RUNTIME,
    'actual': _RUNTIME,
    'on_no_room': 'fail',
    'condition': {
        'type': 'Applied', 'since': None, 'reason': '', 'asked_ppm': None,
        'free_ppm': None, 'rule': None,
    },
}  # fmt: skip


class _API(http.server.BaseHTTPRequestHandler):
    """Answers each request with one reservation."""

    def do_GET(self):
        text = json.dumps({'reservation': _STATE}).encode()
        self.send_response(200)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *words):
        pass


class AloneTest(unittest.TestCase):
    """An environment with the client and all that it requires."""

    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(place.cleanup)
        cls.home = pathlib.Path(place.name)
        venv.create(cls.home / 'venv', symlinks=True)
        cls.python = cls.home / 'venv/bin/python'
        (packages,) = (cls.home / 'venv').glob('lib/python3*/site-packages')
        for distribution in standins.closure(['nova-rt-client']):
            for file in distribution.files or ():
                if '..' not in file.parts:
                    (packages / file).parent.mkdir(parents=True, exist_ok=True)
                    os.symlink(distribution.locate_file(file), packages / file)

    def run_python(self, *words):
        return subprocess.run(
            [self.python, '-I', *words],
            cwd=self.home,
            env={'HOME': str(self.home), 'PATH': '/usr/bin:/bin'},
            capture_output=True,
            text=True,
            check=False,
        )

    def openstack(self, *words):
        done = self.run_python('-m', 'openstackclient.shell', *words)
        self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout

    def test_neither_is_there(self):
        for name in ('nova', 'nova_rt', 'oslo_messaging'):
            done = self.run_python('-c', f'import {name}')
            self.assertIn('ModuleNotFoundError', done.stderr, name)

    def test_help(self):
        found = self.openstack('help', 'rt', 'reservation', 'set')
        self.assertIn('--on-no-room', found)

    def test_show(self):
        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), _API)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        url = f'http://127.0.0.1:{server.server_port}'
        text = self.openstack(
            '--os-auth-type', 'none', '--os-endpoint', url,
            'rt', 'reservation', 'show', UUID, '-f', 'json',
        )  # fmt: skip
        found = json.loads(text)
        self.assertEqual(
            ('20000/100000', 'Applied', 3),
            (found['allocated'], found['condition'], found['generation']),
        )
