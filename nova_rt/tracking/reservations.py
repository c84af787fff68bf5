# SPDX-License-Identifier: Apache-2.0
"""The reservations of this host's servers, reached by their UUIDs.

The one object that driver, resource tracker and manager share: it holds the
bandwidth that servers claim, and emits what happens to it. What the kernel
holds for those that run is a matter of :mod:`.running`.

There is one truth: the server's record in ``instance.system_metadata``. The
image of it in memory is filled at start-up, by each claim and by each audit
of the resource tracker. Every check of a running container compares with that
image, and so does the claim of the next server: what is promised on a CPU and
what the kernel is asked to hold there cannot differ. Nothing of that waits for
the database.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from oslo_log import log as logging

from nova_rt import events, exception
from nova_rt.host import host as rt_host
from nova_rt.host.capability import Capability
from nova_rt.reservation import admission, record
from nova_rt.tracking import event_log, servers
from nova_rt.tracking.claims import (
    Claims,
    Held,
    Known,
    Slots,
    read_slot,
)

LOG = logging.getLogger(__name__)


class Reservations:
    """Reservations of one host's servers.

    Methods that change claims are called at start-up or under Nova's
    COMPUTE_RESOURCE_SEMAPHORE, by one thread at a time; all others by any.

    :ivar dispatcher: has every event; listeners subscribe here
    :ivar counter: counts them since this process started
    :ivar held: what servers hold, for everyone to read
    """

    def __init__(self, host: rt_host.Host):
        self._host = host
        self.dispatcher = events.Dispatcher()
        self.counter = events.Counter()
        self.dispatcher.subscribe(self.counter)
        self.dispatcher.subscribe(event_log.EventLog(self.counter))
        self._claims = Claims(self.dispatcher)
        self.held: Held = self._claims
        self._adopted = False
        # Before the first audit of the resource tracker, what is claimed is
        # not zero but unknown.
        self._audited = False
        #: Whether the kernel's side could not be read the last time.
        self._blind = False

    # What the host offers

    @property
    def capability(self) -> Capability:
        """The capability of this host's kernel; known after init_host()."""
        return self._host.capability

    def free(self) -> admission.Capacity:
        """Compute what can still be promised on this host.

        This reads what the kernel has, once; the host's capacity is then of
        the same reading.

        If that cannot be read, nothing can be promised until it can: servers
        that need nothing of it are not to wait for it.

        :returns: in ppm of a CPU
        """
        try:
            self._host.refresh()
        except exception.HostNotPrepared as err:
            if not self._blind:
                LOG.error('No bandwidth is offered: %s', err)
            self._blind = True
            return self._host.capacity().without_bandwidth()
        if self._blind:
            LOG.info('Bandwidth is offered again')
        self._blind = False
        return self._host.free(self._claims.list_claims())

    def capacity(self) -> admission.Capacity:
        """Compute what can be promised in all, by the last reading.

        :returns: in ppm of a CPU
        """
        return self._host.capacity()

    # What servers hold

    @property
    def adopted(self) -> bool:
        """Whether the servers of this host are known."""
        return self._adopted

    def claim(
        self, uuid: str, rec: record.Record, beside: bool = False
    ) -> record.Record:
        """Choose CPUs for a server and hold its bandwidth on them.

        :param rec: what it asks for
        :param beside: the server is to be moved here: if it is here already,
            it holds both
        :returns: the same request with its CPUs, for the caller to save
        :raises ClaimsUnknown: before the first audit
        :raises HostNotPrepared: if the kernel's side cannot be read
        :raises InsufficientBandwidth: if it does not fit, with the numbers
        :raises InvalidRecord: if the CPUs do not fit into a record
        """
        # What an earlier attempt to move it has left behind makes room.
        claims = self._claims.list_claims(without=uuid)
        try:
            if not self._audited:
                raise exception.ClaimsUnknown(
                    'this host has not counted its servers yet: the first '
                    'update of its resources has not succeeded'
                )
            rec = rec.claimed_on(self._host.place(claims, rec.request))
            rec.encode()
        except (
            exception.ClaimsUnknown,
            exception.HostNotPrepared,
            exception.InsufficientBandwidth,
            exception.InvalidRecord,
        ) as err:
            self.refuse(uuid, events.Action.CLAIM, err)
            raise
        if beside:
            self._claims.put(uuid, self._claims.get(uuid).current, rec)
        else:
            # It had no part in the sum: nobody moves a server that comes here.
            self._claims.put(uuid, rec)
        return rec

    def hold(
        self,
        uuid: str,
        current: Known | None = None,
        beside: record.Record | None = None,
    ) -> None:
        """Hold for a server what was claimed before, and nothing else.

        :param current: what it must have while it runs here
        :param beside: what it holds in addition, for a move
        """
        self._claims.put(uuid, current, beside)

    def release(self, uuid: str) -> None:
        """Give up all that a server holds, if it holds something."""
        self._claims.put(uuid)

    def adopt(self, instances: Iterable[Any], audited: bool = False) -> None:
        """Make the image of the records anew from servers that do not move.

        :param instances: all servers of this host
        :param audited: see :meth:`count`
        """
        self.count({
            instance.uuid: Slots(
                read_slot(servers.read_claimed, instance)
            )
            for instance in instances
        }, audited)  # fmt: skip

    def count(self, slots: Mapping[str, Slots], audited: bool = True) -> None:
        """Make the image of the records anew.

        A server whose record cannot be read holds nothing, and is stopped
        when it is verified.

        :param slots: what each server holds on this host, by UUID
        :param audited: whether the resource tracker has counted them
        """
        self._audited = self._audited or audited
        self._claims.replace({
            uuid: each for uuid, each in slots.items() if each != Slots()
        })  # fmt: skip
        self._adopted = True

    def refuse(
        self, uuid: str, action: events.Action, reason: str | Exception
    ) -> str:
        """Report that a server is refused something.

        :param reason: the error behind it, with its numbers, or a sentence
        :returns: the reason as text, for the error that the caller raises
        """
        event = events.Refused.because(uuid, action, reason)
        self.dispatcher.emit(event)
        return event.reason
