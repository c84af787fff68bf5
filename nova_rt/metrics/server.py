# SPDX-License-Identifier: Apache-2.0
"""A page of metrics by HTTP or TLS.

prometheus_client has a server of its own. It renders anew for each scrape, and
greets a TLS client in the thread that accepts all others, so that a silent
client blocks it.
"""

from collections.abc import Callable
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
#: Seconds for which a client may say nothing.
_PATIENCE_S = 10.0


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
        """Answer any query with the metrics."""
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
        """Return the name of the program, without versions."""
        return self.server.program

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the client knows the outcome."""


class MetricsServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """An HTTP server, of TLS where there is a context.

    :param address: IP address and port
    :param page: of metrics
    :param program: the name that clients see
    :param tls: None to speak plainly
    """

    allow_reuse_address = True
    daemon_threads = True

    def __init__(
        self,
        address: tuple[str, int],
        page: Page,
        program: str,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        if ipaddress.ip_address(address[0]).version == 6:
            self.address_family = socket.AF_INET6
        self.page = page
        self.program = program
        super().__init__(address, _Handler)
        if tls is not None:
            # The client's own thread greets it, when it reads.
            self.socket = tls.wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False
            )

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: the client has gone, or speaks another protocol."""


def make_context(
    cert_file: str, key_file: str | None, client_ca_file: str | None
) -> ssl.SSLContext:
    """Make a context of TLS.

    :param client_ca_file: clients must show a certificate of one of these CAs
    :returns: a context for :class:`MetricsServer`
    :raises OSError: if a file cannot be read, or is of something else
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(cert_file, key_file)
    if client_ca_file is not None:
        context.load_verify_locations(client_ca_file)
        context.verify_mode = ssl.CERT_REQUIRED
    return context
