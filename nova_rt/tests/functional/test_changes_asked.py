# SPDX-License-Identifier: Apache-2.0
"""Changes that operators ask for: command, database, conductor, host."""

import datetime
import threading

from cliff import commandmanager
import fixtures

from nova_rt.conductor import changes as conductor_changes
from nova_rt.db import api
from nova_rt.db import changes as db
from nova_rt.formats.changes import Condition
from nova_rt.manage import app, reservation
from nova_rt.tests.fixtures import manage
from nova_rt.tests.functional import changes
from nova_rt.tracking import servers


class AskedTest(manage.CommandsMixin, changes.AskedTestBase):
    def setUp(self):
        super().setUp()
        self.commands = commandmanager.CommandManager(app.COMMANDS)
        self.commands.add_command('reservation set', reservation.Set)
        self.commands.add_command('reservation show', reservation.Show)

    def set(self, reservation, *words, code=0):
        return self.read(
            'reservation', 'set', self.server['id'], reservation, *words,
            code=code,
        )  # fmt: skip

    def show(self):
        return self.read('reservation', 'show', self.server['id'])

    def wait_for(self, condition):
        def check():
            self.assertEqual(condition, self.show()['Condition'])

        self._wait_for_assert(check)
        return self.show()

    def test_a_story(self):
        self.bus.start()
        found = self.show()
        self.assertEqual(
            ('Applied', '400/1000', '400/1000', 0),
            (found['Condition'], found['Desired'], found['Allocated'],
             found['Generation']),
        )  # fmt: skip
        found = self.set('600/1000', '--wait')
        self.assertEqual(
            ('Applied', '600/1000', '600/1000', '600/1000', 1),
            (found['Condition'], found['Desired'], found['Allocated'],
             found['Actual'], found['Generation']),
        )  # fmt: skip
        self.assert_changed('600/1000')
        self.set('200/1000', '--wait', '--generation', '1')
        self.assert_changed('200/1000')
        result = self.run_command(
            'reservation', 'set', self.server['id'], '300/1000',
            '--generation', '1',
        )  # fmt: skip
        self.assertEqual(1, result.code)
        self.assertIn('expected generation 1, found 2', result.err)
        self.assertEqual(2, self.show()['Generation'])

        def check():
            self.assertEqual(
                [('400/1000', False), ('600/1000', False),
                 ('200/1000', True)],
                [
                    (each.reservation, each.until is None)
                    for each in api.get_intervals(self.server['id'])
                ],
            )  # fmt: skip

        self._wait_for_assert(check)

    def test_audit(self):
        """It agrees with all places, and finds what heals by the flavor."""
        self.change(self.server, '600/1000')
        result = self.run_command('audit')
        self.assertEqual(0, result.code, result.out)
        self.set_allocation(400_000)
        result = self.run_command('audit', '--repair')
        self.assertIn('400000', result.out)
        self.assert_changed('600/1000')

    def set_allocation(self, ppm):
        """Do as "nova-manage placement heal_allocations --force" does."""
        url = f'/allocations/{self.server["id"]}'
        found = self.placement.get(url, version='1.28').body
        for each in found['allocations'].values():
            each.pop('generation', None)
            each['resources']['CUSTOM_RT_BANDWIDTH'] = ppm
        done = self.placement.put(url, found, version='1.28')
        self.assertEqual(204, done.status)

    def test_no_room(self):
        self.bus.start()
        self.fill('500/1000', 4)
        found = self.set('600/1000', '--wait', code=1)
        self.assertEqual(
            ('Infeasible', '600/1000', '400/1000', 600_000),
            (found['Condition'], found['Desired'], found['Allocated'],
             found['Asked ppm']),
        )  # fmt: skip
        self.assertLess(found['Free ppm'], 600_000)
        self.assertIn('CPU of its own', found['Rule'])

    def test_deferred(self):
        """It is applied when another server is deleted."""
        self.bus.start()
        others = self.fill('500/1000', 4)
        self.set('700/1000', '--on-no-room', 'defer')
        self.assertIn('free', self.wait_for('Deferred')['Reason'])
        # In less than the minute after which it is due by itself.
        for each in others:
            self._delete_server(each)
        self.wait_for('Applied')
        self.assert_changed('700/1000')

    def test_no_conductor(self):
        """The wish is kept until one is there."""
        found = self.set('600/1000', '--wait', '--timeout', '1', code=1)
        self.assertEqual('InProgress', found['Condition'])
        self.assert_changed('400/1000')
        self.bus.start()
        self.wait_for('Applied')
        self.assert_changed('600/1000')

    def test_a_conductor_is_killed(self):
        """Another takes over, before the host was asked or after it."""
        original = conductor_changes.Hosts.ask
        over = threading.Event()
        self.addCleanup(over.set)
        for name, value in ('LEASE_S', 1), ('PAUSE_S', 0.1):
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'nova_rt.conductor.changes.{name}', value
                )
            )
        for wish, after in ('600/1000', False), ('200/1000', True):
            killed = []

            def ask(hosts, change, after=after, killed=killed):
                if killed:
                    return original(hosts, change)
                killed.append(change)
                if after:
                    original(hosts, change)
                over.wait()
                raise SystemExit

            with fixtures.MockPatchObject(conductor_changes.Hosts, 'ask', ask):
                self.bus.start(2)
                self.set(wish)
                self.wait_for('Applied')
                self.bus.stop()
            self.assertEqual(1, len(killed))
            self.assert_changed(wish)

    def test_a_host_is_away(self):
        """Its answer is missing: it is asked again, once or more."""
        for name, value in (
            ('TIMEOUT_S', 1), ('LEASE_S', 2), ('PAUSE_S', 0.1),
            ('_AGAIN', {Condition.IN_PROGRESS: datetime.timedelta()}),
        ):  # fmt: skip
            self.useFixture(
                fixtures.MonkeyPatch(f'nova_rt.conductor.changes.{name}',
                                     value)
            )  # fmt: skip
        self.computes[self.host].stop()
        self.set('600/1000')
        self.bus.start()
        self._wait_for_assert(
            lambda: self.assertIn('no answer', self.show()['Reason'])
        )
        self.restart_compute_service(self.host)
        self.wait_for('Applied')
        self.audit()
        self.assert_changed('600/1000')

    def test_moved_meanwhile(self):
        """The old host says where the server is now."""
        self.set('600/1000')
        self.confirm(self.migrate(self.server))
        self.bus.start()
        found = self.wait_for('Applied')
        self.assertEqual(self.other(self.host), found['Host'])
        self.assert_changed('600/1000', self.other(self.host))

    def test_resized(self):
        """Another flavor ends the change."""
        self.set('600/1000')
        self.confirm(self.resize(self.server, self.rt_flavor('300/1000')))
        found = self.show()
        self.assertEqual(
            ('Applied', '300/1000'), (found['Condition'], found['Desired'])
        )
        self.bus.start()
        self._wait_for_assert(
            lambda: self.assertEqual(
                Condition.INFEASIBLE,
                db.get(self.server['id']).answer.condition,
            )
        )
        self.assert_changed('300/1000', self.host_of(self.server))

    def test_resized_away_and_back(self):
        self.bus.start()
        self.set('600/1000', '--wait')
        for flavor in self.rt_flavor('300/1000'), self.flavor:
            self.confirm(self.resize(self.server, flavor))
        host = self.host_of(self.server)
        found = self.show()
        self.assertEqual(
            ('Applied', '400/1000', '400/1000', '', 1),
            (found['Condition'], found['Desired'], found['Allocated'],
             found['Actual'], found['Generation']),
        )  # fmt: skip
        answer = self.ask_change(self.server, '600/1000', generation=1)
        self.assertEqual(Condition.INFEASIBLE, answer.condition)
        self.assertIn('resized to another flavor', answer.reason)
        self.assert_changed('400/1000', host)
        instance = self.instance(self.server)
        servers.write_record(
            instance,
            servers.read_record(instance).with_runtime(600),
        )
        instance.save()
        result = self.run_command('audit')
        self.assertEqual(1, result.code)
        self.assertIn('400/1000', result.out)
        servers.write_record(
            instance,
            servers.read_record(instance).with_runtime(400),
        )
        instance.save()
        self.set('500/1000', '--wait')
        self.assertEqual(2, self.show()['Generation'])
        self.assert_changed('500/1000', host)

    def test_deleted(self):
        self.set('600/1000')
        self._delete_server(self.server)
        self.bus.start()
        self._wait_for_assert(
            lambda: self.assertIsNone(db.get(self.server['id']))
        )

    def test_bounds_of_today(self):
        """They are for other periods than that of the server."""
        self.flags(group='nova_rt', min_period_us=2000)
        words = 'reservation', 'set', self.server['id']
        result = self.run_command(*words, '300/1500')
        self.assertEqual(2, result.code, result.err)
        self.assertIn('2000', result.err)
        result = self.run_command(*words, '300/1000')
        self.assertEqual(0, result.code, result.err)

    def test_refused(self):
        for words, code, text in (
            ((self.server['id'], '1'), 2, 'is not a reservation'),
            (('nonsense', '100/1000'), 1, 'no server nonsense'),
            ((self.server['id'], '100/1000', '--on-no-room', 'migrate'), 2,
             'auth_type is not set'),
            ((self.create(self.plain_flavor())['id'], '100/1000'), 1,
             'with a reservation'),
        ):  # fmt: skip
            result = self.run_command('reservation', 'set', *words)
            self.assertEqual(code, result.code, result.err)
            self.assertIn(text, result.err)
        self.resize(self.server, self.rt_flavor('300/1000'))
        result = self.run_command(
            'reservation', 'set', self.server['id'], '100/1000'
        )
        self.assertEqual(1, result.code)
        self.assertIn('resized', result.err)
        self.assertIsNone(db.get(self.server['id']))
