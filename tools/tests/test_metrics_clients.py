# SPDX-License-Identifier: Apache-2.0
"""nova_rt.metrics.server, by clients of all kinds.

Not among the unit tests: there, Nova's fixtures may replace threads by green
ones, which programs that serve metrics never have.
"""

import contextlib
import http.client
import pathlib
import socket
import ssl
import subprocess
import threading

import fixtures
from oslotest import base

from nova_rt.metrics import server

TEXT = b'# HELP a b\n'


class ServerTest(base.BaseTestCase):
    def serve(self, make=lambda: TEXT, tls=None):
        serving = server.MetricsServer(
            ('127.0.0.1', 0), server.Page(make, 60), 'nova-rt-test', tls
        )
        thread = threading.Thread(
            target=serving.serve_forever, kwargs={'poll_interval': 0.05}
        )
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(serving.server_close)
        self.addCleanup(serving.shutdown)
        return serving.server_address[1]

    def get(self, port, path='/metrics', tls=None, method='GET'):
        if tls is None:
            client = http.client.HTTPConnection('127.0.0.1', port, timeout=5)
        else:
            client = http.client.HTTPSConnection(
                '127.0.0.1', port, timeout=5, context=tls
            )
        with contextlib.closing(client):
            client.request(method, path)
            answer = client.getresponse()
            return answer.status, answer.read()

    def make_certificates(self):
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        for name in ('ours', 'others'):
            subprocess.run(
                ['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt',
                 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2',
                 '-subj', '/CN=test', '-addext',
                 'subjectAltName=IP:127.0.0.1', '-keyout',
                 directory / f'{name}.key', '-out', directory / f'{name}.pem'],
                check=True, capture_output=True,
            )  # fmt: skip
        return directory

    def context(self, directory, client=None):
        context = ssl.create_default_context(cafile=directory / 'ours.pem')
        if client:
            context.load_cert_chain(
                directory / f'{client}.pem', directory / f'{client}.key'
            )
        return context

    def test_metrics(self):
        port = self.serve()
        for path in ('/', '/metrics', '/metrics?name[]=x'):
            self.assertEqual((200, TEXT), self.get(port, path))

    def test_nothing_else(self):
        port = self.serve()
        for path in ('/x', '/metrics/x', '/../etc/passwd'):
            self.assertEqual(404, self.get(port, path)[0])
        self.assertEqual(501, self.get(port, method='POST')[0])

    def test_failure(self):
        port = self.serve(lambda: 1 / 0)
        with self.assertLogs('nova_rt.metrics.server'):
            self.assertEqual(500, self.get(port)[0])

    def test_those_who_say_nothing_hold_up_nobody(self):
        directory = self.make_certificates()
        tls = server.make_context(
            directory / 'ours.pem', directory / 'ours.key', None
        )
        port = self.serve(tls=tls)
        with contextlib.ExitStack() as stack:
            for _ in range(20):
                stack.enter_context(
                    socket.create_connection(('127.0.0.1', port), 5)
                )
            found = self.get(port, tls=self.context(directory))
        self.assertEqual((200, TEXT), found)

    def test_a_client_that_waits_has_its_time(self):
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_rt.metrics.server._Handler.timeout', 0.1
            )
        )
        port = self.serve()
        with socket.create_connection(('127.0.0.1', port), 5) as client:
            client.sendall(b'GET /metrics HT')
            self.assertEqual(b'', client.recv(1))

    def test_no_http(self):
        port = self.serve()
        for text in (b'\x16\x03\x01\x02\x00', b'GET /\xff\r\n\r\n', b'\r\n'):
            with socket.create_connection(('127.0.0.1', port), 5) as client:
                client.sendall(text + b'\n' * 4)
                with contextlib.suppress(ConnectionResetError):
                    client.recv(1000)
        self.assertEqual((200, TEXT), self.get(port))

    def test_tls_only(self):
        directory = self.make_certificates()
        tls = server.make_context(
            directory / 'ours.pem', directory / 'ours.key', None
        )
        port = self.serve(tls=tls)
        self.assertRaises((OSError, http.client.HTTPException), self.get, port)
        self.assertEqual(
            (200, TEXT), self.get(port, tls=self.context(directory))
        )

    def test_clients_of_our_ca_only(self):
        directory = self.make_certificates()
        tls = server.make_context(
            directory / 'ours.pem',
            directory / 'ours.key',
            directory / 'ours.pem',
        )
        port = self.serve(tls=tls)
        for name in (None, 'others'):
            context = self.context(directory, name)
            self.assertRaises(
                (OSError, http.client.HTTPException),
                self.get, port, tls=context,
            )  # fmt: skip
        found = self.get(port, tls=self.context(directory, 'ours'))
        self.assertEqual((200, TEXT), found)
