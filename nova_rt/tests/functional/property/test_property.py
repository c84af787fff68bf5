# SPDX-License-Identifier: Apache-2.0
"""Random sequences of operations keep the promise.

NOVA_RT_PROPERTY_STEPS says how many operations to do; none without it, since
they take long. NOVA_RT_PROPERTY_SEED says which ones. Without a seed, the same
ones are done each time.
"""

import collections
import itertools
import os
import random

import hypothesis
from hypothesis import stateful
from nova import monkey_patch
import testtools
from testtools import content

from nova_rt.tests.functional.property import cloud, machine

STEPS = int(os.environ.get('NOVA_RT_PROPERTY_STEPS', '0'))
SEED = int(os.environ.get('NOVA_RT_PROPERTY_SEED', '0'))
#: Operations of one sequence, beside those that it begins with.
LENGTH = 20


class Supply:
    """Clouds, one at a time: to make one takes seconds.

    :ivar done: name of an operation, with its outcome -> how often
    :ivar done_boosts: boosted servers, summed over all operations
    """

    #: Sequences on one cloud. Deleted servers stay in its database, its log
    #: in memory.
    SEQUENCES = 10

    def __init__(self):
        self.done = collections.Counter()
        self.done_boosts = 0
        self._cloud = None
        self._left = 0

    def take(self):
        """Get a cloud without servers."""
        if not self._left:
            self.drop()
            self._cloud = cloud.Cloud('idle')
            # Hypothesis seeds it anew for each sequence, and the fixtures
            # draw names of databases from it, which must differ.
            state = random.getstate()
            random.seed()
            try:
                self._cloud.setUp()
            finally:
                random.setstate(state)
            self._left = self.SEQUENCES
        self._left -= 1
        self._cloud.forget()
        return self._cloud

    def drop(self):
        """Take the cloud down."""
        self._left = 0
        if self._cloud is not None:
            gone, self._cloud = self._cloud, None
            gone.tearDown()
            gone.doCleanups()


class PropertyTest(testtools.TestCase):
    """Two halves, so that two workers can share them."""

    def setUp(self):
        super().setUp()
        if not STEPS:
            self.skipTest('NOVA_RT_PROPERTY_STEPS says how many to do')
        if monkey_patch.is_patched():
            self.skipTest('runs on native threads, as nova-compute does')

    def check(self, steps, seed):
        supply = Supply()
        self.addCleanup(supply.drop)
        # Sequences differ in length: batches come closer and closer.
        for batch in itertools.count():
            left = steps - supply.done.total()
            if left <= 0:
                break
            settings = hypothesis.settings(
                max_examples=1 + left // (2 * LENGTH),
                stateful_step_count=LENGTH,
                deadline=None,
                # Nothing is written to the directory that the tests run in.
                database=None,
                phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
                suppress_health_check=list(hypothesis.HealthCheck),
            )
            stateful.run_state_machine_as_test(
                hypothesis.seed(f'{seed} {batch}')(
                    lambda: machine.Machine(supply)
                ),
                settings=settings,
            )
        lines = [f'{times:6} {name}' for name, times in supply.done.items()]
        lines.append(f'{supply.done.total():6} operations, seed {seed}')
        # Else nothing was said about boosts.
        self.assertGreater(supply.done_boosts, 0)
        lines.append(f'{supply.done_boosts:6} boosted servers met')
        self.addDetail(
            'operations', content.text_content('\n'.join(sorted(lines)))
        )

    def test_first_half(self):
        self.check(-(-STEPS // 2), 2 * SEED)

    def test_second_half(self):
        self.check(-(-STEPS // 2), 2 * SEED + 1)
