# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.manage.audit.compare."""

import dataclasses

from oslotest import base

from nova_rt.cloud import snapshot
from nova_rt.cloud.snapshot import (
    Holder,
    Move,
    NovaServer,
)
from nova_rt.manage.audit import compare
from nova_rt.reservation.admission import Capacity
from nova_rt.reservation.extra_specs import Adapt
from nova_rt.reservation.record import Record
from nova_rt.reservation.request import Request
from nova_rt.reservation.reservation import Reservation

REQUEST = Request(Reservation(600, 1000), 2)
RECORD = Record(REQUEST, (0, 2))
SMALLER = Record(Request(Reservation(300, 1000), 2), (0, 2))
A, B = 'server-a', 'server-b'

GOOD = snapshot.HostSnapshot(
    host='host1',
    provider='node1',
    servers={A: NovaServer(REQUEST, RECORD, others={'MEMORY_MB': 64})},
    allocations={A: 1_200_000},
    others={A: {'MEMORY_MB': 64, 'DISK_GB': 1}},
    inventory_ppm=3_800_000,
    free=Capacity({0: 350_000, 1: 950_000, 2: 350_000, 3: 950_000}),
)


def change(**fields):
    return dataclasses.replace(GOOD, **fields)


class CompareTestBase(base.BaseTestCase):
    def assert_clean(self, what):
        self.assertEqual([], compare.compare(what))

    def find(self, what):
        """The one finding."""
        found = compare.compare(what)
        self.assertEqual(1, len(found), found)
        self.assertEqual('host1', found[0].host)
        # It goes into a table, and a sentence of another may follow.
        for text in (found[0].difference, found[0].remedy):
            self.assertFalse(text.endswith('.'))
            self.assertTrue(text)
        return found[0]

    def assert_found(self, source, uuid, text, what, repair=None):
        finding = self.find(what)
        self.assertEqual((source, uuid), (finding.source, finding.uuid))
        self.assertIn(text, finding.difference)
        self.assertEqual(repair, finding.repair)
        if repair is not None:
            self.assertIn('--repair', finding.remedy)
        else:
            self.assertNotIn('--repair', finding.remedy)


class CleanTest(CompareTestBase):
    def test_clean(self):
        for what in (
            GOOD,
            # A plain host.
            snapshot.HostSnapshot('host1', 'node2'),
            # A busy server, whatever its sources say.
            change(servers={A: NovaServer('x', 'y', busy=True)},
                   allocations={}),
            change(servers={A: NovaServer(None, SMALLER, busy=True)},
                   allocations={}),
            # Its hints are gone.
            change(servers={A: NovaServer(None, RECORD)}),
        ):  # fmt: skip
            self.assert_clean(what)

    def test_move_that_was_not_finished(self):
        """Its flavor is the old one; what it holds is not."""
        lost = NovaServer(SMALLER.request, RECORD, lost=True)
        self.assert_found(
            'record', A, 'was not finished', change(servers={A: lost})
        )
        holding = change(
            allocations={A: 1_200_000, B: 600_000}, holders={B: Holder.LOST}
        )
        self.assert_found(
            'placement', B, 'not finished', holding,
            snapshot.RemoveAllocation(B, 'node1', 600_000),
        )  # fmt: skip

    def test_all_that_differs_is_found(self):
        """One finding of each source, and no source hides another."""
        found = compare.compare(
            change(
                servers={
                    A: NovaServer(REQUEST, RECORD),
                    B: NovaServer(REQUEST, 'broken'),
                },
                allocations={A: 1, B: 1_200_000},
                free=None,
            )
        )  # fmt: skip
        self.assertEqual(
            ['record', 'placement', 'tracker'],
            [finding.source for finding in found],
        )


class RecordTest(CompareTestBase):
    def test_cannot_be_right(self):
        all_free = Capacity(dict.fromkeys(range(4), 950_000))
        other = dataclasses.replace(REQUEST, priority=2)
        for text, server, free in (
            ('no record', NovaServer(REQUEST, 'no record'), all_free),
            ('no flavor', NovaServer('no flavor', RECORD), GOOD.free),
            ('priority 2', NovaServer(other, RECORD), GOOD.free),
        ):
            self.assert_found(
                'record', A, text, change(servers={A: server}, free=free)
            )


