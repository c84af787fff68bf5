# SPDX-License-Identifier: Apache-2.0
"""nova-rt-exporter: metrics of this host's reservations for Prometheus.

It reads the kernel's files, libvirt's read-only connection and the file of
nova-rt-compute, and answers whether nova-compute runs or not. It needs no
privileges, and nothing of Nova's configuration.
"""

import logging
import pathlib
import sys

from oslo_config import cfg
import prometheus_client
from prometheus_client import core, process_collector, registry

from nova_rt.cmd import options as cmd_options
from nova_rt.conf import exporter as exporter_conf
from nova_rt.exporter import families
from nova_rt.exporter.domains import Domains
from nova_rt.exporter.reading import HostReader
from nova_rt.exporter.snapshot import Snapshot
from nova_rt.host.files import Files
from nova_rt.host.host import Host
from nova_rt.metrics import listening, server
from nova_rt.metrics.build import Build

LOG = logging.getLogger(__name__)

PROGRAM = 'nova-rt-exporter'

#: Its own file: it needs no secret of Nova's.
_FILE = pathlib.Path('/etc/nova-rt/exporter.conf')


class Collector(registry.Collector):
    """Reads the host each time that it is asked."""

    def __init__(self, reader: HostReader) -> None:
        self._reader = reader

    def collect(self) -> list[core.Metric]:
        """Read it now.

        :returns: all metrics
        """
        return list(families.collect(self._reader.read()))


def make_server(
    options: cfg.ConfigOpts, collector: registry.Collector
) -> server.MetricsServer:
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
    known.register(Build())
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
    """Make a collector of this host's metrics.

    :param options: that were read
    :param files: the kernel's files, instead of those that the options name
    :returns: a collector that has read nothing yet
    """
    group = options.nova_rt_exporter
    snapshot = Snapshot(
        files or Files(group.cgroup_root, group.procfs, group.sysfs)
    )
    return Collector(
        HostReader(
            lambda found: Host.from_options(found, snapshot),
            snapshot,
            Domains(
                group.libvirt_uri,
                group.libvirt_timeout,
                details=group.server_info,
            ),
            exporter_conf.find_counters(options),
        )
    )


def read_options(arguments: list[str]) -> cfg.ConfigOpts:
    """Read the configuration of this program.

    :returns: its options; others in the same files are ignored
    :raises Unusable: if a file cannot be read, or a value is wrong
    """
    options = cfg.ConfigOpts()
    exporter_conf.register_opts(options)
    files = [str(_FILE)] if _FILE.exists() else []
    with cmd_options.errors(options):
        options(
            arguments, prog=PROGRAM, default_config_files=files,
            default_config_dirs=[],
        )  # fmt: skip
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
