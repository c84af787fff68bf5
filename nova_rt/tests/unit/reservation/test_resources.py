# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.reservation.resources.

test_request_filter has the placement requests that Nova makes of them.
"""

import ddt
from oslotest import base

from nova_rt import exception
from nova_rt.reservation import resources
from nova_rt.reservation.request import Request

FLAVOR = {'rt:reservation': '1400/2000'}
GUARANTEE = {
    'resources:CUSTOM_RT_BANDWIDTH': '1400000',
    'resources:VCPU': '0',
    'trait:CUSTOM_RT_GUARANTEE': 'required',
}


@ddt.ddt
class ResourcesTest(base.BaseTestCase):
    request = Request.from_flavor(FLAVOR, 2)

    def test_ask(self):
        self.assertEqual(GUARANTEE, resources.ask(self.request))
        # Rounded up on each CPU.
        request = Request.from_flavor(
            {'rt:reservation': '1000/3000', 'rt:enforcement': 'limit'}, 3
        )
        self.assertEqual(
            {
                'resources:CUSTOM_RT_BANDWIDTH': '1000002',
                'resources:VCPU': '0',
                'trait:CUSTOM_RT_LIMIT': 'required',
            },
            resources.ask(request),
        )

    def test_surplus(self):
        """All that stands for something else, and nothing that is asked."""
        surplus = resources.surplus(self.request)
        self.assertEqual(
            [
                'trait:CUSTOM_RT_LIMIT',
                'trait:CUSTOM_RT_SOFT',
                'trait:CUSTOM_RT_SPARE',
            ],
            surplus,
        )

    def test_differences(self):
        self.assertEqual(
            ({}, []), resources.differences(FLAVOR | GUARANTEE, self.request)
        )
        self.assertEqual(
            (GUARANTEE, ['trait:CUSTOM_RT_LIMIT']),
            resources.differences(
                FLAVOR
                | {
                    'resources:CUSTOM_RT_BANDWIDTH': '700000',
                    'trait:CUSTOM_RT_LIMIT': 'required',
                    'trait:CUSTOM_RT_GUARANTEE': 'forbidden',
                },
                self.request,
            ),
        )

    @ddt.data('hw:numa_nodes', 'hw:numa_cpus.0', 'hw:mem_page_size')
    def test_topology(self, key):
        """No host of containers has one: the server would never be placed."""
        refusal = self.assertRaises(
            exception.InvalidRequest, resources.check, {key: '1'}
        )
        self.assertIn(f'with {key}: ', str(refusal))
        self.assertIn('rt:numa=same', str(refusal))
        resources.check({'hw:pci_numa_affinity_policy': 'preferred'})

    @ddt.data(
        {},
        GUARANTEE,
        {'hw:cpu_policy': 'shared'},
        {'resources:PCPU': '0'},
        {'resources:VCPU': '7'},
        {'resources1:CUSTOM_CARD': '1', 'trait1:CUSTOM_RACK': 'required'},
        {'xresources:PCPU': '1', 'resources:PCPU_X': '1'},
    )
    def test_good(self, specs):
        resources.check(FLAVOR | specs)

    @ddt.data(
        ('hw:cpu_policy', 'dedicated'),
        ('hw:cpu_policy', 'mixed'),
        ('resources:PCPU', '1'),
        ('resources:PCPU', ''),
        ('resources_x:PCPU', '0'),
        ('resourcesr:VCPU', '1'),
        ('resources1:CUSTOM_RT_BANDWIDTH', '1'),
        ('trait1:CUSTOM_RT_GUARANTEE', 'required'),
        ('trait-:CUSTOM_RT_LIMIT', 'forbidden'),
    )
    @ddt.unpack
    def test_bad(self, key, value):
        err = self.assertRaises(
            exception.InvalidRequest, resources.check, FLAVOR | {key: value}
        )
        self.assertIn(key, str(err))
