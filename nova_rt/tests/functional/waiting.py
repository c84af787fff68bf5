# SPDX-License-Identifier: Apache-2.0
"""Nova's helpers that wait, with a deadline that a busy machine meets.

Nova polls ten times, twice a second: too few on a machine that does something
else as well, and too slow on one that does not.
"""

import time

from nova.tests.functional import integrated_helpers

DEADLINE_S = 60
POLL_S = 0.05
#: Of an action that a test holds up, or kills, no more is waited for.
SETTLE_S = 5


class _Clock:
    """The module ``time`` with short sleeps, for Nova's helpers alone."""

    def __getattr__(self, name):
        return getattr(time, name)

    @staticmethod
    def sleep(seconds):
        time.sleep(min(seconds, POLL_S))


def _wait(name):
    def wait(self, *args, **kwargs):
        original = getattr(super(PatientMixin, self), name)
        return self._patiently(lambda: original(*args, **kwargs))

    return wait


class PatientMixin:
    """Put before a class of Nova's that has InstanceHelperMixin."""

    def setUp(self):
        self.stub_out(f'{integrated_helpers.__name__}.time', _Clock())
        super().setUp()

    def _patiently(self, wait):
        """Call one of Nova's helpers until it does not fail."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                return wait()
            except AssertionError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(POLL_S)

    def _wait_for_service_parameter(self, *args, **kwargs):
        return self._patiently(
            lambda: super(PatientMixin, self)._wait_for_service_parameter(
                *args, **{**kwargs, 'max_retries': 1}
            )
        )

    def _wait_for_server_parameter(
        self,
        server,
        expected_params,
        max_retries=None,
        api=None,
        wait_for_fault_key=True,
    ):
        found = self._patiently(
            lambda: super(PatientMixin, self)._wait_for_server_parameter(
                server, expected_params, 1, api, wait_for_fault_key
            )
        )
        if not self.CAST_AS_CALL:
            self._settle(server)
        return found

    def _wait_for_instance_action_event(self, server, action, event, result):
        """Wait for an event of the newest of these actions.

        Nova's helper takes that of an earlier one as well.
        """
        api = getattr(self, 'admin_api', self.api)

        def look():
            newest = [
                each['request_id']
                for each in api.get_instance_actions(server['id'])
                if each['action'] == action
            ][:1]
            self.assertTrue(newest, action)
            events = api.get_instance_action_details(server['id'], *newest)[
                'events'
            ]
            for each in events:
                if (each['event'], each['result']) == (event, result.title()):
                    return each
            self.fail(f'{action}: no {event} with {result} in {events}')

        return self._patiently(look)

    def _settle(self, server):
        """Wait until the last action of a server has ended.

        Nova saves a server's new state in the middle of it.
        """
        api = getattr(self, 'admin_api', self.api)
        deadline = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline:
            last = api.get_instance_actions(server['id'])[0]
            events = api.get_instance_action_details(
                server['id'], last['request_id']
            )['events']
            if events and all(event['finish_time'] for event in events):
                return
            time.sleep(POLL_S)

    def _wait_for_assert(self, assert_func, max_retries=None, sleep=None):
        return self._patiently(assert_func)

    def _wait_for_server_allocations(self, consumer_id, max_retries=None):
        return self._patiently(
            lambda: super(PatientMixin, self)._wait_for_server_allocations(
                consumer_id, 1
            )
        )

    _wait_for_migration_status = _wait('_wait_for_migration_status')
    _wait_for_log = _wait('_wait_for_log')

    def _wait_until_deleted(self, server):
        """Wait until a server is gone; an ERROR on the way fails the test."""
        was_in_error = server.get('status') == 'ERROR'
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                status = self.api.get_server(server['id'])['status']
            except integrated_helpers.api_client.OpenStackApiNotFoundException:
                return
            if status == 'ERROR' and not was_in_error:
                self.fail('the server went to ERROR, not away')
            self.assertLess(time.monotonic(), deadline, 'not deleted')
            time.sleep(POLL_S)
