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
import time

import fixtures
from oslotest import base

from nova_rt.metrics import server

TEXT = b'# HELP a b\n'


class ServerTest(base.BaseTestCase):
    def serve(
        self, make=lambda: TEXT, tls=None, address='127.0.0.1', tokens=None
    ):
        serving = server.MetricsServer(
            (address, 0), server.Page(make, 60), 'nova-rt-test',
            server.Access(tls, tokens),
        )  # fmt: skip
        thread = threading.Thread(
            target=serving.serve_forever, kwargs={'poll_interval': 0.05}
        )
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(serving.server_close)
        self.addCleanup(serving.shutdown)
        return serving.server_address[1]

    def get(self, port, path='/metrics', tls=None, method='GET', **headers):
        if tls is None:
            client = http.client.HTTPConnection('127.0.0.1', port, timeout=5)
        else:
            client = http.client.HTTPSConnection(
                '127.0.0.1', port, timeout=5, context=tls
            )
        with contextlib.closing(client):
            client.request(method, path, headers=headers)
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

    def test_methods_of_those_who_only_look(self):
        port = self.serve(tokens=('0123456789abcdef',))
        self.assertEqual((401, b''), self.get(port, method='HEAD'))
        token = {'Authorization': 'Bearer 0123456789abcdef'}
        self.assertEqual((200, b''), self.get(port, method='HEAD', **token))
        self.assertEqual((404, b''), self.get(
            port, '/x', method='HEAD', **token
        ))  # fmt: skip
        self.assertEqual((204, b''), self.get(port, method='OPTIONS'))

    def test_nothing_else(self):
        port = self.serve()
        for path in ('/x', '/metrics/x', '/../etc/passwd'):
            self.assertEqual(404, self.get(port, path)[0])
        self.assertEqual(501, self.get(port, method='POST')[0])

    def test_ipv6(self):
        if not socket.has_ipv6:
            self.skipTest('no IPv6')
        try:
            port = self.serve(address='::1')
        except OSError as err:
            self.skipTest(str(err))
        with socket.create_connection(('::1', port), 5) as client:
            client.sendall(b'GET / HTTP/1.0\r\n\r\n')
            self.assertIn(b' 200 ', client.recv(100))

    def test_tokens(self):
        """The page is not even made for a client without one."""
        made = []
        port = self.serve(
            lambda: made.append(1) or TEXT, tokens=('a' * 16, 'b' * 16)
        )
        for sent in (
            {}, {'Authorization': ''}, {'Authorization': 'Bearer'},
            {'Authorization': 'Bearer ' + 'a' * 15},
            {'Authorization': 'Bearer ' + 'a' * 17},
            {'Authorization': 'Basic ' + 'a' * 16},
            {'Authorization': 'a' * 16},
            {'Authorization': 'Bearer \xe9' + 'a' * 15},
        ):  # fmt: skip
            self.assertEqual((401, b''), self.get(port, **sent), sent)
        self.assertEqual(401, self.get(port, '/x')[0])
        self.assertEqual([], made)
        for token in ('a' * 16, 'b' * 16):
            self.assertEqual(
                (200, TEXT),
                self.get(port, Authorization=f'Bearer {token}'),
            )

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
            for _ in range(server._CLIENTS - 1):
                stack.enter_context(
                    socket.create_connection(('127.0.0.1', port), 5)
                )
            found = self.get(port, tls=self.context(directory))
        self.assertEqual((200, TEXT), found)

    def test_a_crowd_costs_no_more_threads(self):
        port = self.serve()
        before = threading.active_count()
        with contextlib.ExitStack() as stack:
            clients = [
                stack.enter_context(
                    socket.create_connection(('127.0.0.1', port), 5)
                )
                for _ in range(3 * server._CLIENTS)
            ]
            # The last are turned away, which says that all have been seen.
            self.assertEqual(b'', clients[-1].recv(1))
            # One for each, and one that ends it.
            wanted = before + 2 * server._CLIENTS
            deadline = time.monotonic() + 60
            while (found := threading.active_count()) != wanted:
                self.assertLess(found, wanted)
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)
        for _ in range(600):
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.get(port)[0] == 200:
                    return
            time.sleep(0.1)
        self.fail('it does not answer any more')

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

    def test_a_client_that_drips_has_its_time(self):
        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.metrics.server._AT_MOST_S', 0.3)
        )
        directory = self.make_certificates()
        tls = server.make_context(
            directory / 'ours.pem', directory / 'ours.key', None
        )
        for port, context in (
            (self.serve(), None),
            (self.serve(tls=tls), self.context(directory)),
        ):
            client = socket.create_connection(('127.0.0.1', port), 5)
            if context is not None:
                client = context.wrap_socket(
                    client, server_hostname='127.0.0.1'
                )
            with client, contextlib.suppress(OSError):
                for _ in range(100):
                    client.sendall(b'G')
                    time.sleep(0.05)
                self.fail('it is still there')

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
