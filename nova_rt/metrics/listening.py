# SPDX-License-Identifier: Apache-2.0
"""Servers of metrics as the options of a program describe them."""

import dataclasses
import ssl

from oslo_config import cfg

from nova_rt.conf import listening
from nova_rt.metrics import server


@dataclasses.dataclass(frozen=True)
class Listening:
    """An address, and which clients are answered there.

    :ivar program: the name of the program, for clients
    :ivar where: the options that name the address, for errors
    :ivar address: IP address
    :ivar port: 0 for any that is free
    :ivar tls: None to speak plainly
    """

    program: str
    where: str
    address: str
    port: int
    tls: ssl.SSLContext | None

    def open(self, page: server.Page) -> server.MetricsServer:
        """Make a server that listens.

        :param page: of metrics
        :returns: a server that does not answer yet
        :raises OSError: if it cannot listen
        """
        try:
            return server.MetricsServer(
                (self.address, self.port), page, self.program, self.tls
            )
        except OSError as err:
            raise OSError(
                f'cannot listen on {self.where}: {err.strerror or err}'
            ) from err

    def check(self) -> None:
        """Listen for a moment, before a child of the program does.

        :raises OSError: if it cannot listen
        """
        self.open(server.Page(bytes, 0)).server_close()


def read(
    options: cfg.ConfigOpts, group: str, program: str, prefix: str = ''
) -> Listening:
    """Read the options of :func:`nova_rt.conf.listening.make_opts`.

    :param options: that were read
    :param group: that has them
    :param prefix: of their names
    :returns: all that a server takes
    :raises OSError: if a file cannot be read or has something else in it, or
        if options contradict each other
    """

    values = options[group]

    def value(name: str) -> str:
        return values[f'{prefix}{name}'] or ''

    def called(name: str) -> str:
        return f'{prefix}{name} = {value(name)}'

    address, port = value('listen_address'), values[f'{prefix}port']
    tls = None
    if value('tls_cert_file'):
        names = [name for name in listening.TLS_FILES if value(name)]
        for name in names:
            _read(value(name), f'[{group}] {called(name)}')
        tls = _make_context(
            value('tls_cert_file'),
            value('tls_key_file') or None,
            value('tls_client_ca_file') or None,
            f'[{group}] {", ".join(map(called, names))}',
        )
    elif value('tls_key_file') or value('tls_client_ca_file'):
        raise OSError(
            f'[{group}] {prefix}tls_key_file and {prefix}tls_client_ca_file '
            f'require {prefix}tls_cert_file'
        )
    where = f'[{group}] {called("listen_address")}, {prefix}port = {port}'
    return Listening(program, where, address, port, tls)


def _read(path: str, called: str) -> bytes:
    """Read a file.

    :raises OSError: that names the option, and the file, which OpenSSL does
        not
    """
    try:
        with open(path, 'rb') as file:
            return file.read()
    except OSError as err:
        raise OSError(f'{called}: {err.strerror}') from err


def _make_context(
    cert_file: str,
    key_file: str | None,
    client_ca_file: str | None,
    called: str,
) -> ssl.SSLContext:
    try:
        return server.make_context(cert_file, key_file, client_ca_file)
    except OSError as err:
        raise OSError(
            f'{called}: not a certificate with its key, or not in PEM '
            f'({err.strerror or err})'
        ) from err
