# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.exporter.domains."""

import threading

import libvirt
from oslotest import base

from nova_rt.exporter import details, domains
from nova_rt.reservation import domain_record, record
from nova_rt.reservation.request import Request
from nova_rt.reservation.reservation import Reservation
from nova_rt.tests.fixtures import exporter

RECORD = record.Record(Request(Reservation(1400, 2000), 1), (3,))


class DomainsTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.libvirt = exporter.Connection()
        self.domains = domains.Domains('x:', 60, self.libvirt.open)

    def add(self, text=RECORD.encode(), pid=None):
        uuid = exporter.uuid_of(len(self.libvirt.domains) + 1)
        self.libvirt.domains.append(exporter.Domain(uuid, text, pid))
        return self.libvirt.domains[-1]

    def fail(self, code=libvirt.VIR_ERR_SYSTEM_ERROR):
        raise exporter.error(code)

    def test_servers(self):
        running, off = self.add(pid=17), self.add()
        self.assertEqual(
            [
                domains.LibvirtServer(running.name, RECORD, 17),
                domains.LibvirtServer(off.name, RECORD, None),
            ],
            self.domains.read(),
        )

    def test_plain_and_deleted_domains_are_left_out(self):
        self.add(text=None)
        self.add(text=None).error = libvirt.VIR_ERR_NO_DOMAIN
        self.assertEqual([], self.domains.read())

    def test_a_broken_record_is_a_server(self):
        self.add(text='v=1;<&')
        (found,) = self.domains.read()
        self.assertIsNone(found.record)

    def test_details(self):
        """None of a domain that Nova has not described."""
        self.domains._details = True
        described, other = self.add(), self.add()
        described.nova = f'<x xmlns="{details.NAMESPACE}"><name>n</name></x>'
        self.assertEqual(
            {described.name: details.Details('', '', 'n'), other.name: None},
            {each.uuid: each.details for each in self.domains.read()},
        )
        other.nova = '<'
        self.assertRaises(domains.Unreadable, self.domains.read)

    def test_nothing_but_a_uuid_is_a_name(self):
        self.add().name = 'x"} 1\nevil{server="y'
        self.assertRaises(domains.Unreadable, self.domains.read)

    def test_an_error_of_one_domain_is_not_an_empty_answer(self):
        self.add()
        self.add(text=None).error = libvirt.VIR_ERR_SYSTEM_ERROR
        self.assertRaises(domains.Unreadable, self.domains.read)

    def test_libvirtd_is_down_and_comes_back(self):
        self.libvirt.hook = self.fail
        for _ in range(2):
            refused = self.assertRaises(domains.Unreadable, self.domains.read)
            self.assertIn('text of libvirt', str(refused))
        self.libvirt.hook = lambda: None
        self.assertEqual([], self.domains.read())
        self.assertEqual(1, self.libvirt.opened)

    def test_libvirtd_was_restarted(self):
        """No reading is lost: what is dead is not asked."""
        self.domains.read()
        self.libvirt.alive = False
        self.assertEqual([], self.domains.read())
        self.assertEqual(2, self.libvirt.opened)

    def test_libvirtd_hangs(self):
        """One thread waits, however often we are asked; no old answer."""
        self.add(pid=17)
        self.domains.read()
        go = threading.Event()
        self.addCleanup(go.set)
        self.libvirt.hook = lambda: go.wait(60)
        self.domains._timeout_s = 0.2
        before = set(threading.enumerate())
        for _ in range(5):
            self.assertRaises(domains.Unreadable, self.domains.read)
        # Those of other tests may end meanwhile.
        self.assertEqual(1, len(set(threading.enumerate()) - before))
        self.libvirt.domains.clear()
        go.set()
        self.domains._asking.join(60)
        self.domains._timeout_s = 60
        self.assertEqual([], self.domains.read())


class LibvirtTest(base.BaseTestCase):
    """On libvirt itself, by its test driver."""

    def test_element_of_libvirt(self):
        # Each connection to the default of the driver is the same host.
        keep = libvirt.open('test:///default')
        self.addCleanup(keep.close)
        keep.lookupByName('test').setMetadata(
            libvirt.VIR_DOMAIN_METADATA_ELEMENT,
            f'<reservation>{RECORD.encode()}</reservation>',
            domain_record.PREFIX,
            domain_record.NAMESPACE,
            libvirt.VIR_DOMAIN_AFFECT_LIVE,
        )
        (found,) = domains.Domains('test:///default', 10).read()
        self.assertEqual((RECORD, 1), (found.record, found.pid))

    def test_nobody_there(self):
        uri = 'lxc+unix:///?socket=/nowhere/socket'
        refused = self.assertRaises(
            domains.Unreadable, domains.Domains(uri, 10).read
        )
        self.assertIn('/nowhere/socket', str(refused))
