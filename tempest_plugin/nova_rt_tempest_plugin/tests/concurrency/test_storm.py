# SPDX-License-Identifier: Apache-2.0
"""Servers come and go for a while, several at a time."""

import concurrent.futures
import itertools
import time

from tempest import config
from tempest.lib import decorators

from nova_rt_tempest_plugin import reports
from nova_rt_tempest_plugin.tests import base

CONF = config.CONF

#: Histories of so many servers are read: one command each.
HISTORIES = 4


class StormTest(base.RTTest):
    """Threads that create and delete, each in its own order."""

    @classmethod
    def skip_checks(cls):
        super().skip_checks()
        if not CONF.nova_rt.stress_seconds:
            raise cls.skipException('[nova_rt] stress_seconds is 0')

    def setUp(self):
        super().setUp()
        self.reservation = CONF.nova_rt.small_reservation
        self.real_time = self.rt_flavor(self.reservation)
        self.plain_flavor = self.flavor({})

    @decorators.idempotent_id('5a1e8d4f-2a6b-4bb7-8d0c-0c2f8f3a7e71')
    def test_create_and_delete(self):
        end = time.monotonic() + CONF.nova_rt.stress_seconds
        workers = CONF.nova_rt.stress_workers
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            working = [
                pool.submit(self.work, number, end)
                for number in range(workers)
            ]
            lived = [server for each in working for server in each.result()]
        self.assertTrue(lived, 'no real-time server has lived')
        if CONF.nova_rt.manage_command:
            for server in lived[-HISTORIES:]:
                self.wait_until_equal(
                    ['claimed', 'applied', 'released'],
                    lambda server=server: reports.history(server),
                    f'history of {server}',
                )

    def work(self, number, end):
        """Make servers, and delete them, until the time is over.

        :returns: the real-time servers that have run
        """
        lived = []
        # Each starts with another kind.
        kinds = itertools.cycle(
            [self.run_one, self.delete_early, self.run_plain]
        )
        for kind in itertools.islice(kinds, number, None):
            if time.monotonic() > end:
                return lived
            lived += kind()
        raise AssertionError('never reached')

    def run_one(self):
        """A real-time server that is used."""
        server = self.boot_flavor(self.real_time)['id']
        self.assert_agree(server, self.reservation)
        self.delete(server)
        return [server]

    def delete_early(self):
        """A real-time server that is deleted while it is being made."""
        server = self.boot_flavor(self.real_time, wait=False)['id']
        self.delete(server)
        return []

    def run_plain(self):
        """A server without a reservation."""
        server = self.boot_flavor(self.plain_flavor)['id']
        self.assertNotIn(base.BANDWIDTH, self.allocations(server))
        self.delete(server)
        return []
