# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.scheduler.manager with real databases and Placement."""

import json

import ddt
import fixtures
from keystoneauth1 import exceptions as ks_exc
from nova import exception as nova_exception
from nova import objects as nova_objects
from nova.scheduler import filters
import oslo_messaging as messaging
from oslo_messaging._drivers import common as exceptions
from oslotest import base

from nova_rt.reservation import extra_specs
from nova_rt.scheduler import refusal_explainer
from nova_rt.tests.unit.scheduler import cloud, objects

FLAVOR = {'rt:reservation': '600/1000'}
GUARANTEE = (extra_specs.TRAIT_GUARANTEE, extra_specs.TRAIT_LIMIT)
LIMIT = (extra_specs.TRAIT_LIMIT,)


class OnlyTo(filters.BaseHostFilter):
    def __init__(self, *hosts):
        self.hosts = hosts

    def host_passes(self, host_state, spec_obj):
        return host_state.host in self.hosts


class ManagerTestCase(cloud.CloudTestCase):
    DETAILS = 'full'

    def setUp(self):
        super().setUp()
        self.flags(refusal_details=self.DETAILS, group='nova_rt')
        # No test is about time, but for one.
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_rt.scheduler.refusal_explainer.MAX_SECONDS', 600
            )
        )

    def _add(self, name, free=(950_000,), traits=GUARANTEE, **kwargs):
        """A host whose CPUs have this much free."""
        inventory = {'VCPU': 16, 'MEMORY_MB': 65536, 'DISK_GB': 1000}
        stats = {'num_instances': '0'}
        if traits:
            inventory['CUSTOM_RT_BANDWIDTH'] = max(1, sum(free))
            stats['rt_free'] = json.dumps(dict(enumerate(free)))
            stats |= kwargs.pop('stats', {})
        self.add_host(name, stats, inventory, traits, **kwargs)

    def _refusal(self, specs=FLAVOR, **kwargs):
        """The words with which a request is refused, as conductor sees it."""
        wrapped = self.assertRaises(
            messaging.ExpectedException, self.select, specs, **kwargs
        )
        error = wrapped.exc_info[1]
        self.assertIsInstance(error, nova_exception.NoValidHost)
        self.assertLessEqual(len(error.format_message()), 255)
        #: The error as the conductor gets it, with the details of the fault.
        self.sent = exceptions.serialize_remote_exception(wrapped.exc_info)
        return error.format_message()


