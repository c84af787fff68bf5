# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.lxc.id_ranges: no two servers, one range."""

import contextlib
import threading

import fixtures
import libvirt
from lxml import etree
from nova import objects
from oslo_utils.fixture import uuidsentinel as uuids
from oslotest import base

from nova_rt import exception
from nova_rt.id_pool import SIZE, IDPool
from nova_rt.lxc import id_ranges

FIRST = 2000224256


def xml(*maps, rest=''):
    found = ''.join(
        f'<{kind} start="0" target="{target}" count="{count}"/>'
        for kind, target, count in maps
    )
    return f'<domain type="lxc">{rest}<idmap>{found}</idmap></domain>'


def of(number, count=SIZE):
    """A domain that has that range of the pool."""
    target = FIRST + number * SIZE
    return xml(('uid', target, count), ('gid', target, count))


class Guest:
    def __init__(self, uuid, live, inactive):
        self.uuid, self.live, self.inactive = uuid, live, inactive
        self.reads = 0

    def get_xml_desc(self, dump_inactive=False):
        self.reads += 1
        found = self.inactive if dump_inactive else self.live
        if isinstance(found, Exception):
            raise found
        return found


def error(code):
    err = libvirt.libvirtError('no')
    err.err = (code, 0, 'no', 0, None, None, None, 0, 0)
    return err


class Hypervisor:
    """A fake of Nova's Host, which answers list_guests()."""

    def __init__(self):
        self.domains = {}
        self.error = None

    def define(self, uuid, live, inactive=None):
        self.domains[uuid] = Guest(uuid, live, inactive or live)

    def list_guests(self, only_running):
        assert not only_running
        if self.error:
            raise self.error
        return list(self.domains.values())


class IDRangesTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.libvirt = Hypervisor()
        self.restart()

    def restart(self, ranges=4):
        """As the service does: it remembers nothing."""
        self.ranges = id_ranges.IDRanges(
            IDPool(FIRST, ranges * SIZE), self.libvirt
        )

    @staticmethod
    def instance(name, kept=None):
        return objects.Instance(
            uuid=getattr(uuids, name),
            system_metadata={} if kept is None else {id_ranges.KEY: kept},
        )

    def start(self, name, kept=None):
        """Start a server, whose domain has the range then."""
        instance = self.instance(name, kept)
        with self.ranges.starting(instance) as first:
            self.assertEqual(
                str(first), instance.system_metadata[id_ranges.KEY]
            )
            number = (first - FIRST) // SIZE
            self.libvirt.define(instance.uuid, of(number))
        return number

    def test_each_has_its_own(self):
        self.assertEqual([0, 1, 2], [self.start(name) for name in 'abc'])

    def test_many_starts(self):
        """Each has its own domain read, and not those of all others."""
        self.restart(50)
        names = [f'server{number}' for number in range(50)]
        self.assertEqual(list(range(50)), [self.start(n) for n in names])
        reads = [guest.reads for guest in self.libvirt.domains.values()]
        self.assertLessEqual(max(reads), 2)

    def test_domain_that_others_define(self):
        """It is seen, a moment later at the latest."""
        now = 1000.0
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_rt.lxc.id_ranges.time.monotonic', lambda: now
            )
        )
        self.start('a')
        self.libvirt.define(uuids.other, of(1))
        self.assertEqual(2, self.start('b'))
        self.libvirt.define(uuids.other, of(3))
        now += 60
        self.assertEqual(1, self.start('c'))
        self.restart(5)
        self.assertEqual(4, self.start('d'))

    def test_the_same_again(self):
        self.start('a')
        self.start('b')
        self.restart()
        self.assertEqual(1, self.start('b'))
        del self.libvirt.domains[uuids.b]
        self.assertEqual(1, self.start('b', kept=str(FIRST + SIZE)))
        self.assertEqual(3, self.start('c', kept=str(FIRST + 3 * SIZE)))

    def test_taken_meanwhile(self):
        self.start('a')
        self.assertEqual(1, self.start('b', kept=str(FIRST)))

    def test_what_is_kept_means_nothing(self):
        self.start('a')
        for text in (
            '0', '1', '-1', str(FIRST - SIZE), str(FIRST + 1),
            str(FIRST + 4 * SIZE), f' {FIRST + SIZE}', f'+{FIRST + SIZE}',
            '9' * 200, 'root', '', '\x00', '\u0661',
        ):  # fmt: skip
            with self.subTest(text):
                self.assertEqual(1, self.start('b', kept=text))
                del self.libvirt.domains[uuids.b]

    def test_under_way(self):
        """No domain has it yet, and nobody else gets it."""
        with contextlib.ExitStack() as stack:
            found = [
                stack.enter_context(self.ranges.starting(self.instance(name)))
                for name in 'abcd'
            ]
            self.assertEqual(4, len(set(found)))
            self.assert_exhausted('e')
        self.assertEqual(0, self.start('e'))

    def test_a_start_that_fails_keeps_nothing(self):
        with contextlib.suppress(ValueError):
            with self.ranges.starting(self.instance('a')):
                raise ValueError
        self.assertEqual(0, self.start('b'))

    def test_within_a_start(self):
        """Mounting, and the definition, have the same range."""
        instance = self.instance('a')
        with self.ranges.starting(instance) as outer:
            with self.ranges.starting(instance) as inner:
                self.assertEqual(outer, inner)
            with self.ranges.starting(self.instance('b')) as other:
                self.assertNotEqual(outer, other)

    def assert_exhausted(self, name, ranges=4):
        refusal = self.assertRaises(exception.NoIDRange, self.start, name)
        self.assertIn(f'asked for 65536 user IDs, free 0 of {ranges} ranges',
                      str(refusal))  # fmt: skip
        self.assertIn(f'id_pool = {FIRST}:{ranges * SIZE}', str(refusal))
        # Nothing of the host, for any user.
        self.assertNotIn(str(FIRST), refusal.user_message)

    def test_exhausted(self):
        for name in 'abcd':
            self.start(name)
        self.assert_exhausted('e')
        # A server that has one starts.
        self.assertEqual(2, self.start('c'))
        del self.libvirt.domains[uuids.b]
        self.assertEqual(1, self.start('e'))

    def test_running_with_one_defined_with_another(self):
        """Both are taken."""
        self.libvirt.define(uuids.a, of(0), of(2))
        self.assertEqual([1, 3], [self.start('b'), self.start('c')])

    def test_maps_that_are_no_ranges(self):
        """Of a user that a program of the operator's made."""
        self.libvirt.define(uuids.a, xml(('uid', 100000, 65536)))
        self.libvirt.define(uuids.b, xml(('uid', FIRST + SIZE - 1, 2)))
        self.libvirt.define(
            uuids.c, xml(('uid', 5, 5), ('gid', FIRST + 3 * SIZE + 7, 1))
        )
        self.assertEqual(2, self.start('d'))
        self.libvirt.define(uuids.e, xml(('gid', 0, (1 << 32) - 1)))
        self.restart(9)
        self.assert_exhausted('f', 9)

    def test_no_maps(self):
        """Metadata that looks like them may come from a user."""
        for number, text in enumerate((
            '<domain type="lxc"/>',
            xml(rest=f'<metadata><x xmlns="urn:x">{of(0)}</x></metadata>'),
            xml(rest='<metadata><idmap><uid target="x" count="y"/></idmap>'
                '</metadata>'),
        )):  # fmt: skip
            self.libvirt.define(getattr(uuids, f'plain{number}'), text)
        self.assertEqual(0, self.start('a'))

    def assert_unreadable(self, text):
        refusal = self.assertRaises(exception.HostNotPrepared, self.start, 'z')
        self.assertIn(text, str(refusal))

    def test_numbers_that_are_none(self):
        """Nobody knows what is taken: nothing starts."""
        for text in (
            *(xml(('uid', text, 1)) for text in ('x', '', '1.5')),
            '<domain><idmap><uid start="0"/></idmap></domain>',
        ):
            self.libvirt.define(uuids.a, text)
            self.assert_unreadable('uid')

    def test_domain_that_is_gone_meanwhile(self):
        gone = error(libvirt.VIR_ERR_NO_DOMAIN)
        self.libvirt.define(uuids.a, gone)
        self.libvirt.define(uuids.b, of(0), gone)
        self.assertEqual(1, self.start('c'))

    def test_libvirt_does_not_say(self):
        self.libvirt.define(uuids.a, error(libvirt.VIR_ERR_INTERNAL_ERROR))
        self.assert_unreadable(uuids.a)
        self.libvirt.error = error(libvirt.VIR_ERR_INTERNAL_ERROR)
        self.assert_unreadable('no domains')

    def test_many_at_once(self):
        """Threads of Nova start servers and delete them."""
        self.restart(40)
        together = threading.Barrier(8)
        clashes = []
        held = set()
        lock = threading.Lock()

        def work(name):
            together.wait()
            for turn in range(25):
                instance = self.instance(f'{name}{turn}')
                with self.ranges.starting(instance) as first:
                    with lock:
                        if first in held:
                            clashes.append(first)
                        held.add(first)
                    number = (first - FIRST) // SIZE
                    self.libvirt.define(instance.uuid, of(number))
                with lock:
                    held.discard(first)
                    del self.libvirt.domains[instance.uuid]

        threads = [
            threading.Thread(target=work, args=(name,)) for name in 'abcdefgh'
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        self.assertEqual([], clashes)
        self.assertEqual({}, self.ranges._starting)


class WriteTest(base.BaseTestCase):
    def test_maps_of_users_and_groups(self):
        """Instead of those there, such as of an earlier release."""
        rest = '<name>\u00e9</name><metadata><m:x xmlns:m="urn:m"/></metadata>'
        encoding = "<?xml version='1.0' encoding='UTF-8'?>"
        for before in (
            f'{encoding}<domain>{rest}</domain>',
            xml(('uid', FIRST + SIZE, SIZE), rest=rest),
            xml(('uid', 0, 5), rest=rest),
            f'<domain><idmap/>{rest}</domain>',
        ):
            text = id_ranges.write_id_map(before, FIRST)
            self.assertEqual(
                [(FIRST, SIZE)] * 2, list(id_ranges.read_id_maps(text))
            )
            found = etree.fromstring(text)
            self.assertEqual('\u00e9', found.findtext('name'))
            self.assertIsNotNone(found.find('metadata/{urn:m}x'))
            self.assertEqual({'0'}, {
                each.get('start') for each in found.iterfind('idmap/*')
            })  # fmt: skip
