# SPDX-License-Identifier: Apache-2.0
"""Nova's fixtures without what takes time and shows nothing.

Measured, not guessed: half the time of a test went into looking for messages
and for work every few milliseconds, into opening databases that had just been
closed, into compiling the same statements, and into looking for garbage among
modules.
"""

import functools
import gc
import itertools
import threading
import time
import types

import fixtures
from futurist import _thread
from nova import monkey_patch
from nova.api.openstack.compute import routes
from nova.compute import api as compute_api
from oslo_db.sqlalchemy import engines
from oslo_messaging._drivers import base as driver_base
from oslo_messaging._drivers import impl_fake
from sqlalchemy import pool, util
from sqlalchemy.dialects.sqlite import pysqlite


def _take(listener):
    """Return a message for a listener of the fake driver, or None."""
    for target in listener._targets:
        exchange = listener._exchange_manager.get_exchange(target.exchange)
        found = exchange.poll(target, listener._pool)
        if found[1] is not None:
            return impl_fake.FakeIncomingMessage(*found)
    return None


class Messages(fixtures.Fixture):
    """The fake driver of oslo.messaging hands out a message at once.

    Its listeners look for one every 50 ms.
    """

    def _setUp(self):
        news = threading.Condition()
        deliver = impl_fake.FakeExchange.deliver_message
        stop = impl_fake.FakeListener.stop

        def deliver_message(exchange, *args, **kwargs):
            deliver(exchange, *args, **kwargs)
            with news:
                news.notify_all()

        def stop_listening(listener):
            stop(listener)
            with news:
                news.notify_all()

        @driver_base.batch_poll_helper
        def poll(listener, timeout=None):
            deadline = None if timeout is None else time.time() + timeout
            # Nothing is delivered between a look and the wait.
            with news:
                while not listener._stopped.is_set():
                    message = _take(listener)
                    if message is not None:
                        return message
                    left = None if deadline is None else deadline - time.time()
                    if left is not None and left <= 0:
                        break
                    news.wait(left)
            return None

        for owner, name, replacement in (
            (impl_fake.FakeExchange, 'deliver_message', deliver_message),
            (impl_fake.FakeListener, 'stop', stop_listening),
            (impl_fake.FakeListener, 'poll', poll),
        ):
            self.useFixture(fixtures.MockPatchObject(owner, name, replacement))


class Workers(fixtures.Fixture):
    """Idle threads of executors sleep until there is work, or the end of it.

    futurist lets each look a hundred times a second, as Nova's tests set it,
    and those of executors that nobody shuts down go on in the next tests.
    """

    #: Seconds until they look after all: one misses its end if the lock is
    #: busy for as long as stop() waits for it.
    LOOK_S = 1
    BUSY_S = 0.05

    def _setUp(self):
        if monkey_patch.is_patched():
            # Their queues are eventlet's, and so is the wait for them.
            return

        def wait_for_work(worker):
            worker.idle = True
            tasks = worker.work_queue
            with tasks.not_empty:
                while not tasks._qsize():
                    if worker._is_dying():
                        raise _thread._Stopping
                    tasks.not_empty.wait(self.LOOK_S)
                work = tasks._get()
                tasks.not_full.notify()
            worker.idle = False
            return work

        def stop(worker):
            worker.should_stop = True
            # The collector of garbage calls this as well, perhaps in a thread
            # that has the lock.
            tasks = worker.work_queue
            if tasks.mutex.acquire(timeout=self.BUSY_S):
                tasks.not_empty.notify_all()
                tasks.mutex.release()

        for name, replacement in (
            ('_wait_for_work', wait_for_work), ('stop', stop),
        ):  # fmt: skip
            self.useFixture(
                fixtures.MockPatchObject(
                    _thread.ThreadWorker, name, replacement
                )
            )


class _KeptPool(pool.QueuePool):
    """Connections that stay open, as many as threads want."""

    def __init__(self, creator, **options):
        options.update(pool_size=0)
        super().__init__(creator, **options)


class Connections(fixtures.Fixture):
    """Databases in files keep their connections, as databases on servers do.

    oslo.db closes one after each transaction. SQLite reads the schema again
    for the next, and with the last one it takes back its log.
    """

    def _setUp(self):
        self.useFixture(
            fixtures.MockPatchObject(
                engines,
                'pool',
                types.SimpleNamespace(**{**vars(pool), 'NullPool': _KeptPool}),
            )
        )


class Statements(fixtures.Fixture):
    """Statements are compiled once for all databases of a kind.

    An engine keeps what it has compiled, under its own dialect; each test has
    engines of its own. All of them are SQLite's, made by oslo.db, for the same
    tables.
    """

    _compiled = util.LRUCache(4000)

    def _setUp(self):
        make = engines.sqlalchemy.create_engine

        def create_engine(url, **options):
            engine = make(url, **options)
            if isinstance(engine.dialect, pysqlite.SQLiteDialect_pysqlite):
                engine._compiled_cache = self._compiled
            return engine

        self.useFixture(
            fixtures.MockPatchObject(
                engines.sqlalchemy, 'create_engine', create_engine
            )
        )
        for name, replacement in (
            ('__eq__', lambda dialect, other: type(dialect) is type(other)),
            ('__hash__', lambda dialect: hash(type(dialect))),
        ):
            self.useFixture(
                fixtures.MockPatchObject(
                    pysqlite.SQLiteDialect_pysqlite, name, replacement
                )
            )


class Controllers(fixtures.Fixture):
    """The controllers of nova-api share one compute API; it has no state.

    Each of them makes its own, forty of them for a test.
    """

    def _setUp(self):
        make = routes.APIRouterV21.__init__

        def init(router, *args, **kwargs):
            shared = functools.cache(compute_api.API)
            with fixtures.MockPatchObject(compute_api, 'API', shared):
                make(router, *args, **kwargs)

        self.useFixture(
            fixtures.MockPatchObject(routes.APIRouterV21, '__init__', init)
        )


class Heap(fixtures.Fixture):
    """Garbage is looked for between tests, and not among what stays.

    A cloud is more than a hundred thousand objects in cycles, beside as many
    of the modules, and Python's own collector goes through all of them about
    twice a test.
    """

    #: Tests between two searches: some hundred megabytes.
    PERIOD = 8

    _tests = itertools.count()

    def _setUp(self):
        if next(self._tests) % self.PERIOD == 0:
            gc.collect()
            gc.freeze()
            # Young objects are still looked at, all of them never.
            gc.set_threshold(50_000, 20, 1_000_000)


class Quick(fixtures.Fixture):
    """All of them; before Nova's own fixtures."""

    def _setUp(self):
        for each in (
            Messages, Workers, Connections, Statements, Controllers, Heap,
        ):  # fmt: skip
            self.useFixture(each())
