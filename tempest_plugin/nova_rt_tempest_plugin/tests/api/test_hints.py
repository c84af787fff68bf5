# SPDX-License-Identifier: Apache-2.0
"""Tests of good hints, and of each refusal."""

from tempest import config
from tempest.lib import decorators
from tempest.lib import exceptions as lib_exc

from nova_rt_tempest_plugin.tests import base
from nova_rt_tempest_plugin.tests.api import test_flavors

CONF = config.CONF

ONE_VALUE = (
    'the hint rt_reservation takes one value <runtime_us>/<period_us>, for '
    'example 1400/2000'
)
#: Case -> (value of the hint, the words of the answer).
BAD_HINTS = test_flavors.BAD_RESERVATIONS | {
    'list': (['10000/100000', '20000/100000'], ONE_VALUE),
    'nested object': ({'runtime': 10000}, ONE_VALUE),
    'number': (10000, ONE_VALUE),
}


class HintsTest(base.RTTest):
    """Hints through the API, and the reservations of good ones."""

    @decorators.idempotent_id('8d6f8a1e-0e0f-4f2f-9d4c-0d2a9f1c7b43')
    def test_less_of_the_flavor(self):
        self._needs_hints()
        wanted = CONF.nova_rt.small_reservation
        server = self.boot(hint=wanted)
        self.assert_agree(server['id'], wanted)

    @decorators.idempotent_id('b0f2b8a4-2b9c-4d1e-8c39-6f1d5b9e7a54')
    def test_a_longer_period(self):
        self._needs_hints()
        runtime, period = map(int, CONF.nova_rt.reservation.split('/'))
        wanted = f'{runtime}/{2 * period}'
        server = self.boot(hint=wanted)
        self.assert_agree(server['id'], wanted)

    @decorators.attr(type=['negative'])
    @decorators.idempotent_id('d3b3a3a8-5f0e-4a77-8b9d-7a2c3e4f5b65')
    def test_bad(self):
        self._needs_hints()
        flavor = self.rt_flavor()
        for title, (hint, words) in BAD_HINTS.items():
            with self.subTest(title):
                self._refused(words, flavor, hint)

    @decorators.attr(type=['negative'])
    @decorators.idempotent_id('0c6a4c1b-8f7d-4c86-9e0a-8b3d4f5a6c76')
    def test_bad_at_older_versions(self):
        self._needs_hints()
        flavor = self.rt_flavor()
        for version in ('2.37', '2.85'):
            for title, (hint, words) in BAD_HINTS.items():
                with (
                    self.subTest(f'{version} {title}'),
                    self.microversion(version),
                ):
                    self._refused(words, flavor, hint)

    @decorators.attr(type=['negative'])
    @decorators.idempotent_id('4a1d0b5f-6e8c-4d97-8a1b-9c4e5f6b7d87')
    def test_more_than_the_flavor(self):
        self._needs_hints('lower')
        own = CONF.nova_rt.reservation
        more = base.times(own, 1.5)
        self._refused(
            f"asks for {base.ppm(more)} ppm of a CPU, more than the flavor's "
            f'{own} ({base.ppm(own)} ppm): a hint may only ask for less',
            self.rt_flavor(),
            more,
        )

    @decorators.attr(type=['negative'])
    @decorators.idempotent_id('5b2e1c60-7f9d-4ea8-9b2c-ad5f607c8e98')
    def test_a_shorter_period(self):
        self._needs_hints('lower')
        runtime, period = map(int, CONF.nova_rt.reservation.split('/'))
        self._refused(
            f'has a period of {period // 2} us, shorter than the {period} us '
            f"of the flavor's {CONF.nova_rt.reservation}: a hint may only ask "
            'for the same or a longer one',
            self.rt_flavor(),
            f'{runtime // 2}/{period // 2}',
        )

    @decorators.attr(type=['negative'])
    @decorators.idempotent_id('6c3f2d71-80ae-4fb9-8c3d-be60718d9fa9')
    def test_none_at_all(self):
        if CONF.nova_rt.hints != 'deny':
            self.skipTest('[nova_rt] hints is not deny')
        self._needs_filter()
        self._refused(
            'the hint rt_reservation is not allowed on this cloud: the '
            f"reservation is the flavor's, {CONF.nova_rt.reservation}",
            self.rt_flavor(),
            CONF.nova_rt.small_reservation,
        )

    @decorators.attr(type=['negative'])
    @decorators.idempotent_id('7d403e82-91bf-40ca-9d4e-cf71829eafba')
    def test_on_a_plain_flavor(self):
        self._needs_filter()
        self._refused(
            'the hint rt_reservation needs a real-time flavor: this flavor '
            'has no rt:reservation',
            self.flavor({}),
            CONF.nova_rt.small_reservation,
        )

    @decorators.attr(type=['negative'])
    @decorators.idempotent_id('8e514f93-a2c0-41db-8e5f-d08293afb0cb')
    def test_unknown_hint(self):
        self._needs_filter()
        flavor = self.rt_flavor()
        self.assert_refused_with(
            'unknown hint rt_priority: the only real-time hint is '
            'rt_reservation',
            self._ask,
            flavor,
            {'rt_priority': '7'},
        )

    @decorators.attr(type=['negative'])
    @decorators.idempotent_id('9f6260a4-b3d1-42ec-9f60-e193a4b0c1dc')
    def test_flavor_that_is_not_there(self):
        """Answer about the missing flavor, not about the hint."""
        error = self.assertRaises(
            lib_exc.BadRequest,
            self._ask,
            '00000000-0000-0000-0000-000000000000',
            {'rt_reservation': CONF.nova_rt.small_reservation},
        )
        self.assertIn('could not be found', self.message(error))

    def _needs_filter(self):
        if not CONF.nova_rt.hint_middleware:
            self.skipTest('[nova_rt] hint_middleware is not set')

    def _needs_hints(self, *rules):
        self._needs_filter()
        if CONF.nova_rt.hints not in (rules or ('lower', 'any')):
            self.skipTest(f'[nova_rt] hints is {CONF.nova_rt.hints}')

    def _refused(self, words, flavor, hint):
        self.assert_refused_with(
            words, self._ask, flavor, {'rt_reservation': hint}
        )

    def _ask(self, flavor, hints):
        """Ask for a server that must be refused."""
        made = self.servers.create_server(
            name='refused',
            imageRef=CONF.compute.image_ref,
            flavorRef=flavor,
            networks='none',
            scheduler_hints=hints,
        )['server']
        # Only where the test fails.
        self.addCleanup(self.delete, made['id'])
        return made
