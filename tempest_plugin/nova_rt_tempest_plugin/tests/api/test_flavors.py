# SPDX-License-Identifier: Apache-2.0
"""Tests of good extra specs of real-time flavors, and of refusals."""

from tempest import config
from tempest.lib import decorators
from tempest.lib import exceptions as lib_exc

from nova_rt_tempest_plugin.tests import base

CONF = config.CONF

NOT_A_RESERVATION = (
    'is not a reservation: write <runtime_us>/<period_us> with whole numbers '
    'of microseconds, for example 1400/2000'
)
OUT_OF_RANGE = 'is out of range: it must be from 100 to 4194304 us'

#: Case -> (value of rt:reservation, the words of the answer).
BAD_RESERVATIONS = {
    'word': ('abc', NOT_A_RESERVATION),
    'nothing': ('', NOT_A_RESERVATION),
    'one number': ('5', NOT_A_RESERVATION),
    'three numbers': ('1400/2000/3', NOT_A_RESERVATION),
    'float': ('1/1e9', NOT_A_RESERVATION),
    'negative': ('-1/5', NOT_A_RESERVATION),
    'spaces': (' 1400 / 2000 ', NOT_A_RESERVATION),
    'huge': ('9' * 40 + '/' + '9' * 40, NOT_A_RESERVATION),
    'digits of another script': ('١٤٠٠/٢٠٠٠', NOT_A_RESERVATION),
    'no runtime': (
        '0/1000',
        'runtime of 0 us is out of range: it must be at least 2 us',
    ),
    'runtime over period': (
        '3000/2000',
        'runtime of 3000 us exceeds the period of 2000 us',
    ),
    'short period': ('10/99', f'period of 99 us {OUT_OF_RANGE}'),
    'long period': ('10/4194305', f'period of 4194305 us {OUT_OF_RANGE}'),
}

#: Case -> (key beside rt:reservation, value, the words of the answer).
BAD_SPECS = {
    'policy': (
        'rt:policy',
        'fair',
        "rt:policy must be one of rr, fifo, other, not 'fair'",
    ),
    'priority 0': (
        'rt:priority',
        '0',
        "rt:priority must be a whole number from 1 to 99, not '0'",
    ),
    'priority 100': (
        'rt:priority',
        '100',
        "rt:priority must be a whole number from 1 to 99, not '100'",
    ),
    'enforcement': (
        'rt:enforcement',
        'maybe',
        "rt:enforcement must be one of guarantee, soft, limit, not 'maybe'",
    ),
}

#: These are about the flavor as a whole: only the filter of nova-api knows it.
BAD_BESIDE = {
    'dedicated CPUs': (
        'hw:cpu_policy',
        'dedicated',
        'hw:cpu_policy=dedicated asks for dedicated CPUs, which a real-time '
        'server does not have',
    ),
    'dedicated CPUs of Placement': (
        'resources:PCPU',
        '1',
        'a real-time flavor has no dedicated CPUs: remove resources:PCPU',
    ),
    'group of its own': (
        f'resources1:{base.BANDWIDTH}',
        '200000',
        f'cannot ask for {base.BANDWIDTH} in a group of its own: remove '
        f'resources1:{base.BANDWIDTH}',
    ),
}


