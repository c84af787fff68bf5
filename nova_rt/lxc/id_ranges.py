# SPDX-License-Identifier: Apache-2.0
"""Ranges of user and group IDs: one for each server, while it is defined here.

The domains of this libvirtd are the truth: a range is taken as long as a
domain has it in its ``<idmap>``, or an unfinished start has chosen it. Ranges
read from domains are cached briefly only. So a restart of the service loses
nothing, and the removal of a deleted server's domain releases its range. The
number kept with the server is a preference: a reboot, which defines the domain
again, gives it the same range unless another server has it by then.
"""

from collections.abc import Collection, Iterator
import contextlib
import threading
import time
from typing import Any

import libvirt
from lxml import etree
from nova.virt.libvirt import guest as libvirt_guest
from nova.virt.libvirt import host as libvirt_host

from nova_rt import exception
from nova_rt.id_pool import SIZE, IDPool
from nova_rt.lxc import domains

#: Key in ``instance.system_metadata``.
KEY = 'nova_rt_id_range'


#: Seconds for which a domain is not read again. Otherwise each of many
#: simultaneous starts would read all domains.
_KNOWN_S = 30.0


class IDRanges:
    """The ranges of one host; all methods are thread-safe.

    :ivar pool: the IDs that they are part of
    """

    def __init__(self, pool: IDPool, hypervisor: libvirt_host.Host) -> None:
        self.pool = pool
        self._hypervisor = hypervisor
        self._lock = threading.Lock()
        #: UUID of a server that is being started -> its range.
        self._starting: dict[str, int] = {}
        #: UUID of a domain -> the ranges that it had when it was read.
        self._known: dict[str, set[int]] = {}
        self._known_since_s = 0.0

    @contextlib.contextmanager
    def starting(self, instance: Any) -> Iterator[int]:
        """Reserve a range for a server until its domain has it.

        Nested calls during one start return the same range.

        :returns: the first ID of the range
        :raises NoIDRange: if none is free
        :raises HostNotPrepared: if libvirt cannot list the taken ranges
        """
        uuid = instance.uuid
        with self._lock:
            nested = uuid in self._starting
            if not nested:
                self._starting[uuid] = self._choose(instance)
            first = self._starting[uuid]
        if instance.system_metadata.get(KEY) != str(first):
            instance.system_metadata[KEY] = str(first)
        try:
            yield first
        finally:
            if not nested:
                with self._lock:
                    del self._starting[uuid]
                    self._known.pop(uuid, None)

    def _choose(self, instance: Any) -> int:
        taken = set(self._starting.values())
        own: set[int] = set()
        guests = {guest.uuid: guest for guest in self._list_guests()}
        self._forget(instance.uuid, guests)
        for uuid, guest in guests.items():
            if uuid not in self._known:
                self._known[uuid] = set(self._read_ranges(guest))
            found = own if uuid == instance.uuid else taken
            found.update(self._known[uuid])
        wanted = [*self._read_wish(instance), *sorted(own), *self.pool.ranges]
        for first in wanted:
            if first not in taken:
                return first
        raise exception.NoIDRange(SIZE, len(self.pool.ranges), str(self.pool))

    def _forget(self, uuid: str, guests: Collection[str]) -> None:
        """Forget the domains that may have changed since they were read.

        These are the starting one, those that are gone, and from time to time
        all: other programs can define domains, too.
        """
        now_s = time.monotonic()
        if now_s - self._known_since_s > _KNOWN_S:
            self._known.clear()
            self._known_since_s = now_s
        for each in self._known.keys() - (set(guests) - {uuid}):
            del self._known[each]

    def _read_wish(self, instance: Any) -> list[int]:
        """Read the last range of a server, if it is one of this host."""
        text = instance.system_metadata.get(KEY)
        return [each for each in self.pool.ranges if str(each) == text]

    def _list_guests(self) -> list[libvirt_guest.Guest]:
        try:
            return self._hypervisor.list_guests(only_running=False)
        except domains.ERRORS as err:
            raise _unreadable(f'libvirt lists no domains: {err}') from err

    def _read_ranges(self, guest: libvirt_guest.Guest) -> Iterator[int]:
        """Read the ranges of a domain, now and at its next start."""
        for inactive in (False, True):
            try:
                xml = guest.get_xml_desc(dump_inactive=inactive)
            except libvirt.libvirtError as err:
                if err.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                    return
                raise _unreadable(f'of domain {guest.uuid}: {err}') from err
            for target, count in read_id_maps(xml):
                yield from self.pool.overlapped(target, count)


def read_id_maps(xml: str) -> Iterator[tuple[int, int]]:
    """Read the host IDs of a domain.

    :returns: (first ID, count) of users and of groups
    :raises HostNotPrepared: if they are no numbers
    """
    # Not any <idmap>: metadata may hold anything.
    for each in _parse(xml).iterfind('./idmap/*'):
        try:
            yield int(each.get('target')), int(each.get('count'))
        except (TypeError, ValueError) as err:
            raise _unreadable(repr(etree.tostring(each))) from err


def write_id_map(xml: str, first: int) -> str:
    """Replace the ID map of a domain by a range.

    :param xml: the definition
    :param first: the first ID of the range
    :returns: the new definition
    """
    domain = _parse(xml)
    for each in domain.findall('./idmap'):
        domain.remove(each)
    maps = etree.SubElement(domain, 'idmap')
    for kind in ('uid', 'gid'):
        etree.SubElement(
            maps, kind, start='0', target=str(first), count=str(SIZE)
        )
    text: str = etree.tostring(domain, encoding='unicode')
    return text


def _parse(xml: str) -> Any:
    """Parse a document as bytes, since a text must not name its encoding."""
    return etree.fromstring(xml.encode())


def _unreadable(what: str) -> exception.HostNotPrepared:
    return exception.HostNotPrepared(
        f'cannot read which ID ranges are taken: {what}'
    )
