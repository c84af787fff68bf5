# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.reservation.domain_record."""

import ddt
from oslotest import base

from nova_rt import exception
from nova_rt.reservation import domain_record, record
from nova_rt.reservation.request import Request
from nova_rt.reservation.reservation import Reservation

RECORD = record.Record(Request(Reservation(1400, 2000), 2), (3, 7))
ELEMENT = (
    f'<rt:reservation xmlns:rt="{domain_record.NAMESPACE}">'
    f'{RECORD.encode()}</rt:reservation>'
)


@ddt.ddt
class DomainRecordTest(base.BaseTestCase):
    """Beside test_metadata, where Nova and libvirt write it."""

    def test_element(self):
        self.assertEqual(RECORD, domain_record.parse_element(ELEMENT))

    def test_domain(self):
        xml = f'<domain><metadata>{ELEMENT}</metadata></domain>'
        self.assertEqual(RECORD, domain_record.parse_domain(xml))

    def test_an_element_elsewhere_is_not_ours(self):
        other = ELEMENT.replace('urn:', 'other:')
        for xml in (
            f'<domain>{ELEMENT}</domain>',
            f'<domain><metadata>{other}</metadata></domain>',
        ):
            self.assertIsNone(domain_record.parse_domain(xml))

    @ddt.data('', '<', '<a>', '<a/>', '<a>v=1</a>', ELEMENT[:-1])
    def test_broken(self, text):
        self.assertRaises(
            exception.InvalidRecord, domain_record.parse_element, text
        )
