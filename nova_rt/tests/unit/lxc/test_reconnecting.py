# SPDX-License-Identifier: Apache-2.0
"""A libvirtd that ends: the host connects again, and is enabled again."""

import threading

import fixtures
import libvirt
from nova import exception
from nova.virt import fake
from nova.virt.libvirt import host
from oslotest import base

from nova_rt.lxc import reconnecting
from nova_rt.virt.libvirt import driver as rt_driver

#: A second thread gets as long; a lock that nobody gives back is for ever.
PATIENCE_S = 60


class LostConnection(libvirt.libvirtError):
    def __init__(self, code=libvirt.VIR_ERR_INTERNAL_ERROR):
        super().__init__('end of file while reading data')
        self.code = code

    def get_error_code(self):
        return self.code

    def get_error_domain(self):
        return libvirt.VIR_FROM_RPC


class FailedCall(LostConnection):
    """A failed system call of libvirtd; the connection is there."""

    def __init__(self):
        super().__init__(libvirt.VIR_ERR_SYSTEM_ERROR)

    def get_error_domain(self):
        return libvirt.VIR_FROM_CGROUP


class Connection:
    """A connection that is reported closed by the call that notices it."""

    def __init__(self):
        self.open = True
        self.report = None

    def registerCloseCallback(self, callback, opaque):
        self.report = lambda: callback(self, 1, opaque)

    def domainEventRegisterAny(self, *args):
        pass

    def getLibVersion(self):
        if not self.open:
            self.report()
            raise LostConnection


class ReconnectingDriverTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.made = []
        self.patch('host.Host._connect', self.connect)
        # As on a host: nothing between libvirt's report and its handler.
        self.patch(
            'host.LibvirtEventHandler.create',
            lambda _, *handlers: host._ThreadingLibvirtEventHandler(*handlers),
        )
        self.useFixture(fixtures.MockPatchObject(reconnecting.time, 'sleep'))
        self.enabled = []
        self.patch(
            'driver.LibvirtDriver._set_host_enabled',
            lambda driver, *words: self.enabled.append(words),
        )
        self.driver = reconnecting.ReconnectingDriver(fake.FakeVirtAPI())
        self.host = self.driver._host
        self.assertIs(self.get_connection(), self.made[0])

    def patch(self, name, value):
        self.useFixture(
            fixtures.MonkeyPatch(f'nova.virt.libvirt.{name}', value)
        )

    def connect(self, own, uri, read_only):
        self.made.append(Connection())
        return self.made[-1]

    def get_connection(self):
        """Ask for the connection in a thread of its own."""
        found = []
        thread = threading.Thread(
            target=lambda: found.append(self.host._get_connection()),
            daemon=True,
        )
        thread.start()
        thread.join(PATIENCE_S)
        self.assertFalse(thread.is_alive(), 'it waits for its own lock')
        return found[0]

    def handle_events(self):
        """Handle what is queued, and return the last state of the host."""
        while not self.host._conn_event_handler_queue.empty():
            self.host._dispatch_conn_event()
        return self.enabled[-1]

    def test_reported_by_the_test_of_the_connection(self):
        self.made[0].open = False
        self.assertIs(self.get_connection(), self.made[1])
        self.assertEqual((True, None), self.handle_events())

    def test_report_is_late(self):
        """It comes when the host has a new connection."""
        report, self.made[0].report = self.made[0].report, lambda: None
        self.made[0].open = False
        self.assertIs(self.get_connection(), self.made[1])
        self.assertEqual((True, None), self.handle_events())
        report()
        self.assertEqual((True, None), self.handle_events())
        self.assertIs(self.get_connection(), self.made[1])

    def test_end_of_a_container(self):
        """libvirtd ends with the container that it stops."""
        instance = object()
        for method, words in (
            ('_clean_shutdown', (instance, 60, 10)),
            ('_destroy', (instance,)),
        ):
            for known in True, False:
                asked = []

                def fail_once(driver, *args, known=known, asked=asked):
                    asked.append(args)
                    if len(asked) > 1:
                        return 'ended'
                    try:
                        raise LostConnection
                    except libvirt.libvirtError:
                        if known:
                            raise
                        # As in Host._get_domain(), which names no cause.
                        raise exception.InternalError('lost')

                self.patch(f'driver.LibvirtDriver.{method}', fail_once)
                self.assertEqual('ended', getattr(self.driver, method)(*words))
                self.assertEqual([words] * 2, asked)

    def test_other_errors(self):
        """They are not repeated, and those that may pass not for ever."""
        for error, times in (
            (libvirt.libvirtError('no'), 1),
            (exception.InternalError('no'), 1),
            (LostConnection(), 4),
            (LostConnection(libvirt.VIR_ERR_SYSTEM_ERROR), 4),
            (FailedCall(), 4),
        ):
            asked = []

            def fail(driver, *args, asked=asked, error=error):
                asked.append(args)
                raise error

            self.patch('driver.LibvirtDriver._destroy', fail)
            own = rt_driver.RTLibvirtDriver.__new__(rt_driver.RTLibvirtDriver)
            for each in self.driver, own:
                asked.clear()
                self.assertRaises(type(error), each._destroy, None)
                self.assertEqual(times, len(asked), error)

    def test_no_libvirtd(self):
        """The host is disabled as long as it has no connection."""
        self.assertEqual((True, None), self.handle_events())
        self.made[0].report()
        enabled, reason = self.handle_events()
        self.assertFalse(enabled)
        self.assertIn('lost', reason)
        self.get_connection()
        self.assertEqual((True, None), self.handle_events())
