# SPDX-License-Identifier: Apache-2.0
"""Measure a web server beside batch work in one container of a node.

    python -m experiments.spare.web [--requests N]

The lab has to be up with a node: `python -m lab up --node hcbs --computes 0`.
BusyBox's httpd with FIFO-2 and an endless task of RR-1 share (40, 100) ms, as
the service and the batch work of RTLWS 2011. Requests come at random times,
each with a connection of its own. The server is alone, beside the batch work,
and beside it with a pool of (4, 10) ms. The table is printed, and is in
results/spare-web of the lab's work directory with every time. The exit code is
1 if the pool does not answer sooner, or costs batch work.
"""

import argparse
import collections
from collections.abc import Iterator
import contextlib
import dataclasses
import http.client
import random
import sys
import time
from typing import Any

from experiments import servers
from lab import catalog, namespace, node, paths
from lab.console import LabError
from lab.measure import distribution, rtprobe
from lab.node import group, pool

RESERVATION, POOL = '40000/100000', '4000/10000'
BATCH, SERVICE = 1, 2
#: Least CPU time of the container's own budget with a pool, against that
#: without.
LEAST_SUPPLY = 0.99
_PAGE_BYTES = 1024
_MEAN_S = 0.25
_ANSWER_S = 10
_BATCH_S = 3600
_PATIENCE_S = 300
#: With the tasks of the container's group, so that it has its reservation.
_SERVE = """
echo $$ >'{directory}/cgroup.procs'
pid=$(virsh -q -c lxc:/// domid {server})
first=$(cut -d' ' -f1 /proc/$pid/task/$pid/children)
exec chrt -f {priority} nsenter --target "$first" --all --root --wd \\
    /bin/sh -c 'yes | head -c {size} >/tmp/page; exec httpd -h /tmp'
"""
_HEADS = ('case', 'requests', 'p50_ms', 'p99_ms', 'most_ms', 'own_share')


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A measured case.

    :ivar times_us: of answers, ascending
    :ivar own_share: time of the container's own budget, of the whole
    """

    name: str
    times_us: list[int]
    own_share: float

    def row(self) -> tuple[str, ...]:
        """Write it in words."""
        numbers = (
            distribution.percentile(self.times_us, percent) / 1000
            for percent in (50, 99, 100)
        )
        return (
            self.name,
            str(len(self.times_us)),
            *(f'{number:.1f}' for number in numbers),
            f'{self.own_share:.4f}',
        )


class Service:
    """A web server in a container.

    :param own: the node that it is on
    :param server: the server, which is active
    :raises LabError: if it cannot be started
    """

    def __init__(self, own: node.Node, server: Any) -> None:
        self._ip = servers.address(server)
        self._group = group.Group.of(own, server.id)
        self.probe = rtprobe.Probe(self._ip)
        self.probe.wait(_PATIENCE_S)
        own.run(
            _SERVE.format(
                directory=self._group.directory, server=server.id,
                priority=SERVICE, size=_PAGE_BYTES,
            )
        )  # fmt: skip

    def measure(self, name: str, requests: int) -> Outcome:
        """Send requests at random times.

        :returns: the outcome
        :raises LabError: if one has no answer
        """
        draw = random.Random(1)  # noqa: S311 - not for secrets
        times = []
        began_s, began_us = time.monotonic(), self._read_own_us()
        for _ in range(requests):
            time.sleep(draw.expovariate(1 / _MEAN_S))
            times.append(self._ask())
        own_us = self._read_own_us() - began_us
        length_us = (time.monotonic() - began_s) * 1e6
        return Outcome(name, sorted(times), own_us / length_us)

    def _ask(self) -> int:
        began_ns = time.monotonic_ns()
        asking = http.client.HTTPConnection(self._ip, timeout=_ANSWER_S)
        with contextlib.closing(asking):
            try:
                asking.request('GET', '/page')
                answer = asking.getresponse()
                body = answer.read()
            except OSError as err:
                raise LabError(f'{self._ip} does not answer: {err}') from err
        if answer.status != http.HTTPStatus.OK or len(body) != _PAGE_BYTES:
            raise LabError(f'{self._ip} answers {answer.status}')
        return (time.monotonic_ns() - began_ns) // 1000

    def _read_own_us(self) -> int:
        """Read the time that its own budget has given, on all CPUs."""
        counts = collections.Counter[str]()
        for word in self._group.read('cpu.rt.stat').split():
            name, _, value = word.partition('=')
            if value:
                counts[name] += int(value)
        return counts['used_usec'] - counts['spare_usec']


def measure(requests: int) -> Iterator[Outcome]:
    """Measure the three cases.

    :returns: their outcomes
    :raises LabError: if the lab has no node, or a case cannot be measured
    """
    own = next((each for each in node.nodes() if each.kind == 'hcbs'), None)
    if own is None:
        raise LabError('the lab has no node: python -m lab up --node hcbs')
    with contextlib.ExitStack() as stack:
        cloud = stack.enter_context(contextlib.closing(catalog.connect()))
        stack.enter_context(pool.configured(cloud, own, POOL))
        image = cloud.image.find_image(catalog.IMAGE, ignore_missing=False)
        ours = servers.Servers(cloud, 'spare-web', image.id)
        stack.callback(ours.delete)
        server = ours.boot('own', RESERVATION, network=True)
        service = Service(own, server)
        yield service.measure('alone', requests)
        service.probe.hog('rr', BATCH, seconds=_BATCH_S)
        yield service.measure('beside batch work', requests)
        ours.delete(server)
        server = ours.boot(
            'pool', RESERVATION, network=True, specs={'rt:spare': POOL}
        )
        service = Service(own, server)
        service.probe.hog('rr', BATCH, seconds=_BATCH_S)
        yield service.measure('beside it, with a pool', requests)


def main(argv: list[str] | None = None) -> int:
    """Run it.

    :returns: the exit code
    """
    parser = argparse.ArgumentParser(
        prog='python -m experiments.spare.web',
        description=(__doc__ or '').partition('\n')[0],
    )
    parser.add_argument(
        '--requests', type=int, default=200, help='in each case'
    )
    requests = parser.parse_args(argv).requests
    if requests < 1:
        parser.error('--requests is at least 1')
    if not namespace.inside():
        return servers.again('experiments.spare.web')
    try:
        found = list(measure(requests))
    except LabError as err:
        print(f'experiments.spare.web: {err}', file=sys.stderr)
        return 2
    results = paths.RESULTS / 'spare-web'
    results.mkdir(parents=True, exist_ok=True)
    rows = [_HEADS, *(outcome.row() for outcome in found)]
    text = ''.join(' | '.join(row) + '\n' for row in rows)
    (results / 'times.txt').write_text(text)
    print(text, end='')
    for outcome in found:
        times = ''.join(f'{each}\n' for each in outcome.times_us)
        (results / f'{outcome.name}.us').write_text(times)
    _, without, with_pool = found
    late = [distribution.percentile(each.times_us, 99) for each in found[1:]]
    verdicts = (
        (f'p99 with a pool: {late[1] / late[0]:.2f} of that without',
         late[1] < late[0]),
        ('CPU time of the own budget: '
         f'{with_pool.own_share / without.own_share:.4f} of that without, at '
         f'least {LEAST_SUPPLY}',
         with_pool.own_share >= LEAST_SUPPLY * without.own_share),
    )  # fmt: skip
    for words, kept in verdicts:
        print('ok  ' if kept else 'FAIL', words)
    return 0 if all(kept for _, kept in verdicts) else 1


if __name__ == '__main__':
    sys.exit(main())
