# SPDX-License-Identifier: Apache-2.0
"""The storm of :mod:`lab.tests.test_storm` on two nodes.

Slow, so only on request::

    python -m lab exec env NOVA_RT_TEST_STORM_S=600 \\
        stestr --test-path=./lab/tests run --serial test_nodes_storm
"""

import collections
import concurrent.futures
import contextlib
import os
import random
import subprocess
import threading
import time
import unittest

from lab import node, paths, world
from lab.measure import course
from lab.tests import on_nodes
from lab.tests.on_nodes import MEDIUM, PATIENCE_S
from lab.tests.test_faults import Tally, User
from lab.tests.test_reports import manage
from lab.tests.test_storm import SECONDS, SEED, StormUser

SMALL = 'rt.ms.small'
USERS = 4
#: Between two kills. Where no KVM is, nova-rt-compute takes minutes to start.
CALM_S = (100, 200)
SAMPLER = 'rt-sampler'
COURSE = '/run/course'


class NodesUser(StormUser):
    patience_s = on_nodes.ACTIVE_S


@unittest.skipUnless(len(node.nodes()) > 1, 'a lab with two nodes only')
@unittest.skipUnless(SECONDS, 'NOVA_RT_TEST_STORM_S=600 runs it, 25 minutes')
class NodesStormTest(on_nodes.NodesTestCase):
    """After any outcome of the requests, nothing is lost on either node."""

    def test_storm(self):
        prefix = f'e2e-storm-{os.getpid()}-'
        self.addCleanup(self.sweep, prefix)
        tally, ending = Tally(), threading.Event()
        users = [
            NodesUser(f'{prefix}{number}-', SMALL, MEDIUM, tally,
                      random.Random(SEED + number), ending)
            for number in range(USERS)
        ]  # fmt: skip
        counts = collections.Counter()
        with contextlib.ExitStack() as stack:
            for own in node.nodes():
                stack.enter_context(self.sampled(own, counts))
            pool = concurrent.futures.ThreadPoolExecutor(USERS)
            stack.enter_context(pool)
            working = [pool.submit(user.work) for user in users]
            try:
                counts['kills'] = self.kill_for(SECONDS, random.Random(SEED))
            finally:
                ending.set()
            for each in working:
                each.result()
            counts['swept'] = len(self.sweep(prefix))
        for user in users:
            counts.update(user.counts)
            user.cloud.close()
        counts['troubles'] = len(tally.troubles)
        for own in node.nodes():
            self.wait_for_state(own, 'up')
        left = world.left(self.cloud, self.before)
        if left:
            counts['repaired by the audit'] += 1
            print(left, manage('audit', '--repair'), flush=True)
        print(f'\n{dict(counts)}', flush=True)
        self.assertEqual({}, world.left(self.cloud, self.before))
        self.wait_for(
            lambda: manage('audit') == (0, []),
            lambda: f'{manage("audit")}',
            PATIENCE_S,
        )
        self.assertGreater(counts['creates'], 0)
        self.assertGreater(counts['kills'], 0)

    @contextlib.contextmanager
    def sampled(self, own, counts):
        """Sample the kernel of a node; at the end, judge what it held."""
        program = subprocess.run(
            ['tar', '-C', paths.CHECKOUT, '-c', '--exclude=*.pyc', 'lab'],
            capture_output=True,
            check=True,
        ).stdout
        subprocess.run(
            own.command(
                'rm -rf /run/rt && mkdir /run/rt && tar -C /run/rt -x'
            ),
            input=program,
            check=True,
        )
        own.run(
            f'systemd-run --quiet --unit {SAMPLER} '
            f'--working-directory /run/rt {paths.VENV}/bin/python -m '
            f'lab.measure.sampler {COURSE} --interval-ms 500'
        )
        yield
        own.run(f'systemctl stop {SAMPLER}')
        file = paths.RESULTS / f'storm-{own.host}.samples'
        file.write_text(own.run(f'cat {COURSE}'))
        seen = course.Course.read(file)
        print(f'\n{own.host}: {seen}', flush=True)
        allowed = course.budgets(self.before.hosts[own.host].free, None)
        over, drops = seen.over(allowed), seen.drops()
        counts['over-commitments'] += len(over)
        counts['losses'] += len(drops)
        self.assertEqual([], over)
        self.assertEqual([], drops)

    def kill_for(self, seconds, dice):
        """Kill nova-rt-compute of one node or the other.

        :returns: how often
        """
        kills = 0
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, dice.uniform(*CALM_S)))
            if time.monotonic() < deadline:
                own = dice.choice(node.nodes())
                own.run('systemctl kill --signal=KILL nova-compute')
                kills += 1
        return kills

    def sweep(self, prefix):
        """Delete servers and images without an owner.

        :returns: the ids of servers
        """
        user = User(prefix, SMALL, Tally())
        user.patience_s = on_nodes.ACTIVE_S
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
