# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.reservation.domain_record."""

import ddt
from oslotest import base

from nova_rt import exception
from nova_rt.reservation import domain_record, record
from nova_rt.reservation.domain_record import DomainRecord
from nova_rt.reservation.request import Request
from nova_rt.reservation.reservation import Reservation

BESIDE = record.Record(Request(Reservation(500, 1000), 1), (4,))
RECORD = record.Record(Request(Reservation(1400, 2000), 2), (3, 7))
ELEMENT = (
    f'<rt:reservation xmlns:rt="{domain_record.NAMESPACE}">'
    f'{RECORD.encode()}</rt:reservation>'
)


@ddt.ddt
class DomainRecordTest(base.BaseTestCase):
    """Beside test_metadata, where Nova and libvirt write it."""

    def test_element(self):
        """With two records, it is resized on its host."""
        self.assertEqual(
            DomainRecord(RECORD), domain_record.parse_element(ELEMENT)
        )
        both = ELEMENT.replace('">', f'" beside="{BESIDE.encode()}">')
        found = domain_record.parse_element(both)
        self.assertEqual(DomainRecord(RECORD, BESIDE), found)
        self.assertEqual((RECORD, BESIDE), found.claims)
        self.assertEqual((RECORD,), DomainRecord(RECORD).claims)

    def test_domain(self):
        for xml, found in (
            (f'<metadata>{ELEMENT}</metadata>', DomainRecord(RECORD)),
            # Elements elsewhere, and of others.
            (ELEMENT, None),
            (ELEMENT.join(('<metadata>', '</metadata>')).replace(
                'urn:', 'other:'), None),
        ):  # fmt: skip
            xml = f'<domain>{xml}</domain>'
            self.assertEqual(found, domain_record.parse_domain(xml))

    @ddt.data(
        ELEMENT.replace('">', '" beside="v=1">'),
        '',
        '<',
        '<a>',
        '<a/>',
        '<a>v=1</a>',
        ELEMENT[:-1],
    )
    def test_broken(self, text):
        self.assertRaises(
            exception.InvalidRecord, domain_record.parse_element, text
        )
