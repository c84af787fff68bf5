# SPDX-License-Identifier: Apache-2.0
"""Reports of a server's life to an operator, from commands and metrics."""

from tempest import config
from tempest.lib import decorators

from nova_rt_tempest_plugin import reports
from nova_rt_tempest_plugin.hosts import load
from nova_rt_tempest_plugin.tests import base
from nova_rt_tempest_plugin.tests.scenario import capacity

CONF = config.CONF

#: Part of the time that may be missing, or too much: there are kernels that
#: count ordinary tasks in one place alone.
_ELSEWHERE = 0.2


class StoryTest(capacity.HostTest):
    """The commands, the exporter and the server itself tell the same."""

    @classmethod
    def skip_checks(cls):
        super().skip_checks()
        if not CONF.nova_rt.manage_command:
            raise cls.skipException('[nova_rt] manage_command is not set')

    def metric(self, server, name):
        """Return a metric of one server."""
        found = reports.of_server(self.there, server)
        return found.get(f'nova_rt_server_{name}')

    def assert_history(self, server, *events):
        """This and nothing else has happened to a server."""
        self.wait_until_equal(
            list(events), lambda: reports.history(server), 'history'
        )

    @decorators.idempotent_id('5a1e8d4f-2a6b-4bb7-8d0c-0c2f8f3a7e41')
    def test_damaged_and_repaired(self):
        server = self.boot_there(CONF.nova_rt.reservation)['id']
        cpus = self.assert_agree(server)
        self.assert_history(server, 'claimed', 'applied')

        damages = self.damage(server)
        self.assertEqual(cpus, self.assert_agree(server))

        events = ['claimed', 'applied', *['drifted', 'repaired'] * damages]
        self.assert_history(server, *events)
        self.delete(server)
        self.assert_history(server, *events, 'released')

    def damage(self, server):
        """Damage until the exporter tells it; how often that was needed.

        The compute service may check, and repair, before the exporter reads
        the kernel again. The next check is a whole interval away then, so
        that the second damage is seen.
        """
        for times in (1, 2):
            self.container(server).set_held(CONF.nova_rt.small_reservation)
            seen = False

            def repaired(times=times):
                nonlocal seen
                seen = seen or self.metric(server, 'drifted') == 1
                return reports.history(server).count('repaired') == times

            self.wait_for(
                repaired, 'it is not repaired', CONF.nova_rt.repair_timeout
            )
            if seen:
                self.wait_until_equal(
                    0, lambda: self.metric(server, 'drifted'), 'drift left'
                )
                return times
        self.fail('the exporter tells no drift')

    @decorators.idempotent_id('5a1e8d4f-2a6b-4bb7-8d0c-0c2f8f3a7e42')
    def test_host_and_server(self):
        reservation = CONF.nova_rt.reservation
        server = self.boot_there(reservation)['id']
        (cpu,) = self.assert_agree(server)

        def listed():
            return [row['Server'] for row in reports.manage('server', 'list')]

        self.assertIn(server, listed())
        shown = reports.manage('server', 'show', server)
        self.assertEqual(self.there.name, shown['Host'])
        self.assertEqual(base.ppm(reservation), shown['Total ppm'])

        def reserved():
            rows = reports.manage('host', 'show', self.there.name)
            (row,) = (row for row in rows if row['CPU'] == cpu)
            # Others may have servers there as well.
            return (
                row['Reserved ppm'] >= base.ppm(reservation)
                and row['Servers'] >= 1
            )

        self.wait_for(reserved, 'the host shows no reservation')

        self.delete(server)
        self.wait_for(lambda: server not in listed(), 'it is still listed')

    @decorators.idempotent_id('5a1e8d4f-2a6b-4bb7-8d0c-0c2f8f3a7e43')
    def test_used_time(self):
        """The exporter counts as the kernel."""
        found = self.container(self.boot_there(CONF.nova_rt.reservation)['id'])
        idle = len(found.processes())

        def counted_s():
            by_cpu = self.metric(found.server, 'cpu_used_seconds_total')
            return sum(by_cpu.values())

        # Its first reading of the server comes when the one before is old.
        self.wait_for(
            lambda: self.metric(found.server, 'cpu_used_seconds_total'),
            'no time is counted',
        )
        before_s = found.used_ns() / 10**9 - counted_s()
        seconds = CONF.nova_rt.measure_seconds
        load.hog(found, seconds, spare_s=0)
        self.wait_for(
            lambda: len(found.processes()) == idle,
            'the loop does not end',
            seconds + CONF.nova_rt.settle_timeout,
        )
        used_s = found.used_ns() / 10**9 - before_s
        allowed_s = _ELSEWHERE * seconds * base.ppm(CONF.nova_rt.reservation)
        allowed_s /= 10**6
        self.wait_for(
            lambda: counted_s() >= used_s - allowed_s,
            f'less than {used_s - allowed_s} s is counted',
        )
        self.assertLessEqual(counted_s(), used_s + allowed_s)
