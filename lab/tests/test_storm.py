# SPDX-License-Identifier: Apache-2.0
"""Many users at once, and each nova-rt-compute killed again and again.

Slow, so only on request::

    python -m lab exec env NOVA_RT_TEST_STORM_S=600 \\
        stestr --test-path=./lab/tests run --serial test_storm
"""

import collections
import concurrent.futures
import contextlib
import dataclasses
import itertools
import os
import random
import threading
import time
import unittest

from lab import node, second_services, services
from lab.console import LabError
from lab.tests import base, on_nodes, watched
from lab.tests.on_nodes import ACTIVE_S
from lab.tests.test_faults import PATIENCE_S, Lost, Tally, User, answered

SECONDS = int(os.environ.get('NOVA_RT_TEST_STORM_S', '0'))
USERS = int(os.environ.get('NOVA_RT_TEST_STORM_USERS', '8'))
SEED = int(os.environ.get('NOVA_RT_TEST_STORM_SEED', '1'))


class StormMixin:
    """A storm on any kind of hosts.

    :cvar users: who work at the same time
    :cvar calm_s: from one kill to the next: the service has to start between
    """

    users = USERS
    calm_s = (8, 25)

    def storm(self, flavor, larger, patience_s):
        """Let users work while services are killed.

        :returns: a prefix of the names of all servers
        """
        prefix = f'e2e-storm-{os.getpid()}-'
        self.addCleanup(self.sweep, prefix)
        self.counts = collections.Counter()
        tally = Tally()
        ending = threading.Event()
        users = [
            StormUser(f'{prefix}{number}-', flavor, larger, tally,
                      random.Random(SEED + number), ending)
            for number in range(self.users)
        ]  # fmt: skip
        with concurrent.futures.ThreadPoolExecutor(self.users) as pool:
            for user in users:
                user.patience_s = patience_s
            working = [pool.submit(user.work) for user in users]
            try:
                self.kill_for(SECONDS, random.Random(SEED))
            finally:
                ending.set()
            for each in working:
                each.result()
        for user in users:
            self.counts.update(user.counts)
            user.cloud.close()
        self.counts['troubles'] = len(tally.troubles)
        return prefix

    def kill_for(self, seconds, dice):
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, dice.uniform(*self.calm_s)))
            if time.monotonic() < deadline:
                self.kill_one(dice)

    def sweep(self, prefix):
        """Delete servers without an owner.

        That is also the images of servers that were deleted on their way to
        the shelf.

        :returns: the ids of servers
        """
        user = User(prefix, base.PLAIN, Tally())
        found = [
            server.id
            for server in self.cloud.compute.servers()
            if server.name.startswith(prefix)
        ]
        for server_id in found:
            user.end(server_id)
        for image in user.cloud.image.images():
            if image.name.startswith(prefix):
                user.cloud.image.delete_image(image)
        user.cloud.close()
        return found


@unittest.skipUnless(SECONDS, 'NOVA_RT_TEST_STORM_S=600 runs it, 12 minutes')
class StormTest(StormMixin, watched.WatchedTestCase):
    """After any outcome of the requests, nothing is lost."""

    # Servers are everywhere, and move.
    on_first = False

    def test_storm(self):
        before = self.look()
        larger = self.rt_flavor('10000/100000')
        before = dataclasses.replace(before, flavors=self.look().flavors)
        prefix = self.storm(self.flavor_name, larger, PATIENCE_S)
        for service in self.computes():
            self.compute_up(service)
        self.counts['swept'] = len(self.sweep(prefix))
        self.assert_clean(before)
        self.assert_audited()
        self.assertGreater(self.counts['creates'], 0)

    @staticmethod
    def computes():
        """List the services of all hosts."""
        table = services.table()
        names = watched.COMPUTE, second_services.name(watched.COMPUTE)
        return [table[name] for name in names if name in table]

    def kill_one(self, dice):
        names = [service.name for service in self.computes()]
        self.restart(dice.choice(names), kill=True)


