# SPDX-License-Identifier: Apache-2.0
"""Placement's allocation of a server whose reservation is changed."""

from concurrent import futures
import contextlib
from typing import Any

from nova import exception as nova_exception
from nova.scheduler.client import report

from nova_rt import exception
from nova_rt.compute import background
from nova_rt.reservation import extra_specs, record

_RC = extra_specs.RESOURCE_CLASS
#: Further attempts while others change the host's provider.
_RETRIES = 3


class Allocations:
    """The allocations of the servers of a host.

    :param client: nova's SchedulerReportClient
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        #: Server -> its allocations, which are being read.
        self._ahead: dict[str, futures.Future[Any]] = {}

    def read_ahead(self, context: Any, uuid: str) -> None:
        """Read the allocations of a server meanwhile, for :meth:`change`."""
        self._ahead[uuid] = background.begin(
            self._client.get_allocs_for_consumer, context, uuid
        )

    def forget(self, uuid: str) -> None:
        """Forget what was read ahead for a server, if that was not used."""
        self._ahead.pop(uuid, None)

    def change(
        self, context: Any, uuid: str, provider: str, rec: record.Record
    ) -> None:
        """Make Placement hold the bandwidth of a record.

        The generation of the consumer excludes another change in between.

        :param uuid: of the server
        :param provider: UUID of the host's provider
        :raises InsufficientBandwidth: if the host has less left
        :raises NotAdmitted: if Placement holds nothing there for the server
        :raises AllocationUpdateFailed: if Placement refuses it all the same
        """
        ahead = self._ahead.pop(uuid, None)
        payload = (
            self._client.get_allocs_for_consumer(context, uuid)
            if ahead is None
            else ahead.result()
        )
        allocations = payload['allocations']
        held = allocations.get(provider, {}).get('resources', {})
        wanted = rec.request.total_ppm
        if _RC not in held:
            raise exception.NotAdmitted(
                f'Placement holds no {_RC} for this server on this host'
            )
        if held[_RC] == wanted:
            return
        before, held[_RC] = held[_RC], wanted
        for each in allocations.values():
            # Of the provider, not wanted in an answer.
            each.pop('generation', None)
        if not self._put(context, uuid, payload):
            free = self._read_free(context, provider) + before
            if free >= wanted:
                # A fault of Placement, or of another class of the allocation:
                # the client does not say which.
                raise nova_exception.AllocationUpdateFailed(
                    consumer_uuid=uuid,
                    error=f'Placement has {free} {_RC} for it and refuses '
                    f'{wanted}: its log says why',
                )
            vcpus = rec.request.vcpus
            raise exception.InsufficientBandwidth(
                wanted // vcpus, vcpus, (max(0, free) // vcpus,),
                f'Placement has {free} left for all vCPUs together on this '
                'host',
            )  # fmt: skip

    def _put(self, context: Any, uuid: str, payload: dict[str, Any]) -> bool:
        for _ in range(_RETRIES):
            with contextlib.suppress(report.Retry):
                return bool(
                    self._client.put_allocations(context, uuid, payload)
                )
        return bool(self._client.put_allocations(context, uuid, payload))

    def _read_free(self, context: Any, provider: str) -> int:
        """Read the bandwidth that Placement has left for a host."""
        url = f'/resource_providers/{provider}'
        total, used = (
            self._client.get(
                f'{url}/{name}', global_request_id=context.global_id
            ).json()
            for name in ('inventories', 'usages')
        )
        inventory = total['inventories'].get(_RC, {})
        left = inventory.get('total', 0) - inventory.get('reserved', 0)
        free: int = left - used['usages'].get(_RC, 0)
        return free
