# SPDX-License-Identifier: Apache-2.0
"""The events that a listener sees of a server's life."""

import errno
import os
import time
import uuid

import fixtures
from nova import conf as nova_settings
from nova import objects

from nova_rt import events
from nova_rt.compute import stopped
from nova_rt.conf import nova as nova_conf
from nova_rt.formats import counts
from nova_rt.host.options import Options
from nova_rt.reservation import record
from nova_rt.reservation.domain_record import DomainRecord
from nova_rt.tests.functional import base
from nova_rt.virt.libvirt import metadata

CONF = nova_settings.CONF


class EventsTest(base.RTServersTestBase):
    """Each kind of event, from a Nova in this process."""

    ADMIN_API = True
    CAST_AS_CALL = False

    def setUp(self):
        super().setUp()
        self.start_compute()
        self.seen = self.listen()

    def kinds(self):
        return [type(event).__name__ for event in self.seen]

    def test_a_life(self):
        """Counted for the exporter, over a restart of the service as well."""
        plain = self.create(self.plain_flavor())
        self.verify()
        self._delete_server(plain)
        self.assertEqual([], self.seen)
        server = self.create(self.rt_flavor())
        rec = self.assert_held(server)
        self._reboot_server(server, hard=True)
        self._delete_server(server)
        self.assertEqual(
            [
                events.Claimed(server['id'], rec),
                events.Applied(server['id'], rec),
                events.Applied(server['id'], rec),
                events.Released(server['id'], rec),
            ],
            self.seen,
        )
        self.wait_for_counts(claimed=1, applied=2, released=1)
        self.restart_compute_service('compute1')
        self.wait_for_counts(claimed=1, applied=2, released=1)
        self.assertEqual(
            Options.from_group(CONF.nova_rt, nova_conf.read_cpus(CONF)),
            Options.from_dict(
                counts.Counts.decode(self.counters_file.read_text()).host
            ),
        )

    def test_fault_of_ours(self):
        """Nobody is stopped; it is counted each time, and kept once."""
        flavor = self.rt_flavor('30/1000')
        made = [self.create(flavor) for _ in range(5)]
        del self.seen[:]
        files = self.kernels['compute1'].files
        error = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        with fixtures.MockPatchObject(files, 'read', side_effect=error):
            for _ in range(3):
                self.verify()
        self.assertEqual(['Unverified'] * 15, self.kinds())
        self.assertEqual(5, sum(not event.repeated for event in self.seen))
        for server in made:
            self.assert_held(server)
        self.wait_for_counts(unverified=15, stopped=0)
        text = self.stdlog.logger.output
        self.assertEqual(5, text.count('Cannot verify or repair the'))

    def wait_for_counts(self, **numbers):
        for _ in range(600):
            text = self.counters_file.read_text()
            found = counts.Counts.decode(text).by_kind
            if numbers.items() <= found.items():
                return
            time.sleep(0.1)
        self.fail(f'{found} instead of {numbers}')

    def test_repaired(self):
        server = self.create(self.rt_flavor())
        self.verify()
        self.assertEqual(['Claimed', 'Applied'], self.kinds())
        self.lose_reservation(server)
        self.verify()
        self.assert_held(server)
        drifted, repaired = self.seen[2:]
        self.assertIsInstance(drifted, events.Drifted)
        self.assertIsInstance(repaired, events.Repaired)
        for event in (drifted, repaired):
            self.assertEqual(server['id'], event.uuid)
            self.assertEqual(self.record_of(server), event.record)
            self.assertIn('expected', event.difference)

    def test_stopped(self):
        """Its user is told by the list of actions, a fault and the bus."""
        server = self.create(self.rt_flavor())
        self.lose_reservation(server)
        self.refuse_writes(errno.EBUSY)
        # The kernel has said so once, then again.
        for running in True, False:
            self.verify()
            self.assertEqual(running, self.guest(server).is_active())
        self.assertEqual(
            ['Drifted', 'Unverified', 'Drifted', 'Stopped'], self.kinds()[2:]
        )
        self.assertIn('600/1000', self.seen[-1].reason)
        self.assertIn('EBUSY', self.seen[-1].reason)
        self.assertIn('Stopping this container', self.stdlog.logger.output)
        event = self._wait_for_instance_action_event(
            server, 'stop', stopped.EVENT, 'error'
        )
        self.assertIn('600/1000', event['details'])
        (notified,) = self.notifier.wait_for_versioned_notifications(
            'instance.power_off.error'
        )
        payload = notified['payload']['nova_object.data']
        self.assertEqual(server['id'], payload['uuid'])
        fault = payload['fault']['nova_object.data']
        self.assertIn('600/1000', fault['exception_message'])
        (notified,) = self.notifier.wait_for_versioned_notifications(
            'nova_rt.reservation.stopped'
        )
        self.assertEqual('ERROR', notified['priority'])
        payload = notified['payload']['nova_object.data']
        self.assertEqual(server['id'], payload['uuid'])
        self.assertIn('EBUSY', payload['details'])
        self.assertIsNone(payload['cpus'])
        self._wait_for_assert(
            lambda: self.assertIn(
                '600/1000',
                objects.InstanceFault.get_latest_for_instance(
                    self.ctxt, server['id']
                ).message,
            )
        )

    def test_deleted_before_the_user_is_told(self):
        reporter = stopped.StopReporter('compute1')
        reporter(events.Stopped(str(uuid.uuid4()), 'gone'))
        self.assertNotIn('Could not tell', self.stdlog.logger.output)

    def test_stopped_at_its_start(self):
        self.refuse_writes()
        server = self.create(self.rt_flavor(), state='ERROR')
        self.assertEqual(['Claimed', 'Stopped', 'Released'], self.kinds())
        self.assertEqual({server['id']}, {event.uuid for event in self.seen})
        # A fault holds 255 characters.
        self.assertIn(base.fault_of(server), self.seen[1].reason)
        # The create has failed: that is what the user sees, once.
        self.assertTrue(self.seen[1].at_start)
        self.assertEqual(
            ['create'],
            [
                action['action']
                for action in self.api.get_instance_actions(server['id'])
            ],
        )

    def test_claim_refused(self):
        flavor = self.rt_flavor('500/1000')
        for _ in range(self.CPUS):
            self.create(flavor)
        self.seen.clear()
        # As by a scheduler whose picture is old.
        self.forget_filters()
        server = self.create(self.rt_flavor('600/1000'), state='ERROR')
        (refused,) = self.seen
        self.assertEqual(server['id'], refused.uuid)
        self.assertEqual(events.Action.CLAIM, refused.action)
        self.assertEqual((600_000, 1), (refused.asked_ppm, refused.cpus))
        self.assertEqual(
            (max(self.capacity().values()) - 500_000,), refused.free_ppm
        )
        fault = base.fault_of(server)
        self.assertIn(refused.reason, fault)
        self.assertIn('asked 600000 ppm', fault)
        self.assertIn(f'free {refused.free_ppm[0]} ppm', fault)
        self.assertIn(
            'Cannot claim reservation: RT bandwidth: asked 600000 ppm',
            self.stdlog.logger.output,
        )
        self.assert_nothing_left(of=[server])

    def test_request_refused(self):
        """By the compute, where all before it have let a bad hint pass."""
        self.skip_api_filter()
        self.stub_out('nova.scheduler.request_filter.ALL_REQUEST_FILTERS', [])
        self.forget_filters()
        server = self.create(
            self.rt_flavor('1400/2000'), '1500/2000', state='ERROR'
        )
        (refused,) = self.seen
        self.assertEqual(events.Action.REQUEST, refused.action)
        self.assertEqual(server['id'], refused.uuid)
        self.assertIn('750000', refused.reason)
        self.assertIn('750000', base.fault_of(server))
        self.assert_nothing_left(of=[server])

    def test_broken_listener(self):
        def broken(event):
            raise RuntimeError('listener is broken')

        dispatcher = self.reservations().dispatcher
        dispatcher.subscribe(broken)
        server = self.create(self.rt_flavor())
        self.assert_held(server)
        self._delete_server(server)
        self.assertEqual(3, dispatcher.failures)
        self.assertIn('listener is broken', self.stdlog.logger.output)


