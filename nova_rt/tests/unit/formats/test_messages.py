# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.formats.messages."""

import copy
import json

import ddt
from oslotest import base

from nova_rt import exception
from nova_rt.formats import messages
from nova_rt.formats.reports import HostCPU, Origin
from nova_rt.tests.fixtures.reports import (
    account,
    event,
    held,
    make_uuid,
    state,
)

STATE = messages.write_state(
    state(held(), held('drifted', make_uuid(2)), host_cpu=HostCPU(1, 2))
)
EVENTS = messages.write_events([event(1, 'claimed'), event(2, 'stopped')], 7)
USAGE = messages.write_usage([account(), account(1, used_us=None)])
READERS = (
    (STATE, lambda message: messages.read_state(message, 1, 1)),
    (EVENTS, messages.read_events),
    (USAGE, messages.read_usage),
)
#: Values that stand where something else should.
BAD = (
    None, True, -1, 2**63, 10**30, 1.5, '', 'x' * 70_000, "' OR 1=1 --", '\0',
    '\ud800', 'é', [], [[]], [1] * 5, {}, {'': None}, {'a': {}},
)  # fmt: skip


def places(value, path=()):
    """Every place in a message, with what stands there."""
    yield path, value
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from places(each, (*path, index))


def put(message, path, value):
    """A copy of a message with something else in one place."""
    if not path:
        return value
    changed = copy.deepcopy(message)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed


@ddt.ddt
class MessagesTest(base.BaseTestCase):
    def test_are_read_as_they_were_written(self):
        new = state(held(), host_cpu=HostCPU(1, 2), seq=5, event_seq=4)
        wire = json.loads(json.dumps(messages.write_state(new)))
        self.assertEqual(new, messages.read_state(wire, 1, 5))
        some = [event(1, 'claimed'), event(2, 'refused')]
        wire = json.loads(json.dumps(messages.write_events(some, 7)))
        self.assertEqual((some, 7), messages.read_events(wire))
        some = [event(1, 'claimed', origin=Origin('req-1', 'u', 'p' * 64))]
        wire = json.loads(json.dumps(messages.write_events(some)))
        self.assertEqual((some, 0), messages.read_events(wire))
        # Of a version that does not know it, or does not mean it.
        for bad in (None, [], [1, 2], 'x', ['a' * 99, '\n', None]):
            wire['events'][0]['origin'] = bad
            (found,), _ = messages.read_events(wire)
            self.assertLessEqual(len(found.origin.request_id), 64)
        del wire['events'][0]['origin']
        (found,), _ = messages.read_events(wire)
        self.assertEqual(Origin(), found.origin)
        hours = [account(), account(1, used_us=None)]
        wire = json.loads(json.dumps(messages.write_usage(hours)))
        self.assertEqual(hours, messages.read_usage(wire))
        # A later version may say more.
        wire['hours'][0] += ['more', None]
        self.assertEqual(hours, messages.read_usage(wire))

    @ddt.data(*range(len(READERS)))
    def test_anything_else_is_refused(self, which):
        """Anything anywhere: it is read, or refused, and nothing else."""
        message, read = READERS[which]
        refused = 0
        for path, before in places(message):
            for bad in BAD:
                if bad == before:
                    continue
                try:
                    read(put(message, path, bad))
                except exception.InvalidReport as err:
                    refused += 1
                    self.assertLess(len(str(err)), 500)
        self.assertGreater(refused, 100)

    @ddt.data(*range(len(READERS)))
    def test_what_is_missing_is_refused(self, which):
        message, read = READERS[which]
        for key in message:
            less = {name: message[name] for name in message if name != key}
            if key == 'host' and message is STATE:
                read(less)
                continue
            self.assertRaises(exception.InvalidReport, read, less)

    @ddt.data(*range(len(READERS)))
    def test_a_newer_version_is_refused_with_both_numbers(self, which):
        message, read = READERS[which]
        err = self.assertRaises(
            exception.InvalidReport, read, {**message, 'v': 2}
        )
        self.assertIn('version 2', str(err))
        self.assertIn('version 1', str(err))
        read({**message, 'new': 'field'})

    def test_the_same_server_twice(self):
        twice = {**STATE, 'servers': [STATE['servers'][0]] * 2}
        self.assertRaises(
            exception.InvalidReport, messages.read_state, twice, 1, 1
        )

    def test_too_many(self):
        many = {**EVENTS, 'events': EVENTS['events'][:1] * 501}
        self.assertRaises(exception.InvalidReport, messages.read_events, many)
        many = {**USAGE, 'hours': USAGE['hours'][:1] * 501}
        self.assertRaises(exception.InvalidReport, messages.read_usage, many)

    def test_details_are_one_line_for_any_database(self):
        dirty = put(EVENTS, ('events', 0, 'details'), 'a\0b\nc\ud800d\x1b[2J')
        (first, _), _ = messages.read_events(dirty)
        self.assertEqual('a b c d [2J', first.details)
        long = put(EVENTS, ('events', 0, 'details'), 'x' * 10**6)
        (first, _), _ = messages.read_events(long)
        self.assertEqual(1000, len(first.details))

    @ddt.data('', 'a b', 'x' * 256, 'ho\nst', None, 7, 'é')
    def test_no_host(self, name):
        self.assertRaises(exception.InvalidReport, messages.read_host, name)

    def test_a_host(self):
        for name in 'compute-1.example.org', 'x' * 255:
            self.assertEqual(name, messages.read_host(name))
