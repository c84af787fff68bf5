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

    def hold_up(self, owner, name, after=False):
        """Hold up the first call of a method, before or after it.

        :returns: a function that waits until it is called, and one that lets
            it go on
        """
        reached, go = threading.Event(), threading.Event()
        original = getattr(owner, name)

        def step(*args, **kwargs):
            result = original(*args, **kwargs) if after else None
            if not reached.is_set():
                reached.set()
                go.wait(120)
            return result if after else original(*args, **kwargs)

        self.addCleanup(go.set)
        self.useFixture(fixtures.MockPatchObject(owner, name, step))
        return lambda: self.assertTrue(reached.wait(60)), go.set

    def _release_locks(self):
        """Give the next service, which is in this process, locks of its own.

        Who was killed would hold those without end.
        """
        for name, locks in (
            ('_semaphores', lockutils.Semaphores()),
            ('_fair_locks', lockutils.FairLocks()),
        ):
            self.stub_out(f'{_LOCKS}.{name}', locks)


class KilledResizeTestBase(KillsTestBase, moves.ServerToMoveTestBase):
    def held(self, consumer):
        """Host -> ppm that Placement holds for a server or migration."""
        found = self.placement.get(f'/allocations/{consumer}').body
        hosts = {self.compute_rp_uuids[host]: host for host in moves.HOSTS}
        return {
            hosts[provider]: each['resources'][extra_specs.RESOURCE_CLASS]
            for provider, each in found['allocations'].items()
        }
