# SPDX-License-Identifier: Apache-2.0
"""Options of programs that serve metrics to Prometheus."""

from oslo_config import cfg

#: Names of the options that name files, without a prefix.
TLS_FILES = ('tls_cert_file', 'tls_key_file', 'tls_client_ca_file')


def make_opts(program: str, port: cfg.Opt, prefix: str = '') -> list[cfg.Opt]:
    """Make the options of one program.

    :param program: its name
    :param port: its option ``port``, with the prefix
    :param prefix: of the names of the options
    :returns: the options, for a group of this program
    """
    return [
        cfg.IPOpt(
            f'{prefix}listen_address',
            default='127.0.0.1',
            help=f"""
Address on which {program} serves metrics.

They contain names of hosts, UUIDs of servers, reservations and usage. If
Prometheus runs on another host, choose an address of the management network
and set ``{prefix}tls_cert_file`` with ``{prefix}tls_client_ca_file``, or use a
firewall that admits only Prometheus.
""",
        ),
        port,
        cfg.StrOpt(
            f'{prefix}tls_cert_file',
            help=f"""
PEM file with the certificate of {program} and those between it and its CA. If
it is set, {program} accepts only TLS. A new certificate takes effect after a
restart, which loses nothing.
""",
        ),
        cfg.StrOpt(
            f'{prefix}tls_key_file',
            help=f"""
PEM file with the key of the certificate. If unset, the key must be in
``{prefix}tls_cert_file``.
""",
        ),
        cfg.StrOpt(
            f'{prefix}tls_client_ca_file',
            help=f"""
PEM file with the CAs of clients. If it is set, {program} answers only clients
that present a certificate of one of them. It requires
``{prefix}tls_cert_file``.
""",
        ),
    ]
