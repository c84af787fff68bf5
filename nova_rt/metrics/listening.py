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
            try:
                open(value(name), 'rb').close()
            except OSError as err:
                # OpenSSL does not name the file.
                raise OSError(
                    f'[{group}] {called(name)}: {err.strerror}'
                ) from err
        try:
            tls = server.make_context(
                value('tls_cert_file'),
                value('tls_key_file') or None,
                value('tls_client_ca_file') or None,
            )
        except OSError as err:
            raise OSError(
                f'[{group}] {", ".join(map(called, names))}: not a '
                'certificate with its key, or not in PEM '
                f'({err.strerror or err})'
            ) from err
    elif value('tls_key_file') or value('tls_client_ca_file'):
        raise OSError(
            f'[{group}] {prefix}tls_key_file and {prefix}tls_client_ca_file '
            f'require {prefix}tls_cert_file'
        )
    where = f'[{group}] {called("listen_address")}, {prefix}port = {port}'
    return Listening(program, where, address, port, tls)
