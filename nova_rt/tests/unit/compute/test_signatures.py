# SPDX-License-Identifier: Apache-2.0
"""What we extend of Nova is still there: the first test to fail when it moves.

Nova's own guard looks at public methods; half of ours are private.
"""

import inspect
import re

from nova import test
from nova.compute import manager as nova_manager
from nova.compute import resource_tracker as nova_tracker
from nova.scheduler import manager as nova_scheduler
from nova.virt.libvirt import driver as nova_driver
from oslotest import base

from nova_rt.cmd import nova_fit
from nova_rt.compute import (
    claim_tracker,
    manager,
    move_manager,
    resource_tracker,
)
from nova_rt.scheduler import manager as scheduler_manager
from nova_rt.virt.libvirt import containers, driver, user_namespaces


class ManagerSignatureTest(test.SubclassSignatureTestCase):
    def _get_base_class(self):
        return nova_manager.ComputeManager


class TrackerSignatureTest(test.SubclassSignatureTestCase):
    def _get_base_class(self):
        return nova_tracker.ResourceTracker


class DriverSignatureTest(test.SubclassSignatureTestCase):
    def _get_base_class(self):
        return nova_driver.LibvirtDriver

    def _get_argspecs(self, cls):
        """But of those that are handed on: nova_fit compares them."""
        found = super()._get_argspecs(cls)
        for name in nova_fit.CONTAINERS.handed_on:
            found.pop(name, None)
        return found


class ExtensionsTest(base.BaseTestCase):
    """What ``nova-rt-status upgrade check`` compares is all that there is."""

    def test_fits(self):
        self.assertEqual([], nova_fit.find_misfits())

    def test_nothing_is_forgotten(self):
        for needed, ours, theirs in (
            (
                nova_fit.SCHEDULER,
                scheduler_manager.RTSchedulerManager,
                nova_scheduler.SchedulerManager,
            ),
            (
                nova_fit.MANAGER,
                manager.RTComputeManager,
                nova_manager.ComputeManager,
            ),
            (
                nova_fit.MOVES,
                move_manager.MoveManager,
                nova_manager.ComputeManager,
            ),
            (
                nova_fit.CLAIMS,
                claim_tracker.ClaimTracker,
                nova_tracker.ResourceTracker,
            ),
            (
                nova_fit.TRACKER,
                resource_tracker.RTResourceTracker,
                nova_tracker.ResourceTracker,
            ),
            (
                nova_fit.DRIVER,
                driver.RTLibvirtDriver,
                nova_driver.LibvirtDriver,
            ),
            (
                nova_fit.CONTAINERS,
                containers.ContainerDriver,
                nova_driver.LibvirtDriver,
            ),
            (
                nova_fit.NAMESPACES,
                user_namespaces.UserNamespaceDriver,
                nova_driver.LibvirtDriver,
            ),
        ):
            extended = {
                name
                for name, value in vars(ours).items()
                if inspect.isfunction(value) and hasattr(theirs, name)
            } - {'__init__'}
            self.assertEqual(
                extended, needed.overridden | needed.handed_on.keys()
            )
            self.assertEqual((ours.__module__, ours.__name__), needed.ours)
            self.assertEqual(
                (theirs.__module__, theirs.__name__), needed.theirs
            )


class NovaInternalsTest(base.BaseTestCase):
    """What Nova does around our steps."""

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

    def test_every_launch_goes_through_create_guest(self):
        """But soft reboot and the end of a snapshot, which are not LXC's."""
        launches = inspect.getsource(nova_driver).count('guest.launch(')
        self.assertEqual(3, launches)
