# SPDX-License-Identifier: Apache-2.0
"""The processes of nova-rt-conductor: workers, upkeep and metrics."""

from collections.abc import Callable
import threading
from typing import Any

from oslo_config import cfg
from oslo_service import service
import prometheus_client

from nova_rt.conductor import changes, manager, metrics
from nova_rt.conductor.nova_api import NovaAPI
from nova_rt.db import api, retention
from nova_rt.db import changes as db_changes
from nova_rt.metrics import server
from nova_rt.metrics.listening import Listening

#: Events that a worker works on at once; the database has a connection for
#: each.
THREADS = 8

#: Seconds for which one page of metrics answers all scrapes.
_KEEP_S = 2.0


class _Service(service.Service):
    """One process, with a thread of its own.

    :param conf: the configuration
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__()
        self._conf = conf
        self._stop = threading.Event()

    def start(self) -> None:
        """Connect: each process by itself, after the fork."""
        super().start()
        api.configure(self._conf)

    @staticmethod
    def _run(name: str, work: Callable[[], None]) -> None:
        threading.Thread(target=work, name=name, daemon=True).start()

    def stop(self, graceful: bool = False) -> None:
        """End the work."""
        self._stop.set()
        super().stop(graceful)

    def wait(self) -> None:
        """Wait until it is stopped."""
        self._stop.wait()
        super().wait()


class Worker(_Service):
    """Takes events, and takes care of changes.

    :param find_bus: see :class:`.changes.Hosts`
    """

    def __init__(
        self, conf: cfg.ConfigOpts, find_bus: Callable[[str], str] | None
    ) -> None:
        super().__init__(conf)
        self._find_bus = find_bus
        self._listener: Any = None
        self._changes: changes.Changes | None = None

    def start(self) -> None:
        """Connect."""
        manager.quieten()
        super().start()
        self._changes = changes.Changes(
            changes.Hosts(self._conf, self._find_bus).ask,
            nova=NovaAPI.from_options(self._conf),
        )
        listener = manager.make_listener(
            self._conf, manager.Events(self._stop, self._changes)
        )
        self._run('changes', self._changes.run)
        listener.start(override_pool_size=THREADS)
        self._listener = listener

    def stop(self, graceful: bool = False) -> None:
        """Take no more events; finish those that have come."""
        self._stop.set()
        if self._changes is not None:
            self._changes.stop()
        # None if it is stopped while it starts: the process ends then.
        if self._listener is not None:
            self._listener.stop()
            self._listener.wait()
        super().stop(graceful)


class Upkeep(_Service):
    """Does the upkeep for all workers of this machine.

    Its end leaves the rest to the next run.
    """

    def start(self) -> None:
        """Connect."""
        super().start()
        self._run('upkeep', self._keep_up)

    def _keep_up(self) -> None:
        upkeep = manager.Upkeep(retention.from_options(self._conf))
        interval_s = self._conf.nova_rt_conductor.upkeep_interval
        while not self._stop.wait(interval_s):
            upkeep.run(self._stop.is_set)


class Metrics(_Service):
    """Answers Prometheus for all workers of this machine.

    :param listening: where, and to which clients
    """

    def __init__(self, conf: cfg.ConfigOpts, listening: Listening) -> None:
        super().__init__(conf)
        self._listening = listening
        self._server: server.MetricsServer | None = None

    def start(self) -> None:
        """Listen."""
        super().start()
        found = metrics.make_registry(api.ping, db_changes.find_oldest)
        page = server.Page(
            lambda: prometheus_client.generate_latest(found), _KEEP_S
        )
        self._server = self._listening.open(page)
        self._run('metrics', self._server.serve_forever)

    def stop(self, graceful: bool = False) -> None:
        """Listen no more."""
        self._stop.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        super().stop(graceful)
