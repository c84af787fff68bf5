# SPDX-License-Identifier: Apache-2.0
"""nova-rt-exporter: metrics of this host's reservations for Prometheus.

It reads the kernel's files and libvirt's read-only connection, and answers
whether nova-compute runs or not. It needs no privileges.
"""

import logging
import ssl
import sys

from oslo_config import cfg
import prometheus_client
from prometheus_client import core, process_collector, registry

from nova_rt import conf as nova_rt_conf
from nova_rt.cmd import options as cmd_options
from nova_rt.conf import exporter as exporter_conf
from nova_rt.conf import nova as nova_conf
from nova_rt.exporter import families, server
from nova_rt.exporter.domains import Domains
from nova_rt.exporter.reading import Reader
from nova_rt.exporter.snapshot import Snapshot
from nova_rt.host.files import Files
from nova_rt.host.host import Host

LOG = logging.getLogger(__name__)


class Collector(registry.Collector):
    """Reads the host each time that it is asked."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def collect(self) -> list[core.Metric]:
        """Read it now.

        :returns: all metrics
        """
        return list(families.collect(self._reader.read()))


def make_server(
    options: cfg.ConfigOpts, collector: registry.Collector
) -> server.Server:
    """Make a server that listens.

    :param options: that were read
    :returns: a server that does not answer yet
    :raises OSError: if it cannot listen, or have its certificate
    """
    group = options.nova_rt_exporter
    tls = None
    if group.tls_cert_file:
        tls = _make_context(group)
    elif group.tls_key_file or group.tls_client_ca_file:
        raise OSError(
            '[nova_rt_exporter] tls_key_file and tls_client_ca_file take '
            'tls_cert_file'
        )
    known = registry.CollectorRegistry()
    known.register(collector)
    process_collector.ProcessCollector(registry=known)
    page = server.Page(
        lambda: prometheus_client.generate_latest(known), group.min_interval
    )
    address = str(group.listen_address)
    try:
        return server.Server((address, group.port), page, tls)
    except OSError as err:
        raise OSError(
            f'cannot listen on [nova_rt_exporter] listen_address = {address}, '
            f'port = {group.port}: {err.strerror or err}'
        ) from err


def _make_context(group: cfg.ConfigOpts.GroupAttr) -> ssl.SSLContext:
    """Take the files of TLS.

    :raises OSError: that names the file, which OpenSSL does not
    """
    names = [
        name
        for name in ('tls_cert_file', 'tls_key_file', 'tls_client_ca_file')
        if group[name]
    ]
    for name in names:
        try:
            with open(group[name], 'rb'):
                pass
        except OSError as err:
            raise OSError(
                f'[nova_rt_exporter] {name} = {group[name]}: {err.strerror}'
            ) from err
    try:
        return server.make_context(
            group.tls_cert_file, group.tls_key_file, group.tls_client_ca_file
        )
    except OSError as err:
        files = ', '.join(f'{name} = {group[name]}' for name in names)
        raise OSError(
            f'[nova_rt_exporter] {files}: not a certificate with its key, or '
            f'not in PEM ({err.strerror or err})'
        ) from err


def make_collector(
    options: cfg.ConfigOpts, files: Files | None = None
) -> Collector:
    """Make what reads this host.

    :param options: that were read
    :returns: a collector that has read nothing yet
    """
    group = options.nova_rt_exporter
    snapshot = Snapshot(files or Files())
    return Collector(
        Reader(
            Host.from_options(
                options.nova_rt,
                nova_conf.read_cpus(options),
                snapshot,
            ),
            snapshot,
            Domains(group.libvirt_uri, group.libvirt_timeout),
            exporter_conf.find_counters(options),
        )
    )


def read_options(arguments: list[str]) -> cfg.ConfigOpts:
    """Read the files that the services of Nova read.

    :returns: our options, and none of Nova's
    :raises Unusable: if a file cannot be read, or a value of ours is wrong
    """
    options = cfg.ConfigOpts()
    nova_rt_conf.register_opts(options)
    exporter_conf.register_state_path(options)
    with cmd_options.errors(options):
        options(arguments, project='nova', prog='nova-rt-exporter')
    cmd_options.check(options, exporter_conf.GROUP.name)
    return options


def main() -> int:
    """Serve until stopped.

    :returns: 1 if its configuration is wrong, or it cannot listen
    """
    # To the journal. [DEFAULT] log_dir of Nova's files is not ours.
    logging.basicConfig(level=logging.INFO, format='%(levelname)s %(message)s')
    try:
        options = read_options(sys.argv[1:])
        with cmd_options.errors(options):
            serving = make_server(options, make_collector(options))
    except (OSError, cmd_options.Unusable) as err:
        LOG.error('nova-rt-exporter cannot start: %s', err)
        return 1
    LOG.info('Serving metrics on %s port %s', *serving.server_address[:2])
    with serving:
        serving.serve_forever()
    return 0


if __name__ == '__main__':
    sys.exit(main())
