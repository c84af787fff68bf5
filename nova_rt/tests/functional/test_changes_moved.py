# SPDX-License-Identifier: Apache-2.0
"""Changes without room on their hosts, for which Nova migrates servers."""

import datetime

import fixtures
from keystoneauth1 import adapter, session, token_endpoint

from nova_rt.cloud.records import ServerRecord
from nova_rt.conductor import changes as conductor_changes
from nova_rt.conductor import nova_api
from nova_rt.db import changes as db
from nova_rt.formats.changes import Condition, OnNoRoom
from nova_rt.reservation import wish
from nova_rt.reservation.reservation import Reservation
from nova_rt.tests.functional import changes
from nova_rt.tracking import servers

# The fixture knows no other with all rights.
_USER = 'admin'


class _Token(token_endpoint.Token):
    """An administrator, for the fixture that stands for Keystone."""

    def get_user_id(self, session, **more):
        return _USER

    def get_headers(self, session, **more):
        return {
            'X-Auth-User': _USER,
            'X-Auth-Project-Id': 'service',
            'X-Roles': 'admin,member,reader',
        }


class _Client(nova_api.NovaAPI):
    """The client of the conductors.

    :ivar patient: whether to leave the confirmation to others
    """

    def __init__(self, test):
        client = adapter.Adapter(
            session.Session(_Token(test.api.base_url, _USER)),
            service_type='compute',
        )
        super().__init__(client)
        self._test = test
        self.patient = False

    def confirm(self, server):
        if self.patient:
            raise nova_api.NoAnswer('not yet')
        # See MovesMixin.as_source().
        source = self._test.migration({'id': server}).source_compute
        self._test.flags(host=source)
        super().confirm(server)


