# SPDX-License-Identifier: Apache-2.0
"""A server of one page of metrics by HTTP, at a bounded cost.

prometheus_client has a server of its own. It reads and renders for each
scrape, takes any number of them at once, and greets a TLS client in the
thread that accepts all others, so that a silent client blocks it.
"""

from collections.abc import Callable
import contextlib
import dataclasses
import hmac
import http.server
import ipaddress
import logging
import socket
import socketserver
import ssl
import threading
import time
from typing import Any

LOG = logging.getLogger(__name__)

#: The content type that every Prometheus reads.
_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

#: Clients at once; further ones are turned away.
_CLIENTS = 16
#: Seconds for which one may say nothing, and for all of it.
_PATIENCE_S = 10.0
_AT_MOST_S = 60.0


@dataclasses.dataclass(frozen=True)
class Access:
    """Conditions on which a client is answered.

    :ivar tls: how to speak TLS; None to speak plainly
    :ivar tokens: bearer tokens of which a client must send one; None to
        answer without
    """

    tls: ssl.SSLContext | None = None
    tokens: tuple[str, ...] | None = None

    def admits(self, authorization: str) -> bool:
        """Check the header of a request.

        :param authorization: its ``Authorization``; '' if it has none
        :returns: whether to answer it
        """
        if self.tokens is None:
            return True
        scheme, _, token = authorization.partition(' ')
        sent = token.strip().encode()
        # All of them, so that the time is the same for each.
        found = [
            hmac.compare_digest(sent, each.encode()) for each in self.tokens
        ]
        return scheme.lower() == 'bearer' and any(found)


class Page:
    """A text that is made anew on request, not too often.

    Requests that come while it is made wait for it, and share it.

    :param make: makes the text
    :param keep_s: how long it answers all that ask
    """

    def __init__(self, make: Callable[[], bytes], keep_s: float) -> None:
        self._make = make
        self._keep_s = keep_s
        self._lock = threading.Lock()
        self._text: bytes | None = None
        self._until = float('-inf')

    def get(self) -> bytes | None:
        """Return the text, made anew if it is too old.

        :returns: None if it could not be made; the log says why
        """
        with self._lock:
            if time.monotonic() >= self._until:
                self._text = None
                try:
                    self._text = self._make()
                except Exception:
                    LOG.exception('Cannot make the metrics')
                self._until = time.monotonic() + self._keep_s
            return self._text


class _Handler(http.server.BaseHTTPRequestHandler):
    timeout = _PATIENCE_S
    server: 'MetricsServer'

    def do_GET(self) -> None:
        """Answer with the metrics, whatever the query."""
        self._answer(body=True)

    def do_HEAD(self) -> None:
        """Answer as a GET, but for the metrics themselves."""
        self._answer(body=False)

    def do_OPTIONS(self) -> None:
        """Tell the methods; without a token, as there is no metric in it."""
        self.send_response(204)
        self.send_header('Allow', 'GET, HEAD, OPTIONS')
        self.end_headers()

    def _answer(self, body: bool) -> None:
        if not self.server.access.admits(
            self.headers.get('Authorization', '')
        ):
            self._refuse()
            return
        if self.path.partition('?')[0] not in ('/', '/metrics'):
            self.send_error(404)
            return
        text = self.server.page.get()
        if text is None:
            self.send_error(500)
            return
        self.send_response(200)
        self.send_header('Content-Type', _TYPE)
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        if body:
            self.wfile.write(text)

    def _refuse(self) -> None:
        self.send_response(401)
        self.send_header('WWW-Authenticate', 'Bearer')
        self.send_header('Content-Length', '0')
        self.end_headers()

    def version_string(self) -> str:
        """Return the name of the program, without versions."""
        return self.server.program

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the client knows the outcome."""


class MetricsServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """An HTTP server, of TLS where there is a context.

    :param address: IP address and port
    :param page: of metrics
    :param program: the name that clients see
    :param access: which clients are answered
    """

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 2 * _CLIENTS

    def __init__(
        self,
        address: tuple[str, int],
        page: Page,
        program: str,
        access: Access,
    ) -> None:
        if ipaddress.ip_address(address[0]).version == 6:
            self.address_family = socket.AF_INET6
        self.page = page
        self.program = program
        self.access = access
        self._places = threading.BoundedSemaphore(_CLIENTS)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread, if there are not too many."""
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # No more threads.
            self._places.release()
            self.shutdown_request(request)

    def process_request_thread(
        self, request: Any, client_address: Any
    ) -> None:
        """Greet the client, in its own thread, and answer."""
        held = [request]

        def cut() -> None:
            with contextlib.suppress(OSError):
                held[0].shutdown(socket.SHUT_RDWR)

        # A client that sends a letter now and then is never silent for long.
        timer = threading.Timer(_AT_MOST_S, cut)
        timer.daemon = True
        timer.start()
        try:
            request.settimeout(_PATIENCE_S)
            tls = self.access.tls
            if tls is not None:
                request = tls.wrap_socket(request, server_side=True)
                held[0] = request
            super().process_request_thread(request, client_address)
        except OSError:
            # Not TLS, a wrong certificate, or nothing said at all.
            self.shutdown_request(request)
        finally:
            timer.cancel()
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: the client has gone, or does not speak HTTP."""


def make_context(
    cert_file: str, key_file: str | None, client_ca_file: str | None
) -> ssl.SSLContext:
    """Make a context of TLS.

    :param client_ca_file: clients must show a certificate of one of these CAs
    :returns: a context for :class:`Access`
    :raises OSError: if a file cannot be read, or is of something else
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(cert_file, key_file)
    if client_ca_file is not None:
        context.load_verify_locations(client_ca_file)
        context.verify_mode = ssl.CERT_REQUIRED
    return context