class FlavorsTest(base.RTTest):
    """Extra specs through the API."""

    @decorators.idempotent_id('5f4a4f5e-38fb-4b7a-9ff4-4a1f4c3b9d0a')
    def test_good(self):
        specs = self.rt_specs('1400/100000', policy='fifo', priority='99')
        flavor = self.flavor(specs)
        self.assertEqual(specs, self._specs_of(flavor))
        self.flavors.update_flavor_extra_spec(
            flavor, 'rt:priority', **{'rt:priority': '7'}
        )
        self.flavors.unset_flavor_extra_spec(flavor, 'rt:policy')
        del specs['rt:policy']
        self.assertEqual(specs | {'rt:priority': '7'}, self._specs_of(flavor))

    @decorators.idempotent_id('f4ad9a0e-5a33-4a53-b0f1-fc8ef1f8f2f5')
    def test_one_at_a_time_in_any_order(self):
        flavor = self.flavor({})
        for key, value in reversed(self.rt_specs('1400/100000').items()):
            self.flavors.set_flavor_extra_spec(flavor, **{key: value})
        self.assertEqual(self.rt_specs('1400/100000'), self._specs_of(flavor))

    @decorators.attr(type=['negative'])
    @decorators.idempotent_id('9a64a4c8-71cf-4d9e-9d3c-1a25c6a8cf8f')
    def test_bad_reservations(self):
        flavor = self.flavor({})
        for title, (text, words) in BAD_RESERVATIONS.items():
            with self.subTest(title):
                self._refused(flavor, words, {'rt:reservation': text})

    @decorators.attr(type=['negative'])
    @decorators.idempotent_id('c4c8c9a5-6a1b-4c0f-8a9a-50e2a1b6c1d4')
    def test_bad_others(self):
        flavor = self.flavor({})
        for title, (key, text, words) in BAD_SPECS.items():
            specs = self.rt_specs('1400/100000') | {key: text}
            with self.subTest(title):
                self._refused(flavor, words, specs)

    @decorators.attr(type=['negative'])
    @decorators.idempotent_id('1d0a4e4e-0f7e-44a0-86f4-95b8f5e0b0c7')
    def test_unknown_key(self):
        self._refused(
            self.flavor({}), 'rt:reservaton', {'rt:reservaton': '1400/2000'}
        )

    @decorators.attr(type=['negative'])
    @decorators.idempotent_id('e0bd3c4b-9c2d-4c6e-8b0f-4f3a8a3d2c11')
    def test_bad_beside_a_reservation(self):
        self._needs_filter()
        flavor = self.rt_flavor('1400/100000')
        for title, (key, text, words) in BAD_BESIDE.items():
            with self.subTest(title):
                self._refused(flavor, words, {key: text})

    @decorators.attr(type=['negative'])
    @decorators.idempotent_id('6b1d8f52-5b9a-4d5c-a3f0-2d9e7c6b8a90')
    def test_bad_updates(self):
        flavor = self.rt_flavor('1400/100000')
        for title, (text, words) in BAD_RESERVATIONS.items():
            with self.subTest(title):
                self.assert_refused_with(
                    words,
                    self.flavors.update_flavor_extra_spec,
                    flavor,
                    'rt:reservation',
                    **{'rt:reservation': text},
                )
        self.assertEqual(self.rt_specs('1400/100000'), self._specs_of(flavor))

    @decorators.attr(type=['negative'])
    @decorators.idempotent_id('a3c2c0b8-7d44-4f0e-9c7b-3f1f0b8f4a55')
    def test_bad_at_versions_that_do_not_validate(self):
        """Clients speak 2.1 by themselves, where Nova takes anything."""
        self._needs_filter()
        flavor = self.flavor({})
        for version in ('2.1', '2.61', '2.85'):
            for title, (text, words) in BAD_RESERVATIONS.items():
                with (
                    self.subTest(f'{version} {title}'),
                    self.microversion(version),
                ):
                    self._refused(flavor, words, {'rt:reservation': text})

    @decorators.attr(type=['negative'])
    @decorators.idempotent_id('2f6f1c1d-3b56-4a1d-9b57-8f6f7f3a6d21')
    def test_users_may_not(self):
        """403 before a word on the fault."""
        flavor = self.rt_flavor('1400/100000')
        for text in ('1500/100000', 'abc'):
            self.assertRaises(
                lib_exc.Forbidden,
                self.os_primary.flavors_client.set_flavor_extra_spec,
                flavor,
                **{'rt:reservation': text},
            )
        self.assertEqual(self.rt_specs('1400/100000'), self._specs_of(flavor))

    @decorators.idempotent_id('7e9e7f1c-6f1d-4c39-a6f0-0b7f5f5b6c32')
    def test_users_see_the_reservation(self):
        flavor = self.rt_flavor('1400/100000')
        seen = self.os_primary.flavors_client.list_flavor_extra_specs(flavor)
        self.assertEqual('1400/100000', seen['extra_specs']['rt:reservation'])

    def _needs_filter(self):
        if not CONF.nova_rt.hint_middleware:
            self.skipTest('[nova_rt] hint_middleware is not set')

    def _refused(self, flavor, words, specs):
        """Refused with these words, and the flavor is as before."""
        before = self._specs_of(flavor)
        self.assert_refused_with(
            words, self.flavors.set_flavor_extra_spec, flavor, **specs
        )
        self.assertEqual(before, self._specs_of(flavor))

    def _specs_of(self, flavor):
        return self.flavors.list_flavor_extra_specs(flavor)['extra_specs']