class MovedTest(changes.AskedTestBase):
    CAST_AS_CALL = False

    def setUp(self):
        super().setUp()
        for name, value in (
            ('LEASE_S', 3), ('PAUSE_S', 0.1),
            ('_AGAIN', dict.fromkeys(
                conductor_changes._AGAIN, datetime.timedelta(seconds=0.2)
            )),
        ):  # fmt: skip
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'nova_rt.conductor.changes.{name}', value
                )
            )
        self.bus.nova = self.client = _Client(self)
        self.target = self.other(self.host)

    def ask(self, reservation, on_no_room=OnNoRoom.MIGRATE):
        now = datetime.datetime.now(datetime.UTC)
        found = ServerRecord.read(self.instance(self.server))
        return db.ask(
            found.change(Reservation.parse(reservation), on_no_room, now), None
        )

    def answer(self):
        return db.get(self.server['id']).answer

    def wait_for(self, condition):
        self._wait_for_assert(
            lambda: self.assertEqual(
                condition, self.answer().condition, self.answer()
            )
        )
        return self.answer()

    def wait_for_reason(self, text):
        self._wait_for_assert(
            lambda: self.assertIn(text, self.answer().reason)
        )

    def assert_stays(self):
        """The server is where it was, and takes no wish along later."""
        self.assertNotIn(wish.KEY, self.instance(self.server).system_metadata)
        self.assert_changed('400/1000')

    def test_it_moves(self):
        self.fill('500/1000', 4)
        self.ask('700/1000')
        self.bus.start()
        self.wait_for(Condition.APPLIED)
        self.assertEqual(self.target, self.host_of(self.server))
        self.assert_changed('700/1000', self.target)
        self.assertNotIn(wish.KEY, self.instance(self.server).system_metadata)

    def test_there_is_room(self):
        """No server moves without need, and none takes a wish along."""
        self.ask('600/1000')
        self.bus.start()
        self.wait_for(Condition.APPLIED)
        self.assert_changed('600/1000')
        self.assertNotIn(wish.KEY, self.instance(self.server).system_metadata)

    def test_too_large_for_this_host(self):
        """Another one may be larger; the wish goes with the request."""
        for migrate, condition in (
            (True, Condition.DEFERRED),
            (False, Condition.INFEASIBLE),
        ):
            answer = self.ask_change(
                self.server, '999/1000', migrate=migrate, generation=1
            )
            self.assertEqual(condition, answer.condition, answer)
            kept = self.instance(self.server).system_metadata.get(wish.KEY)
            self.assertEqual('999/1000' if migrate else None, kept)
        self.assert_changed('400/1000')

    def test_no_host(self):
        """It ends with Nova's reason, and the numbers of its host."""
        self.fill('500/1000', 4)
        for _ in range(4):
            self.create(self.rt_flavor('500/1000'), host=self.target)
        self.ask('700/1000')
        self.bus.start()
        answer = self.wait_for(Condition.INFEASIBLE)
        self.assertIn('No valid host', answer.reason)
        self.assertIn('asked 700000 ppm', answer.reason)
        self.assertEqual(700_000, answer.asked_ppm)
        self.assert_stays()
        # It asks no more, and operators may go on.
        self.bus.stop()
        self.confirm(self.migrate(self.server))
        self.assert_changed('400/1000', self.target)

    def test_reverted(self):
        self.client.patient = True
        self.fill('500/1000', 4)
        self.ask('700/1000')
        self.bus.start()
        self._wait_for_state_change(self.server, 'VERIFY_RESIZE')
        self.wait_for_reason('not yet')
        rec = servers.read_claimed(self.instance(self.server))
        self.assertEqual('700/1000', str(rec.request.reservation))
        self.revert(self.server)
        answer = self.wait_for(Condition.INFEASIBLE)
        self.assertIn('reverted', answer.reason)
        self.assert_stays()

    def test_deleted(self):
        self.client.patient = True
        self.fill('500/1000', 4)
        self.ask('700/1000')
        self.bus.start()
        self._wait_for_state_change(self.server, 'VERIFY_RESIZE')
        with self.as_source(self.server):
            self._delete_server(self.server)
        # Nova confirms its move first: the change may have ended by then.
        self._wait_for_assert(
            lambda: self.assertIn(self.state(), (None, Condition.APPLIED))
        )
        self.assertRaises(
            nova_api.Gone, self.client.find_server, self.server['id']
        )

    def state(self):
        found = db.get(self.server['id'])
        return None if found is None else found.answer.condition

    def test_without_credentials(self):
        self.bus.nova = None
        self.fill('500/1000', 4)
        self.ask('700/1000')
        self.bus.start()
        answer = self.wait_for(Condition.INFEASIBLE)
        self.assertIn('auth_type is not set', answer.reason)
        self.assert_stays()

    def test_a_conductor_is_killed_before(self):
        """Before its first call of each."""
        self.kill_in_each_step(after=False)

    def test_a_conductor_is_killed_after(self):
        """After its first call of each, whose answer is lost."""
        self.kill_in_each_step(after=True)

    def kill_in_each_step(self, after):
        steps = {
            'ask': conductor_changes.Hosts,
            'list_actions': nova_api.NovaAPI,
            'find_server': nova_api.NovaAPI,
            'migrate': nova_api.NovaAPI,
            'confirm': nova_api.NovaAPI,
            'note_move': db,
            'note': db,
        }
        left = set(steps)

        def kill(owner, name):
            original = getattr(owner, name)

            def call(*args, **kwargs):
                if name not in left:
                    return original(*args, **kwargs)
                left.discard(name)
                if after:
                    original(*args, **kwargs)
                raise SystemExit

            self.useFixture(fixtures.MockPatchObject(owner, name, call))

        for name, owner in steps.items():
            kill(owner, name)
        self.fill('500/1000', 4)
        self.ask('700/1000')
        self.bus.start(2)
        self.wait_for(Condition.APPLIED)
        self.assertEqual(set(), left)
        self.assert_changed('700/1000', self.target)
        moves = [
            each
            for each in self.api.get_instance_actions(self.server['id'])
            if each['action'] == 'migrate'
        ]
        self.assertEqual(1, len(moves), moves)
