# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.virt.libvirt.metadata and servers."""

import libvirt
from nova import objects
from nova.virt.libvirt import config, guest
from oslotest import base

from nova_rt import exception
from nova_rt.reservation import extra_specs, record
from nova_rt.reservation.domain_record import DomainRecord
from nova_rt.reservation.request import Request
from nova_rt.reservation.reservation import Reservation
from nova_rt.tracking import servers
from nova_rt.virt.libvirt import metadata

RECORD = record.Record(
    Request(Reservation(1400, 2000), 2, policy=extra_specs.TaskPolicy.FIFO),
    (3, 7),
)
BOTH = DomainRecord(RECORD, RECORD.claimed_on((1, 2)))


class Guest:
    """A domain, as far as it is looked at."""

    def __init__(self, xml):
        self._xml = xml

    def get_xml_desc(self):
        return self._xml


class MetadataTest(base.BaseTestCase):
    def test_what_is_written_is_read(self):
        domain = config.LibvirtConfigGuest()
        domain.metadata = [
            config.LibvirtConfigGuestMetaNovaInstance(),
            metadata.LibvirtConfigGuestMetaReservation(BOTH),
        ]
        domain.metadata[0].package = '34'
        domain.virt_type = 'lxc'
        domain.name = 'name'
        domain.memory = 1
        domain.os_type = 'exe'
        self.assertEqual(BOTH, metadata.parse_record(Guest(domain.to_xml())))

    def test_a_plain_domain_has_none(self):
        for xml in ('<domain/>', '<domain><metadata/></domain>'):
            self.assertIsNone(metadata.parse_record(Guest(xml)))

    def test_broken(self):
        name = metadata.NAMESPACE
        for text in ('', 'v=2', 'q=1;q=2'):
            element = f'<reservation xmlns="{name}">{text}</reservation>'
            broken = Guest(f'<domain><metadata>{element}</metadata></domain>')
            self.assertRaises(
                exception.InvalidRecord, metadata.parse_record, broken
            )

    def test_difference(self):
        name = metadata.NAMESPACE

        def find(text):
            element = f'<reservation xmlns="{name}">{text}</reservation>'
            return metadata.find_difference(
                Guest(f'<domain><metadata>{element}</metadata></domain>'),
                RECORD,
            )

        self.assertIsNone(find(RECORD.encode()))
        other = RECORD.claimed_on((1, 2)).encode()
        self.assertIn(f'{other} instead of {RECORD.encode()}', find(other))
        self.assertIn("cannot read the record 'v=9'", find('v=9'))
        found = metadata.find_difference(Guest('<domain/>'), RECORD)
        self.assertIn('the record none instead of', found)


class WriteTest(base.BaseTestCase):
    """On libvirt itself: its test driver keeps metadata as all do."""

    def test_what_is_written_is_read(self):
        connection = libvirt.open('test:///default')
        self.addCleanup(connection.close)
        domain = guest.Guest(connection.lookupByName('test'))
        self.assertIsNone(metadata.parse_record(domain))
        for rec in (DomainRecord(RECORD), BOTH, DomainRecord(BOTH.beside)):
            metadata.write_record(domain, rec)
            self.assertEqual(rec, metadata.parse_record(domain))
            self.assertEqual(1, domain.get_xml_desc().count('</rt:'))


class ServersTest(base.BaseTestCase):
    def server(self, specs, system_metadata):
        return objects.Instance(
            flavor=objects.Flavor(extra_specs=specs),
            system_metadata=system_metadata,
        )

    def test_the_flavor_decides(self):
        stale = {record.KEY: RECORD.encode()}
        plain = self.server({'hw:cpu_policy': 'shared'}, stale)
        self.assertFalse(servers.is_rt(plain))
        self.assertIsNone(servers.read_record(plain))
        self.assertIsNone(servers.read_claimed(plain))

    def test_a_move_of_either_kind(self):
        specs = ({}, {extra_specs.RESERVATION: '1400/2000'})
        for before in specs:
            for after in specs:
                self.assertEqual(
                    bool(before or after),
                    servers.is_rt_move(
                        self.server(before, {}),
                        objects.Flavor(extra_specs=after),
                    ),
                )

    def test_record(self):
        server = self.server({extra_specs.RESERVATION: '1400/2000'}, {})
        for read in (servers.read_record, servers.read_claimed):
            self.assertRaises(exception.InvalidRecord, read, server)
        servers.write_record(server, RECORD)
        self.assertTrue(servers.is_rt(server))
        for read in (servers.read_record, servers.read_claimed):
            self.assertEqual(RECORD, read(server))
        # One without CPUs is not claimed.
        servers.write_record(server, record.Record(RECORD.request))
        self.assertEqual((), servers.read_record(server).cpus)
        self.assertRaises(
            exception.InvalidRecord, servers.read_claimed, server
        )