class RTSchedulerManagerTest(ManagerTestCase):
    def test_emptiest_host(self):
        self._add('half', (500_000, 950_000))
        self._add('empty', (950_000, 950_000))
        self._add('plain', traits=())
        self.assertEqual(['empty'], self.select(FLAVOR))
        # One that is not real-time goes anywhere.
        self.manager.host_manager.enabled_filters.append(
            OnlyTo('half', 'plain')
        )
        self.assertIn(self.select({})[0], ('half', 'plain'))

    def test_several_servers(self):
        self._add('one', (950_000, 950_000))
        self._add('two', (950_000,))
        hosts = self.select(FLAVOR, count=3)
        self.assertEqual(['one', 'one', 'two'], sorted(hosts))

    def test_placement_refuses(self):
        self._add('one', (350_000,))
        self._add('two', (200_000,))
        message = self._refusal()
        self.assertIn('asked 600000', message)
        self.assertIn('free 350000', message)
        self.assertIn('best of 2', message)

    def test_placement_has_given_it_away(self):
        """The host has not published the server that is being built on it."""
        self._add('one', (950_000,))
        self.assertEqual(['one'], self.select(FLAVOR))
        message = self._refusal()
        self.assertIn('room on 1 host(s)', message)
        self.assertIn('given it away', message)

    def test_filter_refuses(self):
        # The sum would do, no CPU does.
        self._add('one', (500_000, 400_000))
        self.assertIn('free 500000', self._refusal())

    def test_several_servers_do_not_fit(self):
        self._add('one', (950_000, 950_000))
        self._add('two', (950_000,))
        self.assertIn('room for 3 on 2', self._refusal(count=4))

    def test_refused_servers_leave_no_allocation(self):
        self._add('one', (950_000, 950_000))
        self._refusal(count=3)
        usages = self.placement.api.get(
            f'/resource_providers/{objects.uuids.one}/usages', version='1.20'
        ).body['usages']
        self.assertEqual({0}, set(usages.values()))

    def test_no_host_has_ever_offered_it(self):
        self._add('plain', traits=())
        self.assertIn('free none', self._refusal())

    def test_hosts_that_only_limit(self):
        self._add('one', traits=LIMIT)
        self._add('two', traits=LIMIT)
        self.assertIn('2 only limit', self._refusal())
        hosts = self.select(FLAVOR | {'rt:enforcement': 'limit'})
        self.assertIn(hosts[0], ('one', 'two'))
        self._add('soft', traits=(extra_specs.TRAIT_SOFT, *LIMIT))
        self._add('disabled', traits=(*LIMIT, 'COMPUTE_STATUS_DISABLED'))
        message = self._refusal()
        self.assertIn('1 only soft', message)
        self.assertIn('2 only limit', message)

    def test_hosts_that_may_not_take_it_do_not_count(self):
        self._add('down', (950_000,), up=False)
        self._add('one', (350_000,))
        self._add(
            'disabled',
            (950_000,),
            (*GUARANTEE, 'COMPUTE_STATUS_DISABLED'),
        )
        self._add('bad', (950_000,), stats={'rt_free': 'garbage'})
        message = self._refusal()
        self.assertIn('free 350000', message)
        self.assertIn('best of 1', message)

    def test_choice_of_the_user(self):
        self._add('one', (350_000,))
        self._add('two', (950_000,))
        destination = nova_objects.Destination(
            host='one', node=None, cell=self.cell_mappings['cell1']
        )
        for choice in (
            {'force_hosts': ['one'], 'force_nodes': ['one']},
            {'requested_destination': destination},
        ):
            self.assertIn('free 350000', self._refusal(**choice))

    def test_zone(self):
        self._add('one', (350_000,))
        self._add('two', (950_000,))
        aggregate = nova_objects.Aggregate(
            self.context, name='zone', metadata={'availability_zone': 'east'}
        )
        aggregate.create()
        aggregate.add_host('one')
        self.manager.host_manager.update_aggregates([aggregate])
        self._put(
            f'/resource_providers/{objects.uuids.one}/aggregates',
            {
                'resource_provider_generation': 2,
                'aggregates': [aggregate.uuid],
            },
        )
        message = self._refusal(availability_zone='east')
        self.assertIn('free 350000', message)
        self.assertEqual(['two'], self.select(FLAVOR))

    def test_something_else_refused(self):
        self._add('one')
        self.manager.host_manager.enabled_filters.append(OnlyTo())
        message = self._refusal()
        self.assertNotIn('RT bandwidth', message)
        self.assertIn('not enough hosts', message)

    def test_placement_answers_with_an_error(self):
        self._add('one', (350_000,))
        answer = self.placement._fake_get

        def fail(client, url, **kwargs):
            # The questions of the look have a limit of their own.
            if f'limit={refusal_explainer.MAX_HOSTS}' in url:
                url = '/nowhere'
            return answer(client, url, **kwargs)

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.scheduler.client.report.SchedulerReportClient.get', fail
            )
        )
        self.assertEqual('No valid host was found. ', self._refusal())
        self.assertIn('cannot be explained', self.stdlog.logger.output)

    def test_old_conductor_sends_no_object(self):
        self._add('one', (350_000,))
        spec = objects.request_spec(dict(FLAVOR))
        wrapped = self.assertRaises(
            messaging.ExpectedException,
            self.manager.select_destinations,
            self.context,
            request_spec=spec.to_legacy_request_spec_dict(),
            filter_properties={},
        )
        self.assertIsInstance(wrapped.exc_info[1], nova_exception.NoValidHost)
        self.assertNotIn('cannot be explained', self.stdlog.logger.output)

    def test_request_filters_have_their_own_reasons(self):
        """There is not enough bandwidth either, but nobody asked for it."""
        self._add('one', (350_000,))

        def refuse(*args):
            raise nova_exception.RequestFilterFailed(reason='not you')

        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.scheduler.cells.stay', refuse)
        )
        message = self._refusal()
        self.assertIn('not you', message)
        self.assertNotIn('RT bandwidth', message)

    def test_something_that_placement_knows_refused(self):
        """There is bandwidth, but not enough memory."""
        self._add('one')
        flavor = FLAVOR | {'resources:MEMORY_MB': '99999'}
        for specs, vcpus in (flavor, 1), ({}, 17):
            self.assertEqual(
                'No valid host was found. ', self._refusal(specs, vcpus=vcpus)
            )
        self.assertNotIn('cannot be explained', self.stdlog.logger.output)

    def _note_loads(self):
        """From now on, the numbers of hosts that are read at once."""
        loads = []
        host_manager = self.manager.host_manager
        load = host_manager.get_host_states_by_uuids

        def note(context, uuids, spec_obj):
            loads.append(len(uuids))
            return load(context, uuids, spec_obj)

        host_manager.get_host_states_by_uuids = note
        return loads

    def test_one_look_reads_no_more_hosts_than_its_bound(self):
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_rt.scheduler.refusal_explainer.MAX_HOSTS', 2
            )
        )
        for name in ('one', 'two', 'three', 'four'):
            self._add(name, (350_000,))
        loads = self._note_loads()
        self.assertIn('best of 2', self._refusal())
        self.assertEqual([2], loads)

    def test_many_refusals(self):
        """Any user can cause them: a look for each would be too many."""
        self._add('one', (350_000,))
        loads = self._note_loads()
        self.manager._allowance = refusal_explainer.TokenBucket(2, lambda: 0.0)
        explained = ['free 350000' in self._refusal() for _ in range(4)]
        self.assertEqual([True, True, False, False], explained)
        self.assertEqual([1, 1], loads)