@unittest.skipUnless(SECONDS, 'NOVA_RT_TEST_STORM_S=600 runs it, 15 minutes')
class StormOnNodesTest(StormMixin, on_nodes.NodesTestCase):
    """The same on nodes, where systemd starts the services again."""

    # Without KVM a node needs a minute to start nova-compute, and half a
    # minute for a server.
    users = min(USERS, 3)
    calm_s = (90, 180)

    def test_storm(self):
        self.only_on(*node.nodes())
        prefix = self.storm(on_nodes.MEDIUM, on_nodes.TWO, ACTIVE_S)
        for own in node.nodes():
            self.wait_for_state(own, 'up')
        self.counts['swept'] = len(self.sweep(prefix))
        self.wait_for_audit(on_nodes.PATIENCE_S)
        print(f'\n{self.id()}: {dict(self.counts)}', flush=True)
        self.assertGreater(self.counts['creates'], 0)

    def kill_one(self, dice):
        own = dice.choice(node.nodes())
        # Not its helpers: systemd ends them. It fails if there is none yet.
        with contextlib.suppress(LabError):
            own.run('systemctl kill --kill-whom=main -s KILL nova-compute')
            self.counts['kills'] += 1


class StormUser(User):
    """Does all that a user can do to a server, in an order drawn by lot."""

    def __init__(self, prefix, flavor, larger, tally, dice, ending):
        super().__init__(prefix, flavor, tally)
        self._larger = self.cloud.compute.find_flavor(
            larger, ignore_missing=False
        )
        self._dice = dice
        self._ending = ending
        # Moves most of all: there is most to lose.
        self._actions = [
            self.reboot, self.stop, self.rebuild, self.shelve,
            self.resize, self.resize,
        ]  # fmt: skip
        self.counts = collections.Counter()

    def work(self):
        """See one server after the other through its life."""
        for number in itertools.count():
            if self._ending.is_set():
                return
            server_id = self.born(f'{self.prefix}{number}')
            if server_id is None:
                self.counts['creates that failed'] += 1
                continue
            self.counts['creates'] += 1
            action = self._dice.choice(self._actions)
            # Killed in the middle, it may have failed; it is deleted then.
            with contextlib.suppress(Lost):
                action(server_id)
            self.end(server_id)
            self.counts['deletes'] += 1

    def reboot(self, server_id):
        with answered():
            self.cloud.compute.reboot_server(server_id, 'HARD')
        self.counts['reboots'] += 1
        self.comes_to('ACTIVE', server_id)

    def stop(self, server_id):
        with answered():
            self.cloud.compute.stop_server(server_id)
        self.comes_to('SHUTOFF', server_id)
        with answered():
            self.cloud.compute.start_server(server_id)
        self.counts['stops and starts'] += 1
        self.comes_to('ACTIVE', server_id)

    def rebuild(self, server_id):
        with answered():
            self.cloud.compute.rebuild_server(
                server_id, self.request['image_id']
            )
        self.counts['rebuilds'] += 1
        self.comes_to('ACTIVE', server_id)

    def shelve(self, server_id):
        with answered():
            self.cloud.compute.shelve_server(server_id)
        self.counts['shelves'] += 1
        if not self.comes_to('SHELVED_OFFLOADED', server_id):
            return
        with answered():
            self.cloud.compute.unshelve_server(server_id)
        self.counts['unshelves'] += 1
        self.comes_to('ACTIVE', server_id)

    def resize(self, server_id):
        """Resize it, or move it if there is another host; or be refused."""
        compute = self.cloud.compute
        with answered():
            if self._dice.random() < 0.5:
                compute.resize_server(server_id, self._larger)
            else:
                compute.migrate_server(server_id)
        self.counts['resizes and migrations'] += 1
        if not self.moved(server_id):
            return
        with answered():
            if self._dice.random() < 0.5:
                compute.confirm_server_resize(server_id)
            else:
                compute.revert_server_resize(server_id)
        self.counts['confirmed or reverted'] += 1
        self.comes_to('ACTIVE', server_id)

    def moved(self, server_id):
        """Wait until nobody works on it; whether it was moved."""
        deadline = time.monotonic() + max(60, self.patience_s)
        while time.monotonic() < deadline:
            with answered():
                server = self.cloud.compute.get_server(server_id)
            if not server.task_state:
                return server.status == 'VERIFY_RESIZE'
            time.sleep(0.5)
        return False
