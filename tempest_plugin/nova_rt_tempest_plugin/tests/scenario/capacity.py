# SPDX-License-Identifier: Apache-2.0
"""Free bandwidth of a host, for tests that use up some of it."""

import dataclasses
import time
from typing import Any

from tempest import config

from nova_rt_tempest_plugin import reports
from nova_rt_tempest_plugin.hosts import transport
from nova_rt_tempest_plugin.tests import base

CONF = config.CONF

_PPM = 10**6
#: Longer than the exporter keeps a reading.
_FRESH_S = 3


@dataclasses.dataclass(frozen=True)
class Free:
    """Bandwidth that servers can be promised, in ppm of a CPU.

    :ivar cpus: CPU -> free ppm
    :ivar host: free ppm of the host: the sum of its CPUs, or less where the
        kernel sums over the host
    """

    cpus: dict[int, int]
    host: int

    def emptiest(self) -> int:
        """Return the first of those CPUs that have the most."""
        return min(self.cpus, key=lambda cpu: (-self.cpus[cpu], cpu))

    def most(self) -> int:
        """Return the largest share of a server of one CPU."""
        return min(max(self.cpus.values()), self.host)

    def most_on_each(self) -> int:
        """Return the largest share on each CPU of a server of all."""
        return min(*self.cpus.values(), self.host // len(self.cpus))

    def after(self, cpus: list[int], amount: int) -> 'Free':
        """Return the capacity that is free beside one more server.

        :param amount: on each of its CPUs, in ppm
        """
        left = {
            cpu: ppm - amount if cpu in cpus else ppm
            for cpu, ppm in self.cpus.items()
        }
        return Free(left, self.host - amount * len(cpus))


def free(host: transport.Host) -> Free:
    """Read the free capacity of a host from the exporter."""
    cpus = reports.of_cpus(host, 'nova_rt_host_cpu_free_ratio')
    total = reports.samples(host)['nova_rt_host_free_cpus', frozenset()]
    return Free(
        {cpu: round(share * _PPM) for cpu, share in cpus.items()},
        round(total * _PPM),
    )


def of(ppm: float) -> str:
    """Return the reservation of so much bandwidth, or a bit less.

    Its period is that of the configuration.
    """
    period = CONF.nova_rt.reservation.partition('/')[2]
    return f'{int(ppm * int(period)) // _PPM}/{period}'


class HostTest(base.RTTest):
    """A test that knows the free capacity of a host, and fills it."""

    NEEDS_HOSTS = True

    @classmethod
    def skip_checks(cls) -> None:
        """Skip where the free capacity is unknown."""
        super().skip_checks()
        if not CONF.nova_rt.exporter_url:
            raise cls.skipException(
                '[nova_rt] exporter_url is not set: it says what is free'
            )

    def setUp(self) -> None:
        """Choose the host."""
        super().setUp()
        self.there = self.hosts()[0]

    def boot_there(
        self, reservation: str, vcpus: int = 1, **options: Any
    ) -> dict[str, Any]:
        """Make a server on the host, after the scheduler has checked it."""
        return self.boot_flavor(
            self.rt_flavor(reservation, vcpus),
            clients=self.os_admin,
            host=self.there.name,
            **options,
        )

    def refused_there(self, reservation: str, vcpus: int = 1) -> str:
        """Ask for a server that does not fit on the host; its fault."""
        return self.refused(
            reservation,
            vcpus,
            clients=self.os_admin,
            host=self.there.name,
        )

    def free(self) -> Free:
        """Return the free capacity once it stays the same.

        The servers of the test before are deleted, and the exporter may have
        looked while they were there.
        """
        before = free(self.there)
        deadline = time.monotonic() + CONF.nova_rt.settle_timeout
        while time.monotonic() < deadline:
            time.sleep(_FRESH_S)
            now = free(self.there)
            if now == before:
                return now
            before = now
        self.fail('what is free does not settle')

    def wait_until_free(self, expected: Free) -> None:
        """Wait until the exporter says that so much is free."""
        self.wait_until_equal(
            expected, lambda: free(self.there), 'free on the host'
        )
