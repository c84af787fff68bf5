# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.compute.resource_tracker."""

from unittest import mock

from nova import exception as nova_exception
from nova import objects
from oslotest import base

from nova_rt import admission, record
from nova_rt.compute import resource_tracker
from nova_rt.request import Request
from nova_rt.reservation import Reservation


class ClaimTest(base.BaseTestCase):
    def test_cpus_that_do_not_fit_into_a_record(self):
        """The claim is refused, with the reason; nothing is held."""
        driver = mock.Mock()
        driver.rt_free.return_value = admission.Capacity(
            dict.fromkeys(range(0, 2000, 3), 950_000)
        )
        tracker = resource_tracker.RTResourceTracker(
            'host', driver, reportclient=mock.Mock()
        )
        rec = record.Record(Request(Reservation(500, 1000), 600))
        server = objects.Instance(
            uuid='b2c1f5c5-4c4c-4ac3-9d9a-4f8f0a3f2f4e',
            flavor=objects.Flavor(extra_specs={'rt:reservation': '500/1000'}),
            system_metadata={record.KEY: rec.encode()},
        )
        err = self.assertRaises(
            nova_exception.ComputeResourcesUnavailable,
            tracker._rt_claim,
            server,
        )
        self.assertIn('too scattered for a record', str(err))
        self.assertEqual(rec.encode(), server.system_metadata[record.KEY])
        self.assertEqual({}, tracker.rt_claims)
