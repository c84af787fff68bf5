# SPDX-License-Identifier: Apache-2.0
"""``nova-rt-conductor``: takes events of reservations into the database."""

# First: it says that services have native threads.
from oslo_service import backend  # isort: skip

backend.init_backend(backend.BackendType.THREADING)

from collections.abc import Callable  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402

from oslo_config import cfg  # noqa: E402
from oslo_log import log as logging  # noqa: E402
import oslo_messaging  # noqa: E402
from oslo_service import service  # noqa: E402

from nova_rt import conf as nova_rt_conf  # noqa: E402
from nova_rt.cmd import options  # noqa: E402
from nova_rt.conductor import nova_api, queue  # noqa: E402
from nova_rt.conf import conductor, database  # noqa: E402
from nova_rt.db import api, migration, session  # noqa: E402
from nova_rt.metrics import listening  # noqa: E402
from nova_rt.metrics.listening import Listening  # noqa: E402

LOG = logging.getLogger(__name__)

PROGRAM = 'nova-rt-conductor'


def _check_database(conf: cfg.ConfigOpts) -> str | None:
    """Require that the database is there and has its table.

    :returns: None if so, else why not
    """
    if not conf.nova_rt_database.connection:
        return '[nova_rt_database] connection is not set'
    api.configure(conf)
    try:
        if migration.is_behind():
            return (
                f'the database has revision {migration.get_version()}, this '
                f'program needs {migration.get_newest()}: run '
                'nova-rt-manage db sync'
            )
    except (ImportError, api.NO_DATABASE) as err:
        return f'[nova_rt_database] connection names no database: {err}'
    except api.ERRORS as err:
        return f'the database {api.describe(err)}'
    # Not across the fork.
    session.get_engine().dispose()
    return None


def _check_bus(conf: cfg.ConfigOpts) -> str | None:
    """Require that the message bus takes the queue of this service.

    A bus that is away is waited for. One that refuses would end each worker,
    and the next, for ever.

    :returns: None if so, else why not
    """
    reason = queue.check(conf)
    if reason is None:
        return None
    reason = f'the message bus refuses its queue: {reason}'
    if 'PRECONDITION_FAILED' not in reason:
        return reason
    topic = queue.make_target(conf).topic
    return (
        f'{reason}. It is there with other arguments: give this program the '
        'section [oslo_messaging_rabbit] of nova.conf of the compute hosts, '
        f'and delete what older settings have left, exchange {queue.EXCHANGE} '
        f'and queue {topic}.{queue.PRIORITY}'
    )


def _read_options(conf: cfg.ConfigOpts) -> None:
    """Read all that the processes of this service will ask for.

    :raises Unusable: if that cannot be
    """
    with options.errors(conf):
        conf(sys.argv[1:], project='nova', prog=PROGRAM)
        logging.setup(conf, PROGRAM)
    options.check(conf, conductor.GROUP.name, database.GROUP.name)
    try:
        with options.errors(conf):
            oslo_messaging.TransportURL.parse(conf)
    except oslo_messaging.InvalidTransportURL as err:
        # Its text, unlike str(), has no URL and hence no password.
        raise options.Unusable(
            f'[DEFAULT] transport_url is no URL: {err.args[0]}'
        ) from err


def main() -> int:
    """Run until stopped.

    :returns: the exit code, 1 if it cannot start
    """
    conf = cfg.CONF
    nova_rt_conf.register_opts(conf)
    logging.register_options(conf)
    try:
        _read_options(conf)
    except options.Unusable as err:
        # There may be no log yet.
        print(f'{PROGRAM} cannot start: {err}', file=sys.stderr)
        return 1
    reason = nova_api.check(conf) or _check_database(conf) or _check_bus(conf)
    if reason is not None:
        LOG.critical('%s cannot start: %s', PROGRAM, reason)
        return 1
    try:
        metrics = _read_listening(conf)
    except OSError as err:
        LOG.critical('%s cannot start: %s', PROGRAM, err)
        return 1
    with tempfile.TemporaryDirectory(prefix=PROGRAM) as counters:
        # Read when prometheus_client is imported.
        os.environ['PROMETHEUS_MULTIPROC_DIR'] = counters
        return _serve(conf, metrics)


def _read_listening(conf: cfg.ConfigOpts) -> Listening | None:
    """Read where metrics are served.

    :returns: None if they are not
    :raises OSError: if it cannot listen, or a file of TLS or of tokens cannot
        be used
    """
    if not conf.nova_rt_conductor.metrics_port:
        return None
    found = listening.read(conf, conductor.GROUP.name, PROGRAM, 'metrics_')
    # Its process would be started again and again.
    found.check()
    return found


def _make_finder() -> Callable[[str], str] | None:
    """Make the function that finds the message bus of a host.

    :returns: None if Nova's API database is not configured: all hosts are on
        the bus of this service
    """
    # Here, as the options of Nova would slow the errors above.
    import nova.conf

    if not nova.conf.CONF.api_database.connection:
        return None
    from nova_rt.cloud import buses

    return buses.Buses().find


def _serve(conf: cfg.ConfigOpts, metrics: Listening | None) -> int:
    from nova_rt.conductor import service as ours

    group = conf.nova_rt_conductor
    launcher = service.ServiceLauncher(conf)
    worker = ours.Worker(conf, _make_finder())
    launcher.launch_service(worker, group.workers)
    launcher.launch_service(ours.Upkeep(conf))
    if metrics is not None:
        launcher.launch_service(ours.Metrics(conf, metrics))
    return launcher.wait() or 0


if __name__ == '__main__':
    sys.exit(main())
