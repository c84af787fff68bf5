# SPDX-License-Identifier: Apache-2.0
"""Resize and cold migration, confirmed and reverted.

Here is one of each, step by step; the random operations of ``property`` have
all kinds in all states.
"""

from nova_rt.tests.functional import moves

SMALL, LARGE = '400/1000', '700/1000'


class MovesTest(moves.MovesTestBase):
    """Moves on one host and between two, with all that is held meanwhile."""

    def check(self, old, new, same_host, how):
        """Follow a server through a move.

        :param old: its reservation before; None for a plain flavor
        :param new: the one that it is resized to; '' for cold migration
        :param how: confirm or revert
        """
        # Others, so that CPUs differ between the hosts and over time.
        flavors = {
            each: self.rt_flavor(each) for each in (SMALL, LARGE, '300/1000')
        }
        flavors[None] = self.plain_flavor()
        self.create(flavors['300/1000'], host='compute1')
        server = self.create(flavors[old])
        source = self.host_of(server)
        target = source if same_host else self.other(source)
        self.flags(allow_resize_to_same_host=same_host)
        if same_host:
            self.stay(source)
        self.assert_runs(server, old)
        before = self.instance(server).system_metadata.get('nova_rt')
        old_ppm = int(old.split('/')[0]) * 1000 if old else 0
        wanted = old if new == '' else new
        new_ppm = int(wanted.split('/')[0]) * 1000 if wanted else 0

        server = self.move(server, None if new == '' else flavors[new])
        self.assertEqual(target, self.host_of(server))
        during = self.assert_runs(server, wanted)
        expected = {source: (0, old_ppm), self.other(source): (0, 0)}
        if same_host:
            expected[source] = (new_ppm, old_ppm)
        else:
            expected[target] = (new_ppm, 0)
        self.audit()
        self.assertEqual(expected, self.ppm(server))
        self.assert_stable(server)
        migration = {'id': self.migration(server).uuid}
        self.assertEqual(new_ppm, self.allocated(server))
        self.assertEqual(old_ppm, self.allocated(migration))

        server = self.end(server, how)
        self.assertEqual({}, self.moving_keys(server))
        self.assertEqual(0, self.allocated(migration))
        if how == 'confirm':
            host, ppm = target, new_ppm
            self.assertEqual(during, self.assert_runs(server, wanted))
        else:
            host, ppm = source, old_ppm
            self.assert_runs(server, old)
            # On the CPUs that it never gave up.
            self.assertEqual(
                before, self.instance(server).system_metadata.get('nova_rt')
            )
        self.assertEqual(
            {host: (ppm, 0), self.other(host): (0, 0)}, self.ppm(server)
        )
        self.assertEqual(ppm, self.allocated(server))
        self.assert_stable(server)
        self._delete_server(server)
        self.assertEqual(dict.fromkeys(moves.HOSTS, (0, 0)), self.ppm(server))
        self.assert_sums()

    def test_larger_elsewhere_confirmed(self):
        self.check(SMALL, LARGE, False, 'confirm')

    def test_smaller_on_the_same_host_reverted(self):
        self.check(LARGE, SMALL, True, 'revert')

    def test_to_plain_elsewhere_reverted(self):
        self.check(SMALL, None, False, 'revert')

    def test_from_plain_on_the_same_host_confirmed(self):
        self.check(None, SMALL, True, 'confirm')

    def test_cold_migration_reverted(self):
        self.check(SMALL, '', False, 'revert')
