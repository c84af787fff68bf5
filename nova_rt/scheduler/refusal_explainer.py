# SPDX-License-Identifier: Apache-2.0
"""A look at a bounded number of hosts for a refused server.

Each user may cause as many looks as there are refusals.
Therefore one look asks Placement at most four times for at most ``MAX_HOSTS``
candidates, reads the states of no more than those, and ends when its time is
up; and :class:`TokenBucket` bounds how many looks there are.
"""

from collections.abc import Callable, Iterator
import threading
import time
from typing import Any
import urllib.parse

from nova.scheduler import utils
import os_traits

from nova_rt import exception
from nova_rt.reservation import admission, extra_specs, resources
from nova_rt.reservation.request import Request
from nova_rt.scheduler import explain, host_stats

#: Hosts that one question is about. Those that Placement names first: the
#: best of a larger cloud may not be among them.
MAX_HOSTS = 50
#: Seconds after which a look asks nothing more. What it has asked already is
#: bounded by Nova's own time-outs.
MAX_SECONDS = 5.0

# The first version that names the roots of providers (1.29).
_PLACEMENT_VERSION = '1.29'


class TokenBucket:
    """So many looks at once, and later one for each second that has passed."""

    def __init__(
        self,
        most: int = 10,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = most
        self._clock = clock
        self._left = float(most)
        self._at = clock()
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Take one look, if there is one left; any thread may."""
        with self._lock:
            now = self._clock()
            self._left = min(self._most, self._left + now - self._at)
            self._at = now
            if self._left < 1:
                return False
            self._left -= 1
            return True


class RefusalExplainer:
    """One look, after one refusal."""

    def __init__(self, manager: Any, context: Any, spec_obj: Any) -> None:
        """Prepare a look.

        :param manager: nova.scheduler.manager.SchedulerManager
        :param spec_obj: nova.objects.RequestSpec, as the filters left it
        """
        self._manager = manager
        self._context = context
        self._spec = spec_obj
        self._until = time.monotonic() + MAX_SECONDS

    def explain(self, asked: Request, count: int) -> exception.NoHost | None:
        """Explain why ``count`` servers found no hosts.

        :returns: None if something other than bandwidth refused them
        :raises TimeoutError: if the time is up
        """
        specs = resources.replace(self._spec.flavor.extra_specs, asked)
        # First those that have enough in sum, then those that lack nothing
        # but bandwidth.
        hosts = self._hosts(specs)
        given_away = not hosts
        if given_away:
            del specs[resources.BANDWIDTH_KEY]
            # Those without a pool say so in numbers.
            specs.pop(resources.SPARE_KEY, None)
            hosts = self._hosts(specs)
        if hosts:
            return explain.explain(asked, count, hosts, given_away=given_away)
        if self._with_any_free(resources.TRAITS[asked.enforcement]):
            # They lack memory, or the user's choice of hosts excludes them.
            return None
        weaker: dict[extra_specs.Enforcement, int] = {}
        for promise, trait in resources.TRAITS.items():
            if not promise.fulfils(asked.enforcement):
                # Hosts that keep a stronger one have this trait, too.
                found = self._with_any_free(trait)
                weaker[promise] = found - sum(weaker.values())
        return explain.explain(asked, count, [], weaker)

    def _hosts(self, specs: dict[str, str]) -> list[admission.Capacity]:
        """Free bandwidth of hosts that take servers with these specs."""
        uuids = self._candidates(specs)
        return list(self._free(uuids)) if uuids else []

    def _candidates(self, specs: dict[str, str]) -> list[str]:
        """UUIDs of compute nodes that Placement offers for these specs."""
        self._check_time()
        spec = self._spec.obj_clone()
        spec.flavor.extra_specs = specs
        query = utils.resources_from_request_spec(
            self._context, spec, self._manager.host_manager
        )
        # Nova takes the limit from [scheduler] max_placement_results.
        query._limit = MAX_HOSTS
        found = self._manager.placement_client.get_allocation_candidates(
            self._context, query
        )
        # None if Placement does not answer; its parts are None if it refuses
        # the question, because no host has ever had the class or the trait.
        providers = (found and found[1]) or {}
        roots = {each['root_provider_uuid'] for each in providers.values()}
        return sorted(roots)[:MAX_HOSTS]

    def _with_any_free(self, trait: str) -> int:
        """Count hosts that have a trait and any bandwidth free.

        :returns: at most ``MAX_HOSTS``
        :raises LookupError: if Placement does not say
        """
        self._check_time()
        query = urllib.parse.urlencode(
            {
                'resources': f'{extra_specs.RESOURCE_CLASS}:1',
                'required': f'{trait},!{os_traits.COMPUTE_STATUS_DISABLED}',
                'limit': MAX_HOSTS,
            }
        )
        answer = self._manager.placement_client.get(
            f'/allocation_candidates?{query}',
            version=_PLACEMENT_VERSION,
            global_request_id=self._context.global_id,
        )
        if answer.status_code == 400:
            # Placement knows no such trait or class: no host ever had it.
            return 0
        if answer.status_code != 200:
            raise LookupError(
                f'Placement does not list the hosts with {trait}: '
                f'{answer.text}'
            )
        return len(answer.json()['allocation_requests'])

    def _free(self, uuids: list[str]) -> Iterator[admission.Capacity]:
        """Free bandwidth of the hosts that are up and publish any.

        Without those that are no choice, such as the host that a server is to
        leave.
        """
        self._check_time()
        spec = self._spec
        ignored = (spec.ignore_hosts or ()) if 'ignore_hosts' in spec else ()
        for host in self._manager.host_manager.get_host_states_by_uuids(
            self._context.elevated(), uuids, self._spec
        ):
            if host.host in ignored:
                continue
            if not self._manager.servicegroup_api.service_is_up(host.service):
                continue
            try:
                free = host_stats.parse_free(host)
            except ValueError:
                # The filter has logged it; the host offers nothing.
                continue
            if free is not None:
                yield free

    def _check_time(self) -> None:
        if time.monotonic() > self._until:
            raise TimeoutError(f'no answer within {MAX_SECONDS} s')