class OneTruthTest(base.RTServersTestBase):
    """The server's record and its domain's copy disagree."""

    def setUp(self):
        super().setUp()
        self.start_compute()
        self.server = self.create(self.rt_flavor('600/1000'))

    def change(self, text):
        """Change the server's record, as nothing of ours does today."""
        instance = self.instance(self.server)
        instance.system_metadata[record.KEY] = text
        instance.save()

    def smaller(self):
        text = self.record_of(self.server).encode()
        self.assertIn('q=600', text)
        return text.replace('q=600', 'q=300')

    def assert_seen(self, seen, *kinds):
        self.assertEqual([*kinds], [type(event).__name__ for event in seen])

    def assert_resolved(self, seen):
        """Reported, and all but Placement has what the record says."""
        rec = self.record_of(self.server)
        guest = self.guest(self.server)
        self.assertEqual(rec, metadata.parse_record(guest).record)
        self.assertEqual({self.server['id']: rec}, self.claims())
        host = self.computes['compute1'].driver._rt_host
        self.assertIsNone(host.check(guest.id, rec))
        self.assert_seen(seen, 'Drifted', 'Repaired')
        self.assertIn('its domain carries', seen[0].difference)
        self.assertIn('its domain carries', self.stdlog.logger.output)
        return rec

    def test_by_the_periodic_check(self):
        seen = self.listen()
        self.change(self.smaller())
        self._run_periodics()
        self.verify()
        rec = self.assert_resolved(seen)
        self.assertEqual('300/1000', str(rec.request.reservation))
        # What the kernel has left is known to the next audit.
        self._run_periodics()
        free = self.capacity()
        free[rec.cpus[0]] -= 300_000
        self.assertEqual(free, self.published())

    def test_at_start_up(self):
        self.change(self.smaller())
        seen = []
        # The service that is started has a dispatcher of its own.
        with fixtures.MonkeyPatch(
            'nova_rt.events.Counter.__call__',
            lambda counter, event: seen.append(event),
        ):
            self.restart_compute_service('compute1')
        rec = self.assert_resolved(seen)
        self.assertEqual('300/1000', str(rec.request.reservation))

    def test_copy_was_changed(self):
        seen = self.listen()
        guest = self.guest(self.server)
        metadata.write_record(
            guest, DomainRecord(record.Record.decode(self.smaller()))
        )
        self.verify()
        rec = self.assert_resolved(seen)
        self.assertEqual('600/1000', str(rec.request.reservation))

    def test_other_cpus(self):
        """It is given them while it runs, with its reservation."""
        rec = self.record_of(self.server)
        self.change(rec.claimed_on((3,)).encode())
        seen = self.listen()
        self._run_periodics()
        self.verify()
        self.assert_seen(seen, 'Drifted', 'Repaired')
        self.assertEqual((3,), self.assert_held(self.server).cpus)

    def test_cpuset_that_was_changed(self):
        """Not by us: it is repaired, and the server goes on running."""
        guest = self.guest(self.server)
        kernel = self.kernels['compute1']
        kernel.set_cpus(kernel.group_of(guest.id), (2, 3))
        seen = self.listen()
        self.verify()
        self.assert_seen(seen, 'Drifted', 'Repaired')
        self.assert_held(self.server)

    def test_cpu_that_goes_off_line(self):
        """A container that cannot be repaired for want of it runs on."""
        (cpu,) = self.record_of(self.server).cpus
        self.kernels['compute1'].take_off_line(cpu)
        seen = self.listen()
        self.verify()
        self.verify()
        self.assert_seen(seen, *['Drifted', 'Unverified'] * 2)
        self.assertTrue(self.guest(self.server).is_active())

    def test_broken_record(self):
        """It is no word of the kernel, and the server runs on."""
        self.change('v=9')
        self._run_periodics()
        for _ in range(3):
            self.verify()
        self.assertTrue(self.guest(self.server).is_active())
        self.assertIn('cannot read the record', self.stdlog.logger.output)
        self.restart_compute_service('compute1')
        self.assertTrue(self.guest(self.server).is_active())