class AllocationTest(CompareTestBase):
    def test_differs(self):
        """By record and flavor, or by the record if the hints are gone."""
        for server in GOOD.servers[A], NovaServer(None, RECORD):
            for allocations in ({}, {A: 1}, {A: 1_199_999}, {A: 1_200_001}):
                held = allocations.get(A, 0)
                self.assert_found(
                    'placement', A, f' {held} ppm',
                    change(allocations=allocations, servers={A: server}),
                    snapshot.SetAllocation(A, 'node1', held, 1_200_000),
                )  # fmt: skip

    def test_other_classes(self):
        """Leftovers of heal_allocations or an older repair."""
        repair = snapshot.SetAllocation(A, 'node1', 1_200_000, 1_200_000)
        for held, text in (
            ({}, 'holds MEMORY_MB 0 for it, its flavor asks for MEMORY_MB 64'),
            ({'MEMORY_MB': 64, 'VCPU': 1}, 'VCPU 1 for it, its flavor asks'),
        ):
            self.assert_found(
                'placement', A, text, change(others={A: held}), repair
            )
        lost = NovaServer(REQUEST, RECORD, lost=True, others={'MEMORY_MB': 1})
        found = compare.compare(change(servers={A: lost}))
        self.assertEqual(['record'], [each.source for each in found])

    def test_record_is_broken(self):
        """The flavor says it, too."""
        found = compare.compare(
            change(
                servers={A: NovaServer(REQUEST, 'broken')},
                allocations={A: 1},
                free=Capacity(dict.fromkeys(range(4), 950_000)),
            )
        )
        self.assertEqual(
            [None, snapshot.SetAllocation(A, 'node1', 1, 1_200_000)],
            [finding.repair for finding in found],
        )

    def test_record_and_flavor_disagree(self):
        """Then nobody knows what to repair it to."""
        for held in (0, 7, 1_200_000):
            found = compare.compare(
                change(
                    servers={A: NovaServer(REQUEST, SMALLER)},
                    allocations={A: held},
                    free=None, inventory_ppm=None,
                )
            )  # fmt: skip
            self.assertEqual(
                ['record', 'placement', 'tracker'],
                [finding.source for finding in found],
            )
            self.assertEqual({None}, {finding.repair for finding in found})

    def test_nothing_can_be_read(self):
        found = compare.compare(
            change(
                servers={A: NovaServer('bad', 'broken')},
                allocations={A: 5},
                free=Capacity(dict.fromkeys(range(4), 950_000)),
            )
        )
        self.assertEqual(['record'], [finding.source for finding in found])


class HolderTest(CompareTestBase):
    def look(self, holder, held=7):
        return change(
            allocations={**GOOD.allocations, B: held}, holders={B: holder}
        )

    def test_holders(self):
        for holder in Holder:
            what = self.look(holder)
            if holder is Holder.BUSY:
                self.assert_clean(what)
                continue
            # The others are not ours to repair.
            ours = holder not in (Holder.EVACUATED, Holder.PLAIN)
            repair = snapshot.RemoveAllocation(B, 'node1', 7) if ours else None
            self.assert_found('placement', B, '7 ppm', what, repair)


