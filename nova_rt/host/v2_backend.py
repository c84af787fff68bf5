# SPDX-License-Identifier: Apache-2.0
"""The common part of back ends on cgroup v2.

A group without a reservation uses that of the group above, so that one level
of a container holds its reservation, and its partition needs none.
"""

import abc
from collections.abc import Mapping
import dataclasses
import pathlib

from nova_rt.host import capability
from nova_rt.host.capability import Capability
from nova_rt.host.cgroup import Container
from nova_rt.host.files import Files
from nova_rt.host.group_backend import GroupBackend
from nova_rt.host.hierarchies import V2
from nova_rt.host.interface import Share, Usage, UsageSource


class V2Backend(GroupBackend):
    """Reservations of one level of a container."""

    INSIDE = True
    hierarchy: V2

    def __init__(self, files: Files) -> None:
        super().__init__(files, V2(files))

    # By the kind of kernel

    @abc.abstractmethod
    def find_reserving(self, container: Container) -> pathlib.Path | None:
        """Find the level with the reservation.

        :returns: the outermost one; None if there is none
        """

    @abc.abstractmethod
    def read_group_usage(self, group: pathlib.Path) -> dict[int, Usage]:
        """Read the usage of a group with a reservation.

        :returns: CPU -> its usage there
        :raises OSError: if that cannot be read
        """

    # The host

    def prepare(self, found: Capability) -> Capability:
        """Make the partition, and enable the cpu controller in it."""
        try:
            self.hierarchy.prepare(found.partition)
        except OSError as err:
            raise capability.make_error(err, found) from err
        return dataclasses.replace(found, prepared=True)

    def read_allowed(self, found: Capability) -> tuple[int, ...]:
        """Read the cpuset of the partition, which is the operator's."""
        return self.hierarchy.read_cpus_in(found.partition)

    # Containers

    def read_usage(self, container: Container) -> Mapping[int, Usage]:
        """Read the usage of the level with the reservation."""
        source = self.find_usage(container)
        return {} if source is None else source.read()

    def find_usage(self, container: Container) -> UsageSource | None:
        """Find the level with the reservation."""
        level = self.find_reserving(container)
        if level is None:
            return None
        return UsageSource(level, lambda: self.read_group_usage(level))

    def read_held(self, container: Container) -> Share | None:
        """Read the share of the level with the reservation."""
        level = self.find_reserving(container)
        return None if level is None else self.read_share(level)
