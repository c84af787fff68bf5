# SPDX-License-Identifier: Apache-2.0
"""nova-rt-manage audit as a program, with nothing of Nova set up for it."""

import json
import os
import pathlib
import subprocess
import sys

import fixtures
from nova.db.api import models as api_models
from nova.db.main import models as cell_models
from oslotest import base
import sqlalchemy

NODE = '8a3d8f0e-0c55-4a9b-8a3f-d1d1c4f5a001'
GONE = '8a3d8f0e-0c55-4a9b-8a3f-d1d1c4f5a0ff'


# One resource provider, whose allocations nobody can explain. A process of its
# own: threads are green where Nova's tests have patched them.
_PLACEMENT = """
import http.server, json, sys

NODE, GONE = sys.argv[1:]
version = {'id': 'v1.0', 'min_version': '1.0', 'max_version': '1.39',
           'status': 'CURRENT', 'links': [{'rel': 'self', 'href': ''}]}
held = {GONE: {'resources': {'CUSTOM_RT_BANDWIDTH': 7}}}
answers = {
    '/': {'versions': [version]},
    f'/resource_providers/{NODE}/allocations': {'allocations': held},
    f'/resource_providers/{NODE}/inventories': {'inventories': {}},
}

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps(answers.get(self.path, {})).encode()
        self.send_response(200 if self.path in answers else 404)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass

server = http.server.HTTPServer(('127.0.0.1', 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


class ProgramTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        api = self.database('api', api_models.BASE.metadata)
        cell = self.database('cell', cell_models.BASE.metadata)
        with api.begin() as connection:
            connection.execute(
                api_models.CellMapping.__table__.insert().values(
                    uuid='8a3d8f0e-0c55-4a9b-8a3f-d1d1c4f5a0ce', name='cell',
                    # What Nova fills in from its own options.
                    transport_url='{scheme}://{username}@{hostname}:1/',
                    database_connection=str(cell.url), disabled=False,
                )
            )  # fmt: skip
        with cell.begin() as connection:
            connection.execute(
                cell_models.ComputeNode.__table__.insert().values(
                    uuid=NODE, host='host1', hypervisor_hostname='host1',
                    vcpus=1, memory_mb=1, local_gb=1, vcpus_used=0,
                    memory_mb_used=0, local_gb_used=0, hypervisor_type='LXC',
                    hypervisor_version=1, cpu_info='', deleted=0,
                )
            )  # fmt: skip

    def database(self, name, metadata):
        engine = sqlalchemy.create_engine(
            f'sqlite:///{self.directory}/{name}.sqlite'
        )
        metadata.create_all(engine)
        return engine

    def audit(self, endpoint):
        path = self.directory / 'nova.conf'
        path.write_text(
            '[DEFAULT]\n'
            'transport_url = rabbit://nova:secret@127.0.0.1:1/\n'
            '[api_database]\n'
            f'connection = sqlite:///{self.directory}/api.sqlite\n'
            '[placement]\n'
            'auth_type = admin_token\n'
            'token = secret\n'
            f'endpoint = {endpoint}\n'
            f'endpoint_override = {endpoint}\n'
        )
        return subprocess.run(
            [
                *(sys.executable, '-m', 'nova_rt.manage.app'),
                *('--config-file', str(path), 'audit', '-f', 'json'),
            ],
            env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=60,
        )

    def test_finds_what_is_wrong(self):
        server = subprocess.Popen(
            [sys.executable, '-c', _PLACEMENT, NODE, GONE],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(server.communicate)
        self.addCleanup(server.kill)
        port = int(server.stdout.readline())
        done = self.audit(f'http://127.0.0.1:{port}/')
        self.assertEqual(1, done.returncode, done.stderr)
        (found,) = json.loads(done.stdout)
        self.assertEqual(
            ('host1', GONE, 'placement'),
            (found['Host'], found['Server'], found['Source']),
        )
        self.assertIn('Compared 0 server(s) on 1 host(s)', done.stderr)

    def test_placement_is_down(self):
        done = self.audit('http://127.0.0.1:1/')
        self.assertEqual((2, ''), (done.returncode, done.stdout))
        self.assertIn('cannot audit: Placement', done.stderr)
        self.assertNotIn('secret', done.stderr)
        self.assertNotIn('Traceback', done.stderr)

    def test_database_without_tables(self):
        (self.directory / 'api.sqlite').unlink()
        done = self.audit('http://127.0.0.1:1/')
        self.assertEqual((2, ''), (done.returncode, done.stdout))
        self.assertIn('cannot audit: the database', done.stderr)
