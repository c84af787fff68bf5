# SPDX-License-Identifier: Apache-2.0
"""A service that is killed in the middle of a move.

On the lab it is, see ``lab/tests/test_kills.py``. Here the thread that gets to
a step never comes back from there, so that nothing is cleaned up, and another
service takes over.
"""

import threading

import fixtures
from nova import monkey_patch, service
from oslo_concurrency import lockutils

from nova_rt.reservation import extra_specs
from nova_rt.tests.functional import moves

OLD, NEW = 400_000, 600_000
_LOCKS = lockutils.__name__


class KillsTestBase(moves.MovesTestBase):
    def setUp(self):
        if monkey_patch.is_patched():
            self.skipTest('runs on native threads, as nova-compute does')
        super().setUp()
        # Who is killed waits for nobody.
        self.flags(manager_shutdown_timeout=0)
        self.useFixture(
            fixtures.MockPatchObject(
                service.Service, '_wait_rpc_server', lambda *args: None
            )
        )

    def kill(self, host, action, owner, name, after=False):
        """Ask for an action, and kill a host before or after a method.

        :param action: what is posted for ``self.server``, or a function that
            asks in another way
        """
        reached, over = threading.Event(), threading.Event()
        original = getattr(owner, name)
        thread = []

        def step(*args, **kwargs):
            if thread:
                return original(*args, **kwargs)
            thread.append(threading.current_thread())
            if after:
                original(*args, **kwargs)
            reached.set()
            over.wait()
            raise SystemExit

        self.addCleanup(over.set)
        with fixtures.MockPatchObject(owner, name, step):
            if callable(action):
                threading.Thread(target=action, daemon=True).start()
            else:
                self.api.post_server_action(self.server['id'], action)
            self.assertTrue(reached.wait(60))
            self._release_locks()
            self.restart_compute_service(host)

    def _release_locks(self):
        """Give the next service, which is in this process, locks of its own.

        Who was killed would hold those without end.
        """
        for name, locks in (
            ('_semaphores', lockutils.Semaphores()),
            ('_fair_locks', lockutils.FairLocks()),
        ):
            self.useFixture(fixtures.MonkeyPatch(f'{_LOCKS}.{name}', locks))


class KilledResizeTestBase(KillsTestBase):
    """A server with OLD is to be moved, to a flavor with NEW at most."""

    def setUp(self):
        super().setUp()
        self.server = self.create(self.rt_flavor('400/1000'))
        self.larger = self.rt_flavor('600/1000')
        self.source = self.host_of(self.server)
        self.before = self.record_of(self.server)

    def held(self, consumer):
        """Host -> ppm that Placement holds for a server or migration."""
        found = self.placement.get(f'/allocations/{consumer}').body
        hosts = {self.compute_rp_uuids[host]: host for host in moves.HOSTS}
        return {
            hosts[provider]: each['resources'][extra_specs.RESOURCE_CLASS]
            for provider, each in found['allocations'].items()
        }
