# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.scheduler.request_filter and .request."""

import ddt
import fixtures
from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects as nova_objects
import nova.conf
from nova.scheduler import request_filter as nova_filters
from nova.scheduler import utils
from oslo_config import fixture
from oslotest import base

from nova_rt.reservation import record, request, reservation
from nova_rt.scheduler import request_filter, request_specs
from nova_rt.scheduler.filters import rt_bandwidth_filter
from nova_rt.tests.unit.scheduler import objects

FLAVOR = {'rt:reservation': '1400/2000'}


@ddt.ddt
class RequestFilterTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.conf = self.useFixture(fixture.Config(nova.conf.CONF))
        self.context = nova_context.RequestContext(
            'user', 'project', is_admin=False
        )
        # The server is new; those that have been created: functional tests.
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.objects.InstanceMapping.get_by_instance_uuid',
                lambda *args: nova_objects.InstanceMapping(cell_mapping=None),
            )
        )
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_rt.api.policies.authorize_hints', lambda context: None
            )
        )

    def _query(self, spec):
        """Return the resources and traits that Nova asks of Placement."""
        request = utils.ResourceRequest.from_request_spec(spec)
        return request.merged_resources(), request.all_required_traits

    def test_limit(self):
        for said in {}, {'trait:CUSTOM_RT_GUARANTEE': 'required'}:
            spec = objects.request_spec(
                FLAVOR | {'rt:enforcement': 'limit'} | said
            )
            request_filter.rt_bandwidth_filter(self.context, spec)
            # With both, it would be kept from all hosts that limit.
            self.assertEqual({'CUSTOM_RT_LIMIT'}, self._query(spec)[1])

    def test_hint_replaces_what_the_flavor_asks(self):
        spec = objects.request_spec(
            FLAVOR | {'resources:CUSTOM_RT_BANDWIDTH': '700000'},
            hints={'rt_reservation': ['1000/2000']},
        )
        request_filter.rt_bandwidth_filter(self.context, spec)
        resources, _traits = self._query(spec)
        self.assertEqual(500_000, resources['CUSTOM_RT_BANDWIDTH'])
        self.assertEqual({}, spec.scheduler_hints)

    def test_hint_below_the_bounds_of_the_flavor(self):
        spec = objects.request_spec(
            FLAVOR | {'rt:runtime_min': '1200'},
            hints={'rt_reservation': ['1000/2000']},
        )
        request_filter.rt_bandwidth_filter(self.context, spec)
        host = objects.host_state(rt_free={0: 500_000})
        found = rt_bandwidth_filter.RTBandwidthFilter()
        self.assertIn(host, found.filter_all([host], spec))

    @ddt.data(
        {'rt:runtime_min': '1000', 'rt:runtime_max': '1500'},
        {'rt:startup_runtime': '1500', 'rt:startup_s': '10'},
    )
    def test_changed_beyond_the_bounds_of_the_flavor(self, bounds):
        """By an operator; it can be moved, evacuated and unshelved."""
        spec = objects.request_spec(FLAVOR | bounds)
        asked = record.Record(
            request.Request.from_flavor(spec.flavor.extra_specs, 1)
        ).with_reservation(reservation.Reservation(1000, 1250))
        request_specs.settle(spec, asked.request)
        self.assertEqual(asked.request, request_specs.parse(spec))

    @ddt.data(
        {},
        {'resources:VCPU': '2'},
        {'resources:VCPU': '0'},
        {'trait:CUSTOM_RT_LIMIT': 'required'},
        {'trait:CUSTOM_RT_LIMIT': 'forbidden'},
        {'trait:CUSTOM_RT_GUARANTEE': 'forbidden'},
        {'resources:CUSTOM_RT_BANDWIDTH': '1'},
        {'resources:PCPU': '0'},
    )
    def test_what_the_flavor_says_is_replaced(self, said):
        spec = objects.request_spec(FLAVOR | said, vcpus=2)
        spec.obj_reset_changes(recursive=True)
        self.assertTrue(request_filter.rt_bandwidth_filter(self.context, spec))
        # There is nothing to save.
        self.assertEqual(set(), spec.obj_what_changed())
        resources, traits = self._query(spec)
        self.assertEqual(1_400_000, resources['CUSTOM_RT_BANDWIDTH'])
        self.assertEqual({'CUSTOM_RT_GUARANTEE'}, traits)
        self.assertFalse(resources.get('VCPU') or resources.get('PCPU'))

    def test_other_resources_and_traits_stay(self):
        spec = objects.request_spec(
            FLAVOR
            | {
                'resources:CUSTOM_KEY': '3',
                'trait:CUSTOM_RACK': 'required',
                'resources1:CUSTOM_CARD': '1',
            }
        )
        request_filter.rt_bandwidth_filter(self.context, spec)
        resources, traits = self._query(spec)
        self.assertEqual(3, resources['CUSTOM_KEY'])
        self.assertEqual(1, resources['CUSTOM_CARD'])
        self.assertIn('CUSTOM_RACK', traits)

    def test_image(self):
        for policy in ('dedicated', 'mixed', 'shared'):
            image = nova_objects.ImageMeta(
                properties=nova_objects.ImageMetaProps(hw_cpu_policy=policy)
            )
            spec = objects.request_spec(dict(FLAVOR), image=image)
            if policy == 'shared':
                request_filter.rt_bandwidth_filter(self.context, spec)
            else:
                self.assertIn('hw_cpu_policy', self.assertRefused(spec))

    def test_plain(self):
        spec = objects.request_spec({'hw:cpu_policy': 'shared'})
        before = self._query(spec)
        self.assertFalse(
            request_filter.rt_bandwidth_filter(self.context, spec)
        )
        self.assertEqual(before, self._query(spec))

    def assertRefused(self, spec):
        err = self.assertRaises(
            nova_exception.RequestFilterFailed,
            request_filter.rt_bandwidth_filter,
            self.context,
            spec,
        )
        return err.message

    def test_refused(self):
        for specs, hints, *words in (
            ({'rt:reservation': 'abc'}, {}, 'abc'),
            ({'rt:runtime_us': '1000'}, {}, 'rt:runtime_us'),
            (FLAVOR | {'rt:policy': 'fair'}, {}, 'rt:policy'),
            (FLAVOR | {'hw:cpu_policy': 'mixed'}, {}, 'hw:cpu_policy'),
            (FLAVOR | {'resources1:PCPU': '0'}, {}, 'resources1:PCPU'),
            (FLAVOR | {'trait1:CUSTOM_RT_LIMIT': ''}, {}, 'trait1:'),
            ({}, {'rt_reservation': ['100/200']}, 'needs a real-time flavor'),
            (FLAVOR, {'rt_reservation': ['abc']}, 'hint rt_reservation'),
            (FLAVOR, {'rt_reservation': ['1/2', '1/2']}, 'rt_reservation'),
            (FLAVOR, {'rt_reservation': ['1500/2000']}, '750000', '700000'),
        ):
            spec = objects.request_spec(dict(specs), hints=hints)
            message = self.assertRefused(spec)
            for word in words:
                self.assertIn(word, message)

    def test_rules_are_the_operators(self):
        hints = {'rt_reservation': ['1000/2000']}
        self.conf.config(group='nova_rt', hints='deny')
        self.assertRefused(objects.request_spec(dict(FLAVOR), hints=hints))
        self.conf.config(group='nova_rt', hints='any', max_period_us=1999)
        self.assertIn(
            '1000 to 1999', self.assertRefused(objects.request_spec(FLAVOR))
        )

    def test_no_hints_at_all(self):
        spec = objects.request_spec(dict(FLAVOR))
        spec.scheduler_hints = None
        self.assertTrue(request_filter.rt_bandwidth_filter(self.context, spec))

    def test_server_that_is_gone(self):
        def fail(*args):
            raise nova_exception.InstanceMappingNotFound(uuid='gone')

        spec = objects.request_spec(
            dict(FLAVOR), hints={'rt_reservation': ['1000/2000']}
        )
        with fixtures.MonkeyPatch(
            'nova.objects.InstanceMapping.get_by_instance_uuid', fail
        ):
            request_filter.rt_bandwidth_filter(self.context, spec)

    def test_enabled_filter_registers_it_once_and_first(self):
        self.assertIs(request_filter, rt_bandwidth_filter.request_filter)
        request_filter.register()
        filters = nova_filters.ALL_REQUEST_FILTERS
        self.assertEqual(1, filters.count(request_filter.rt_bandwidth_filter))
        self.assertIs(request_filter.rt_bandwidth_filter, filters[0])
