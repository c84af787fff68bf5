# SPDX-License-Identifier: Apache-2.0
"""nova-rt-exporter: metrics of this host's reservations for Prometheus.

It reads the kernel's files and libvirt's read-only connection, and answers
whether nova-compute runs or not. It needs no privileges.
"""

import logging
import sys

from oslo_config import cfg
import prometheus_client
from prometheus_client import core, process_collector, registry

from nova_rt import conf as nova_rt_conf
from nova_rt.cmd import options as cmd_options
from nova_rt.conf import exporter as exporter_conf
from nova_rt.conf import nova as nova_conf
from nova_rt.exporter import families
from nova_rt.exporter.domains import Domains
from nova_rt.exporter.reading import Reader
from nova_rt.exporter.snapshot import Snapshot
from nova_rt.host.files import Files
from nova_rt.host.host import Host
from nova_rt.metrics import listening, server

LOG = logging.getLogger(__name__)

PROGRAM = 'nova-rt-exporter'


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
    :raises OSError: if it cannot listen, or a file of TLS or of tokens cannot
        be used
    """
    group = options.nova_rt_exporter
    where = listening.read(options, exporter_conf.GROUP.name, PROGRAM)
    known = registry.CollectorRegistry()
    known.register(collector)
    process_collector.ProcessCollector(registry=known)
    return where.open(
        server.Page(
            lambda: prometheus_client.generate_latest(known),
            group.min_interval,
        )
    )


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
        options(arguments, project='nova', prog=PROGRAM)
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
        LOG.error('%s cannot start: %s', PROGRAM, err)
        return 1
    LOG.info('Serving metrics on %s port %s', *serving.server_address[:2])
    with serving:
        serving.serve_forever()
    return 0


if __name__ == '__main__':
    sys.exit(main())
