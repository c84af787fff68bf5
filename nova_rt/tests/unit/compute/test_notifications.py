# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.compute.notifications."""

from oslotest import base

from nova_rt import events
from nova_rt.compute import notifications
from nova_rt.reservation import extra_specs
from nova_rt.reservation.record import Record
from nova_rt.tests.fixtures import specs

UUID = '6a1f2c1e-0c55-4d5e-9e0b-3a8f0f7d0001'

_FIRST = {
    'uuid': 'UUID', 'host': 'String', 'runtime_us': 'Integer',
    'period_us': 'Integer', 'bandwidth_ppm': 'Integer', 'cpus': 'List',
    'enforcement': 'String', 'policy': 'String', 'priority': 'Integer',
    'action': 'String', 'details': 'String',
}  # fmt: skip

#: The fields of each version. One that was released never changes: new fields
#: take a new version here and in the class.
VERSIONS = {
    '1.0': _FIRST,
    '1.1': _FIRST | {'numa': 'String'},
    '1.2': _FIRST
    | {
        'numa': 'String',
        'at_us': 'Integer',
        'request_id': 'String',
        'user_id': 'String',
        'project_id': 'String',
    },
}
VERSIONS['1.3'] = VERSIONS['1.2'] | {
    'runtime_min': 'Integer', 'runtime_max': 'Integer',
}  # fmt: skip
VERSIONS['1.4'] = VERSIONS['1.3'] | {'adapt': 'String'}
VERSIONS['1.5'] = VERSIONS['1.4'] | {
    'spare': 'String', 'spare_priority': 'Integer',
}  # fmt: skip
VERSIONS['1.6'] = VERSIONS['1.5'] | {
    'startup_runtime': 'Integer', 'startup_s': 'Integer',
}  # fmt: skip


def make(event):
    payload = notifications.RTReservationPayload('one', event, 7)
    return payload.obj_to_primitive()['nova_object.data']


class PayloadTest(base.BaseTestCase):
    def test_fields_of_the_version(self):
        payload = notifications.RTReservationPayload
        self.assertEqual(
            VERSIONS[payload.VERSION],
            {
                name: type(field.AUTO_TYPE or field._type).__name__
                for name, field in payload.fields.items()
            },
        )
        self.assertEqual([*VERSIONS][-1], payload.VERSION)

    def test_every_extra_spec(self):
        request = specs.make_unusual()
        said = make(events.Claimed(UUID, Record(request, (3, 7))))
        plain = request.plain()
        del plain['reservation']
        self.assertEqual({*extra_specs.SPECS}, {*plain, 'reservation'})
        self.assertEqual(plain, {name: said[name] for name in plain})
        self.assertEqual(
            (700, 1300, request.reservation.ppm, [3, 7]),
            tuple(
                said[name]
                for name in (
                    'runtime_us', 'period_us', 'bandwidth_ppm', 'cpus'
                )
            ),
        )  # fmt: skip

    def test_event_without_a_record(self):
        said = make(events.Stopped(UUID, 'why'))
        self.assertEqual(
            ('why', 'one', 7), (said['details'], said['host'], said['at_us'])
        )
        for name in notifications._OF_RECORDS:
            self.assertIsNone(said[name])