@ddt.ddt
class UnexplainedTest(ManagerTestCase):
    """Whatever goes wrong in the explanation, Nova's refusal stands."""

    def setUp(self):
        super().setUp()
        self.manager._allowance = refusal_explainer.TokenBucket(1000)

    @ddt.data(
        'RefusalExplainer.__init__',
        'RefusalExplainer.explain',
        'RefusalExplainer._candidates',
        'RefusalExplainer._with_any_free',
        'RefusalExplainer._free',
        'explain.explain',
        'host_stats.parse_free',
        'TokenBucket.take',
    )
    def test_step(self, step):
        self._add('down', (350_000,), up=False)
        if '_with_any_free' not in step:
            self._add('one', (350_000,))
        for error in (
            AssertionError('no'),
            ks_exc.ConnectFailure('no'),
            messaging.MessagingTimeout('no'),
            nova_exception.NoValidHost(reason='another'),
        ):

            def fail(*args, error=error, **kwargs):
                raise error

            with fixtures.MonkeyPatch(
                f'nova_rt.scheduler.refusal_explainer.{step}', fail
            ):
                self.assertEqual('No valid host was found. ', self._refusal())
        self.assertIn('cannot be explained', self.stdlog.logger.output)

    def test_time_is_up(self):
        self._add('one', (350_000,))
        with fixtures.MonkeyPatch(
            'nova_rt.scheduler.refusal_explainer.MAX_SECONDS', -1
        ):
            self.assertEqual('No valid host was found. ', self._refusal())
        self.assertIn('no answer within', self.stdlog.logger.output)


class ModestTest(ManagerTestCase):
    """The part of a refusal that any user may read.

    The functional tests have the fault, and its details.
    """

    DETAILS = 'modest'

    def test_users_and_administrators(self):
        self._add('one', (350_000,))
        self._add('two', (200_000,))
        self.assertEqual(
            'No valid host was found. RT bandwidth: asked 600000 ppm on each '
            'of 1 CPU(s), which is not free',
            self._refusal(),
        )
        for text in ('free 350000 ppm', 'best of 2 host(s)'):
            self.assertIn(text, self.sent)
            self.assertIn(text, self.stdlog.logger.output)


class AllowanceTest(base.BaseTestCase):
    def test_refills(self):
        now = [7.0]
        allowance = refusal_explainer.TokenBucket(2, lambda: now[0])
        took = []
        for seconds in (0, 0, 0, 0.5, 0.5, 0, 60, 0, 0):
            now[0] += seconds
            took.append(allowance.take())
        self.assertEqual(
            [True, True, False, False, True, False, True, True, False], took
        )
