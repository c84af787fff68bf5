# SPDX-License-Identifier: Apache-2.0
"""Servers come and go while parts of the cloud are taken away.

Slow, so only on request::

    python -m lab exec env NOVA_RT_TEST_SERVERS=200 \\
        stestr --test-path=./lab/tests run --serial test_faults
"""

import concurrent.futures
import contextlib
import dataclasses
import itertools
import os
import signal
import threading
import time
import unittest

from keystoneauth1 import exceptions as auth_exceptions
from openstack import exceptions as sdk_exceptions

from lab import catalog, services, world
from lab.tests import base
from lab.tests.reports import manage

SERVERS = int(os.environ.get('NOVA_RT_TEST_SERVERS', '0'))
AT_A_TIME = 4
#: Every so many servers one is kept.
KEPT_EVERY = 50
AWAY_S = 15
#: A server that is not there, or not gone, by then was forgotten by a service
#: that missed an answer; an operator would step in.
PATIENCE_S = 90
#: Nova's own check, which takes back what a failed delete has left, and the
#: report of a whole state come once a minute.
SETTLE_S = 240
RESERVATION = '5000/100000'

WHOLE = 'claimed,applied,released'
# What may become of a server that has never been ACTIVE.
BROKEN_OFF = {None, 'claimed,released', WHOLE}


class Lost(Exception):
    """A request without a good answer: nobody knows whether it was done."""


@contextlib.contextmanager
def answered():
    """Raise Lost for a request that failed; other errors pass unchanged."""
    try:
        yield
    except (
        sdk_exceptions.SDKException, auth_exceptions.ClientException,
    ) as err:  # fmt: skip
        raise Lost(str(err)) from err


@dataclasses.dataclass
class Tally:
    """Tally of what has become of the requests; threads share it.

    :ivar lived: ids of servers that were ACTIVE, and are deleted
    :ivar broken: ids of servers that never were, and are deleted
    :ivar kept: ids of servers that are to stay
    :ivar troubles: what failed and was done again, a line for each
    """

    lived: list = dataclasses.field(default_factory=list)
    broken: list = dataclasses.field(default_factory=list)
    kept: list = dataclasses.field(default_factory=list)
    troubles: list = dataclasses.field(default_factory=list)

    @property
    def done(self):
        return len(self.lived) + len(self.kept)


class User:
    """Creates servers and deletes them, and does not give up.

    Every attempt has a name of its own, so that a server which nobody was
    told of is found by its name later.

    :cvar patience_s: for what it has asked for
    """

    patience_s = PATIENCE_S

    def __init__(self, prefix, flavor, tally):
        self.cloud = catalog.connect()
        self.tally = tally
        self.request = {
            'image_id': self.cloud.image.find_image(
                base.IMAGE, ignore_missing=False
            ).id,
            'flavor_id': self.cloud.compute.find_flavor(
                flavor, ignore_missing=False
            ).id,
            'networks': 'none',
        }
        self.prefix = prefix

    def one(self, number):
        """See one server through its life."""
        for attempt in itertools.count():
            server_id = self.born(f'{self.prefix}{number}-{attempt}')
            if server_id:
                break
        if number % KEPT_EVERY == 0:
            self.tally.kept.append(server_id)
            return
        self.end(server_id)
        self.tally.lived.append(server_id)

    def born(self, name):
        """Ask for a server; its id once it is ACTIVE, None if it failed."""
        try:
            with answered():
                server = self.cloud.compute.create_server(
                    name=name, **self.request
                )
        except Lost as err:
            self.trouble(f'create {name}', err)
            return None
        if self.comes_to('ACTIVE', server.id):
            return server.id
        self.trouble(f'build {name}', f'{server.id} is not ACTIVE')
        self.end(server.id)
        self.tally.broken.append(server.id)
        return None

    def end(self, server_id):
        """Delete a server, and see that it is gone."""
        for attempt in itertools.count():
            try:
                with answered():
                    if attempt:
                        # Nova ignores a second request while it believes
                        # that the first one is at work.
                        self.cloud.compute.reset_server_state(
                            server_id, 'error'
                        )
                    self.cloud.compute.delete_server(server_id)
            except Lost as err:
                self.trouble(f'delete {server_id}', err)
            if self.comes_to(None, server_id):
                return
            self.trouble(f'delete {server_id}', 'it is still there')

    def comes_to(self, wanted, server_id):
        """Wait for a status, or for the end; False if that does not come."""
        deadline = time.monotonic() + self.patience_s
        while time.monotonic() < deadline:
            with contextlib.suppress(Lost):
                status = self.status(server_id)
                if status == wanted:
                    return True
                if wanted and status in ('ERROR', None):
                    return False
            time.sleep(0.5)
        return False

    def status(self, server_id):
        """Read the status of a server; None if there is none."""
        with answered():
            try:
                return self.cloud.compute.get_server(server_id).status
            except sdk_exceptions.NotFoundException:
                return None

    def trouble(self, what, why):
        self.tally.troubles.append(f'{what}: {str(why)[:200]}')
        time.sleep(1)


