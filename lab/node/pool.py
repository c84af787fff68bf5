# SPDX-License-Identifier: Apache-2.0
"""A pool of spare bandwidth on a node, for a while."""

from collections.abc import Callable, Iterator
import contextlib
import time

from openstack.connection import Connection

from lab import world
from lab.console import LabError
from lab.node import Node

_CONF = '/etc/nova/nova-compute.conf'
_RESTART_S = 300


@contextlib.contextmanager
def configured(cloud: Connection, own: Node, pool: str) -> Iterator[None]:
    """Let nova-rt-compute hold a pool on each CPU; afterwards none.

    It is restarted at both ends. One of the CPUs has to be empty then.

    :param pool: runtime and period in microseconds, as ``1000/10000``
    :raises LabError: if it is not ready in time
    """
    before = _most_free(own)
    own.run(f'cp -p {_CONF} {_CONF}.kept')
    try:
        text = f'[nova_rt]\\nspare_pool = {pool}\\n'
        own.run(f"printf '{text}' >>{_CONF}")
        _restart(cloud, own, lambda: _most_free(own) < before)
        yield
    finally:
        own.run(f'mv {_CONF}.kept {_CONF}')
        _restart(cloud, own, lambda: _most_free(own) == before)


def _most_free(own: Node) -> int:
    return max(world.stats(own.host).free.values())


def _restart(cloud: Connection, own: Node, done: Callable[[], bool]) -> None:
    own.run('systemctl restart nova-compute', _RESTART_S)
    deadline = time.monotonic() + _RESTART_S
    while not (_is_up(cloud, own) and done()):
        if time.monotonic() > deadline:
            raise LabError(f'{own.host} does not offer another bandwidth')
        time.sleep(1)


def _is_up(cloud: Connection, own: Node) -> bool:
    (found,) = cloud.compute.services(binary='nova-compute', host=own.host)
    return bool(found.state == 'up')
