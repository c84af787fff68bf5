# SPDX-License-Identifier: Apache-2.0
"""The privileged side of reservations of nova-rt-sched, and its protocol."""

import errno
from unittest import mock

from oslotest import base

from nova_rt.privsep import sched
from nova_rt.tests.fixtures import kernel, machine


class SchedTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.kernel = self.useFixture(kernel.make('v2-sched-ext'))
        root = self.kernel.files.cgroup.parent
        calls = machine.FakeSystemCalls(self.kernel, root)
        self.helper = sched.SchedHelper(calls)
        self.group = self.kernel.add_container(7, 'web', (1,))
        self.name = f'/machine/{self.group.name}'
        self.daemon = self.kernel.daemon

    def refused(self, number, call, *args):
        err = self.assertRaises(OSError, call, *args)
        self.assertEqual(number, err.errno)
        return str(err)

    def test_reserve_and_release(self):
        self.helper.reserve(str(self.group), 600, 1000, '1')
        self.assertEqual([self.name], [*self.daemon.held])
        self.helper.release(str(self.group))
        self.assertEqual({}, self.daemon.held)

    def test_other_groups(self):
        """No group outside the partition, by any way to write it."""
        root = self.kernel.root
        self.kernel.make_group(root / 'other')
        self.kernel.make_group(self.kernel.partition / 'a b')
        for path in (
            root / 'other', root, self.kernel.partition,
            f'{self.group}/../../other', f'{self.group}/.',
            self.kernel.partition / 'a b', 'other', '/machine',
            f'{self.group} 1 2 3', f'{self.group}\nclear /other',
        ):  # fmt: skip
            for call in (
                lambda path: self.helper.reserve(path, 600, 1000, '1'),
                self.helper.release,
            ):
                self.refused(errno.EACCES, call, str(path))
        self.assertEqual({}, self.daemon.held)

    def test_group_that_is_gone(self):
        self.refused(
            errno.ENOENT, self.helper.release, str(self.group / 'gone')
        )

    def test_cpus(self):
        for cpus in ('', 'all', '1,', '1 2', '1\nclear /x', '-1'):
            self.refused(
                errno.EINVAL,
                self.helper.reserve, str(self.group), 600, 1000, cpus,
            )  # fmt: skip
        self.helper.reserve(str(self.group), 600, 1000, '1-2,3')

    def test_refusal_of_the_daemon(self):
        text = self.refused(
            errno.EBUSY, self.helper.reserve, str(self.group), 950, 1000, '1'
        )
        self.assertIn('asked=956000 free=950000 rule=asked<=free cpu=1', text)

    def test_another_protocol(self):
        self.daemon.answer = lambda line: 'error ENONSENSE what\n'
        self.refused(errno.EIO, self.helper.release, str(self.group))

    def test_daemon_that_others_keep_busy(self):
        """Its queue may be full, for which connect() does not wait."""
        connection = mock.Mock()
        connection.connect.side_effect = [BlockingIOError] * 3 + [None]
        with mock.patch.object(sched.time, 'sleep') as sleep:
            sched._connect(connection, '/socket')
            self.assertEqual(3, sleep.call_count)
            connection.connect.side_effect = BlockingIOError
            with mock.patch.object(sched, '_PATIENCE_S', 0):
                self.assertRaises(
                    TimeoutError, sched._connect, connection, '/socket'
                )

    def test_no_daemon(self):
        self.kernel.stop_daemon()
        self.refused(errno.ECONNREFUSED, self.helper.release, str(self.group))