@unittest.skipUnless(SERVERS, 'NOVA_RT_TEST_SERVERS=200 runs it, 15 minutes')
class FaultsTest(base.LabTestCase):
    """nova-rt-conductor and the database of the whole cloud go away.

    What Nova had to be asked twice for is none of our business. Whatever
    comes of its requests, all places must agree on it afterwards.
    """

    def test_conductor_killed_and_database_restarted(self):
        tally = Tally()
        prefix = f'e2e-faults-{os.getpid()}-'
        self.addCleanup(self.sweep, prefix, [])
        flavor = self.rt_flavor(RESERVATION)
        self.run_users(prefix, flavor, tally)
        print(*tally.troubles, sep='\n')
        tally.broken += self.sweep(prefix, tally.kept)

        self.wait_for_audit(SETTLE_S)
        self.assertEqual(SERVERS, tally.done)
        self.assertEqual(
            sorted([*self.before.servers, *tally.kept]),
            sorted(server.id for server in self.cloud.compute.servers()),
        )
        self.assertEqual(
            sorted(tally.kept),
            sorted(row['Server'] for row in manage('server', 'list')[1]),
        )
        for server_id in tally.kept:
            self.assertEqual(
                RESERVATION, str(base.container.Container.of(server_id).held())
            )
        self.assertEqual({}, self.unfinished(tally))

        # The end of those that were kept belongs to the story.
        self.sweep(prefix, [])
        tally.lived += tally.kept
        tally.kept = []
        self.wait_for(lambda: not self.unfinished(tally), 'ends are missing')

    def run_users(self, prefix, flavor, tally):
        """Run some users at once, and meanwhile take away what they need."""
        users = [User(prefix, flavor, tally) for _ in range(AT_A_TIME)]
        numbers = iter(range(SERVERS))
        draw = threading.Lock()

        def work(user):
            while True:
                with draw:
                    number = next(numbers, None)
                if number is None:
                    return
                user.one(number)

        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            working = [pool.submit(work, user) for user in users]
            for part, fault in ((4, self.kill_conductor), (2, self.restart)):
                self.wait_for(
                    lambda part=part: (
                        tally.done >= SERVERS // part
                        or any(each.done() for each in working)
                    ),
                    'the users come to a stop',
                    SERVERS * 30,
                )
                self.assertLess(tally.done, SERVERS, 'too early for faults')
                fault()
            for each in working:
                each.result()
        for user in users:
            user.cloud.close()

    @staticmethod
    def kill_conductor():
        """Kill nova-rt-conductor and keep it away for a while."""
        conductor = services.table()['nova-rt-conductor']
        killed = conductor.running()
        killed.kill(signal.SIGKILL)
        killed.kill_session()
        time.sleep(AWAY_S)
        conductor.ensure()

    @staticmethod
    def restart():
        """Restart the database of Keystone, Nova, Placement and nova_rt."""
        database = services.table()['mariadb']
        database.stop()
        database.ensure()

    def sweep(self, prefix, kept):
        """Delete the servers of this test that nobody knows of.

        :returns: their ids
        """
        user = User(prefix, base.PLAIN, Tally())
        found = [
            server.id
            for server in self.cloud.compute.servers()
            if server.name.startswith(prefix) and server.id not in kept
        ]
        for server_id in found:
            user.end(server_id)
        user.cloud.close()
        return found

    def histories(self):
        """Read what happened to every server: its id, and words in order."""
        rows = world.select(
            'nova_rt',
            "SELECT CONCAT(server, ' ', GROUP_CONCAT(kind ORDER BY at)) "
            'FROM history GROUP BY server',
        )
        return dict(row.split() for row in rows)

    def unfinished(self, tally):
        """Return the servers whose history is not what it must be.

        Each was claimed, applied and released once, and in this order.
        """
        now = self.histories()
        wanted = dict.fromkeys(tally.lived, WHOLE)
        wanted |= dict.fromkeys(tally.kept, 'claimed,applied')
        wrong = {
            server_id: now.get(server_id)
            for server_id, words in wanted.items()
            if now.get(server_id) != words
        }
        return wrong | {
            server_id: now[server_id]
            for server_id in tally.broken
            if now.get(server_id) not in BROKEN_OFF
        }
