# SPDX-License-Identifier: Apache-2.0
"""Samples what servers use of this host's CPUs, and what they hold there."""

import collections
from collections.abc import Iterator, Mapping
import datetime
from typing import Protocol

import libvirt

from nova_rt import admission, record
from nova_rt.db.objects import HostSample, Sample
from nova_rt.host.capability import Capability
from nova_rt.host.interface import Usage


class Source(Protocol):
    """The members of :mod:`nova_rt.virt.libvirt.reservations` used here."""

    adopted: bool
    capability: Capability

    def capacity(self) -> admission.Capacity: ...

    def list_records(self) -> Mapping[str, record.Record]: ...


class Running(Protocol):
    """The members of :mod:`nova_rt.virt.libvirt.running` used here."""

    def list_running(self) -> set[str]: ...

    def read_usage(self, uuid: str) -> Mapping[int, Usage] | None: ...


class Sampler:
    """Computes what was used since the last time.

    :param source: the reservations of this host
    :param running: its running containers
    """

    def __init__(self, source: Source, running: Running) -> None:
        self._source = source
        self._running = running
        self._last: dict[str, tuple[float, Mapping[int, Usage] | None]] = {}
        self._last_s: float | None = None

    def take(
        self, now: datetime.datetime, now_s: float
    ) -> tuple[dict[str, list[Sample]], list[HostSample]]:
        """Read the kernel's counters.

        :param now: the time
        :param now_s: seconds of a clock that does not jump
        :returns: samples of each server that ran all the time or was started
            meanwhile, and of the host; none at the first time
        """
        records = self._source.list_records()
        running = self._running.list_running()
        last, self._last = self._last, {}
        found = {}
        for uuid in records.keys() & running:
            try:
                usage = self._running.read_usage(uuid)
            except (OSError, libvirt.libvirtError):
                continue  # It is ending, or verification says more.
            self._last[uuid] = now_s, usage
            if uuid in last:
                before_s, before = last[uuid]
                found[uuid] = list(
                    _compare(records[uuid], now, now_s - before_s, before,
                             usage)
                )  # fmt: skip
        first_s, self._last_s = self._last_s, now_s
        if first_s is None:
            return {}, []
        return found, self._sum(records, found, now, now_s - first_s)

    def _sum(
        self,
        records: Mapping[str, record.Record],
        found: Mapping[str, list[Sample]],
        now: datetime.datetime,
        span_s: float,
    ) -> list[HostSample]:
        span_us = int(span_s * 1_000_000)
        reserved = reserved_ppm(records)
        used: dict[int, int | None] = collections.defaultdict(int)
        for sample in (each for some in found.values() for each in some):
            so_far = used[sample.cpu]
            if so_far is None or sample.used_us is None:
                used[sample.cpu] = None
            else:
                used[sample.cpu] = so_far + sample.used_us
        at = now - datetime.timedelta(microseconds=span_us)
        return [
            HostSample(
                at, cpu, span_us, span_us * ppm // 1_000_000,
                span_us * reserved[cpu] // 1_000_000, used[cpu],
            )
            for cpu, ppm in self._source.capacity().cpus.items()
        ]  # fmt: skip


def _compare(
    rec: record.Record,
    now: datetime.datetime,
    span_s: float,
    before: Mapping[int, Usage] | None,
    usage: Mapping[int, Usage] | None,
) -> Iterator[Sample]:
    span_us = int(span_s * 1_000_000)
    at = now - datetime.timedelta(microseconds=span_us)
    reserved_us = span_us * rec.request.reservation.ppm // 1_000_000
    for cpu in rec.cpus:
        if usage is None or cpu not in usage:
            yield Sample(at, cpu, span_us, reserved_us, None, None, None)
            continue
        new = usage[cpu]
        old = (before or {}).get(cpu)
        if old is None or new.used_us < old.used_us:
            # The group was made anew.
            old = Usage(0, 0, 0)
        yield Sample(
            at, cpu, span_us, reserved_us, new.used_us - old.used_us,
            _since(old.periods, new.periods),
            _since(old.throttled, new.throttled),
        )  # fmt: skip


def _since(old: int | None, new: int | None) -> int | None:
    return None if new is None else max(0, new - (old or 0))


def reserved_ppm(
    records: Mapping[str, record.Record],
) -> collections.Counter[int]:
    """Add up what servers hold on each CPU.

    :returns: CPU -> ppm of it
    """
    total: collections.Counter[int] = collections.Counter()
    for rec in records.values():
        for claim in rec.claims:
            for cpu in claim.cpus:
                total[cpu] += claim.ppm
    return total