class TrackerTest(CompareTestBase):
    def assert_tracker(self, text, what):
        self.assert_found('tracker', '', text, what)

    def test_publishes_nothing(self):
        for text, what in (
            ('no free', change(free=None)),
            ('no free', snapshot.HostSnapshot('host1', 'node1',
                                              inventory_ppm=1)),
            ('not JSON', change(free='not JSON')),
            ('no inventory', change(inventory_ppm=None)),
        ):  # fmt: skip
            self.assert_tracker(text, what)

    def test_sum(self):
        for ppm, text in ((950_001, 'in all, servers leave'),
                          (949_999, 'something else')):  # fmt: skip
            free = Capacity({**GOOD.free.cpus, 1: ppm})
            self.assert_tracker(text, change(free=free))

    def test_a_server_that_follows_its_load(self):
        """It may hold more than its record, within its bounds."""
        self.check_growth(
            runtime_min=100, runtime_max=700, adapt=Adapt.THROTTLED
        )

    def test_a_server_that_starts(self):
        """The bandwidth of a boost is published as free."""
        self.check_growth(350_000, startup_runtime=700, startup_s=60)

    def check_growth(self, least_ppm=250_000, **specs):
        """The server may hold 700 of 1000 us."""
        request = dataclasses.replace(REQUEST, **specs)
        servers = {
            A: dataclasses.replace(
                GOOD.servers[A],
                asked=request,
                record=dataclasses.replace(RECORD, request=request),
            )
        }
        for ppm, clean in ((least_ppm, True), (least_ppm - 1, False)):
            free = Capacity({**GOOD.free.cpus, 0: ppm, 2: ppm})
            found = compare.compare(change(free=free, servers=servers))
            self.assertEqual(clean, found == [], found)

    def test_busy_server(self):
        """It is counted by some and not yet by others."""
        free = Capacity({**GOOD.free.cpus, 1: 1})
        for fields in (
            {'servers': {**GOOD.servers,
                         B: NovaServer(REQUEST, 'none yet', busy=True)}},
            {'allocations': {**GOOD.allocations, B: 7},
             'holders': {B: Holder.BUSY}},
        ):  # fmt: skip
            self.assert_clean(change(free=free, **fields))

    def test_sum_of_the_host(self):
        """Of a kernel that sums over the host, whatever the CPUs."""
        good = {
            'allocations': {A: 600_000},
            'servers': {A: NovaServer(None, SMALLER)},
            'inventory_ppm': 950_000,
        }
        free = dict.fromkeys(range(4), 950_000)
        free[0] = free[2] = 650_000
        self.assert_clean(change(free=Capacity(free, 350_000), **good))
        for ppm in (349_999, 350_001, 0):
            self.assert_tracker(
                str(ppm), change(free=Capacity(free, ppm), **good)
            )

    def test_holds_more_than_all(self):
        """A capacity that shrank; nothing below 0 is published."""
        shrunk = change(
            inventory_ppm=1_000_000,
            free=Capacity({0: 0, 1: 250_000, 2: 0, 3: 250_000}),
        )
        self.assert_clean(shrunk)
        free = Capacity({0: 0, 1: 900_000, 2: 0, 3: 250_000})
        self.assert_tracker('1150000', dataclasses.replace(shrunk, free=free))

    def test_cpu_is_not_offered(self):
        free = Capacity({0: 350_000, 1: 950_000, 3: 950_000})
        self.assert_found(
            'tracker', A, 'CPUs 2',
            change(free=free, inventory_ppm=2_850_000),
        )  # fmt: skip


class MoveTest(CompareTestBase):
    """A server that waits for the confirmation of a resize."""

    #: Of one whose old reservation is on this host, and whose new is not.
    GONE = change(
        servers={},
        moves={'migration': Move(A, RECORD)},
        allocations={'migration': 1_200_000},
    )

    def test_it_has_left(self):
        self.assert_clean(self.GONE)

    def test_it_is_here(self):
        """The two slots of a resize on one host."""
        self.assert_clean(
            change(
                moves={'migration': Move(A, SMALLER)},
                allocations={A: 1_200_000, 'migration': 600_000},
                free=Capacity({0: 50_000, 1: 950_000, 2: 50_000, 3: 950_000}),
            )
        )

    def test_differences(self):
        for source, uuid, text, fields in (
            ('placement', A, 'holds 0 ppm for its migration',
             {'allocations': {}}),
            ('tracker', '', '3800000 ppm are published',
             {'free': Capacity(dict.fromkeys(range(4), 950_000))}),
            ('record', A, 'broken',
             {'moves': {'migration': Move(A, 'broken')}}),
        ):  # fmt: skip
            what = dataclasses.replace(self.GONE, **fields)
            self.assert_found(source, uuid, text, what)
