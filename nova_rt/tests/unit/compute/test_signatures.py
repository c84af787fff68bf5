# SPDX-License-Identifier: Apache-2.0
"""The parts of Nova that we extend: the first tests to fail if they move.

Nova's own guard looks at public methods; half of ours are private.
"""

import ast
from collections.abc import Iterator
import importlib
import inspect
import itertools
import pathlib
import re

from nova import policy as nova_policy
from nova.compute import manager as nova_manager
from nova.compute import resource_tracker as nova_tracker
from nova.scheduler import manager as nova_scheduler
from nova.virt.libvirt import driver as nova_driver
from nova.virt.libvirt import guest as libvirt_guest
from nova.virt.libvirt import host as libvirt_host
from oslo_config import fixture as config
import oslo_messaging
from oslo_policy import policy
from oslotest import base

import nova_rt
from nova_rt.cmd import nova_compat
from nova_rt.compute import manager, resource_tracker
from nova_rt.lxc import containers, reconnecting, user_namespaces
from nova_rt.scheduler import manager as scheduler_manager
from nova_rt.virt.libvirt import driver

#: Methods of oslo.messaging's Transport, and their parameters.
TRANSPORT = {
    '_send_notification': 'target ctxt message version retry',
    '_listen_for_notifications': (
        'targets_and_priorities pool batch_size batch_timeout'
    ),
    '_require_driver_features': 'requeue',
}


class ExtensionsTest(base.BaseTestCase):
    """The list that ``nova-rt-status upgrade check`` compares is complete."""

    def test_fits(self):
        self.assertEqual([], nova_compat.find_misfits())

    def test_nothing_is_forgotten(self):
        found = set()
        for needed in nova_compat.EXTENSIONS:
            ours, theirs = (
                getattr(importlib.import_module(module), name)
                for module, name in (needed.ours, needed.theirs)
            )
            found.add(ours)
            extended = {
                name
                for name, value in vars(ours).items()
                if inspect.isfunction(value) and hasattr(theirs, name)
            } - {'__init__'}
            self.assertEqual(
                extended, needed.overridden | needed.handed_on.keys()
            )
        self.assertEqual(
            {
                scheduler_manager.RTSchedulerManager,
                manager.RTComputeManager,
                resource_tracker.RTResourceTracker,
                driver.RTLibvirtDriver,
                containers.ContainerDriver,
                user_namespaces.UserNamespaceDriver,
                reconnecting.ReconnectingDriver,
            },
            found,
        )


