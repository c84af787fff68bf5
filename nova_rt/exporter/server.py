# SPDX-License-Identifier: Apache-2.0
"""Serves a page of metrics by HTTP, at a bounded cost.

prometheus_client has a server of its own. It reads and renders for each
scrape, takes any number of them at once, and greets a TLS client in the
thread that accepts all others, so that one who says nothing stops it.
"""

from collections.abc import Callable
import contextlib
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


class Page:
    """A text that is made anew when somebody asks for it, not too often.

    Those who ask while it is made wait for it, and share it.

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
        """Tell the text.

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
    server: 'Server'

    def do_GET(self) -> None:
        """Answer with the metrics, whatever the query."""
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
        self.wfile.write(text)

    def version_string(self) -> str:
        """Tell no versions."""
        return 'nova-rt-exporter'

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: who scrapes knows what came of it."""


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """An HTTP server, of TLS where there is a context.

    :param address: IP address and port
    :param tls: how to speak TLS; None to speak plainly
    """

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 2 * _CLIENTS

    def __init__(
        self,
        address: tuple[str, int],
        page: Page,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        if ipaddress.ip_address(address[0]).version == 6:
            self.address_family = socket.AF_INET6
        self.page = page
        self._tls = tls
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

        # Who sends a letter now and then would never be silent for long.
        timer = threading.Timer(_AT_MOST_S, cut)
        timer.daemon = True
        timer.start()
        try:
            request.settimeout(_PATIENCE_S)
            if self._tls is not None:
                request = self._tls.wrap_socket(request, server_side=True)
                held[0] = request
            super().process_request_thread(request, client_address)
        except OSError:
            # Not TLS, a wrong certificate, or nothing said at all.
            self.shutdown_request(request)
        finally:
            timer.cancel()
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: the client has gone, or said what is no HTTP."""


def make_context(
    cert_file: str, key_file: str | None, client_ca_file: str | None
) -> ssl.SSLContext:
    """Say how to speak TLS.

    :param client_ca_file: clients must show a certificate of one of these CAs
    :returns: what :class:`Server` takes
    :raises OSError: if a file cannot be read, or is of something else
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(cert_file, key_file)
    if client_ca_file is not None:
        context.load_verify_locations(client_ca_file)
        context.verify_mode = ssl.CERT_REQUIRED
    return context
