# SPDX-License-Identifier: Apache-2.0
"""Puts our classes where Nova's tests expect Nova's.

Nova's classes keep their names: a test that instantiates one gets an object
of ours, and our class inherits what the test patches on Nova's. If the name
meant our class instead, Nova's ``super(ComputeManager, self)`` would call
itself, and a patch would replace our method, not the one that ours calls.
"""

# Before anything else of Nova: chooses between native and green threads.
import nova.tests.unit  # noqa: F401

# isort: split
from collections.abc import Collection
import types
from typing import Any

from nova.compute import manager as nova_manager
from nova.compute import resource_tracker as nova_tracker
from nova.virt.libvirt import driver as nova_driver

from nova_rt.compute import manager, resource_tracker
from nova_rt.host import files, host, limits, orphans
from nova_rt.lxc import connections, protection
from nova_rt.reservation import admission, extra_specs
from nova_rt.virt.libvirt import driver


class Host(host.Host):
    """A host without bandwidth, whose kernel is neither read nor written."""

    capability = types.SimpleNamespace(
        name='none', enforcement=extra_specs.Enforcement.LIMIT
    )

    def check_delegation(self) -> None:
        """Give nothing away."""

    def start(self) -> Any:
        """Find nothing to prepare."""
        return self.capability

    def capacity(self) -> admission.Capacity:
        """Promise nothing."""
        return admission.Capacity({})

    def check_helper(self) -> None:
        """Need none."""

    def sweep_task_limits(self) -> None:
        """Find nothing to remove."""

    def reclaim(self, running: Collection[int]) -> list[orphans.OrphanedGroup]:
        """Find nothing that libvirt has left."""
        return []


#: Nova's class -> what its tests get
CLASSES = {
    nova_driver.LibvirtDriver: driver.RTLibvirtDriver,
    nova_tracker.ResourceTracker: resource_tracker.RTResourceTracker,
    nova_manager.ComputeManager: manager.RTComputeManager,
}


def _agree(*args: object) -> None:
    """Need no privileged helper, and no domain of libvirt."""


def install() -> None:
    """Make an instance of one of Nova's classes an instance of ours."""
    host.Host = Host
    files.Files.check_mount_helper = _agree
    protection.Protection.protect = _agree
    connections.ensure = _agree
    limits.check_task_limits = _agree
    for theirs in CLASSES:
        theirs.__new__ = staticmethod(_new)


def _new(cls: type, *args: Any, **kwargs: Any) -> Any:
    return object.__new__(CLASSES.get(cls, cls))


def adopt() -> None:
    """Make subclasses of Nova's classes in test modules derive from ours.

    Call it when the test modules are loaded.
    """
    for theirs, ours in CLASSES.items():
        for cls in theirs.__subclasses__():
            if cls.__module__.startswith('nova.tests.'):
                cls.__bases__ = (ours,)