class NovaInternalsTest(base.BaseTestCase):
    """Nova's own steps around ours."""

    def test_tracker_claims_under_the_lock(self):
        """The step we extend is inside instance_claim(), before it saves."""
        claim = inspect.getsource(nova_tracker.ResourceTracker.instance_claim)
        self.assertIn('synchronized(COMPUTE_RESOURCE_SEMAPHORE', claim)
        step = claim.index('self._set_instance_host_and_node(')
        self.assertLess(step, claim.index('self._update_usage_from_instance('))
        self.assertLess(step, claim.index('self._update('))

    def test_root_file_systems_are_set_up_as_ours(self):
        """Our step does what Nova's does, except that it maps the owners."""
        step = inspect.getsource(
            nova_driver.LibvirtDriver._create_domain_setup_lxc
        )
        called = set(re.findall(r'[\w.]+(?=\()', step)) - {'NOTE'}
        self.assertEqual(
            {
                '_create_domain_setup_lxc', 'libvirt_utils.get_instance_path',
                'driver.block_device_info_get_mapping',
                'block_device.get_root_bdm', 'self._connect_volume',
                'imgmodel.LocalBlockImage', 'self.image_backend.by_name',
                'root_disk.get_model', 'os.path.join', 'fileutils.ensure_tree',
                'disk_api.setup_container', 'self._get_guest_idmaps',
                'libvirt_utils.chown_for_id_maps',
                'excutils.save_and_reraise_exception',
                'self._create_domain_cleanup_lxc',
            },
            called,
        )  # fmt: skip

    def test_reason_of_a_failed_build_is_its_context(self):
        """Nova raises its own error while it handles what failed."""
        for module, error in (
            (nova_manager, 'RescheduledException'),
            (nova_scheduler, 'NoValidHost'),
        ):
            raised = [
                (each, handled)
                for each, handled in _find_raised(inspect.getsource(module))
                if each.endswith(f'.{error}')
            ]
            self.assertNotEqual([], raised)
            if module is nova_manager:
                self.assertNotIn(None, [handled for _, handled in raised])
        self.assertIn('exception.RequestFilterFailed', [
            handled for _, handled in raised
        ])  # fmt: skip

    def test_enforcer_is_made_anew(self):
        """It is not kept, and takes rules that Nova does not have."""
        self.useFixture(config.Config(nova_policy.CONF))
        nova_policy.CONF([], default_config_files=[])
        self.addCleanup(nova_policy.reset)
        seen = []
        for _ in range(2):
            nova_policy.reset()
            self.assertIsNone(nova_policy._ENFORCER)
            nova_policy.init()
            self.assertIsInstance(nova_policy._ENFORCER, policy.Enforcer)
            seen.append(nova_policy._ENFORCER)
        self.assertIsNot(*seen)

    def test_domain_of_a_guest(self):
        domain = object()
        self.assertIs(domain, libvirt_guest.Guest(domain)._domain)

    def test_thread_of_connections(self):
        """The driver ends it: it catches each Exception, for ever."""
        step = inspect.getsource(libvirt_host.Host._dispatch_conn_event)
        self.assertIn('self._conn_event_handler_queue.get()', step)
        self.assertIn('except Exception:', step)
        self.assertNotIn(
            '_conn_event_handler_queue',
            inspect.getsource(libvirt_host.Host.cleanup),
        )

    def test_names_of_directories(self):
        """A server's directory while it is moved, and while it is deleted."""
        for method, suffix in (
            (nova_driver.LibvirtDriver.migrate_disk_and_power_off, '_resize'),
            (nova_driver.LibvirtDriver.delete_instance_files, '_resize'),
            (nova_driver.LibvirtDriver.delete_instance_files, '_del'),
        ):
            self.assertRegex(
                inspect.getsource(method), f"""\\+ ['"]{suffix}['"]\n"""
            )

    def test_transport_of_notifications(self):
        """The listener and the driver of Notifier call the same."""
        for name, parameters in TRANSPORT.items():
            method = getattr(oslo_messaging.transport.Transport, name)
            self.assertEqual(
                parameters.split(),
                [*inspect.signature(method).parameters][1:],
            )

    def test_nothing_private_is_forgotten(self):
        """A private name that is not ours is Nova's, and is in a test."""
        tested = {
            '_domain', '_conn_event_handler_queue', '_wrapped_conn',
            '_wrapped_conn_lock', *itertools.chain(
            *(name.split('.') for names in nova_compat.NAMES.values()
              for name in names),
            *(needed.overridden | needed.handed_on.keys() |
              needed.called.keys() for needed in nova_compat.EXTENSIONS),
        )}  # fmt: skip
        # Of argparse, in nova-rt-model, and of oslo.messaging's transports.
        others = {'_ActionsContainer', '_actions', *TRANSPORT}
        self.assertEqual(set(), _find_foreign_names() - tested - others)

    def test_every_launch_goes_through_create_guest(self):
        """But soft reboot and the end of a snapshot, which are not LXC's."""
        launches = inspect.getsource(nova_driver).count('guest.launch(')
        self.assertEqual(3, launches)


def _find_raised(source: str) -> Iterator[tuple[str, str | None]]:
    """Find the errors that are raised, and what is handled meanwhile."""

    def look(node, handled):
        if isinstance(node, ast.ExceptHandler):
            handled = ast.unparse(node.type) if node.type else 'anything'
        elif isinstance(node, ast.FunctionDef):
            handled = None
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            if not node.cause:
                yield ast.unparse(node.exc.func), handled
        for child in ast.iter_child_nodes(node):
            yield from look(child, handled)

    yield from look(ast.parse(source), None)


def _find_foreign_names() -> set[str]:
    """Find the private attributes that we use and do not define."""
    used, ours = set(), set()
    for path in pathlib.Path(nova_rt.__file__).parent.rglob('*.py'):
        if 'tests' in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                ours.add(node.name)
            elif isinstance(node, ast.Name | ast.Attribute):
                name = getattr(node, 'attr', getattr(node, 'id', ''))
                stored = isinstance(node.ctx, ast.Store)
                (ours if stored else used).add(name)
    return {
        name
        for name in used - ours
        if name.startswith('_') and not name.endswith('__') and name != '_'
    }
