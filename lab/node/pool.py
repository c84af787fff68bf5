# SPDX-License-Identifier: Apache-2.0
"""A pool of spare bandwidth on a node, for a while."""

from collections.abc import Iterator
import contextlib

from lab.node import Node

_CONF = '/etc/nova/nova-compute.conf'
_RESTART_S = 300


@contextlib.contextmanager
def configured(own: Node, pool: str) -> Iterator[None]:
    """Let nova-rt-compute hold a pool on each CPU; afterwards none.

    It is restarted at both ends, and may need a minute before it is ready.

    :param pool: runtime and period in microseconds, as ``1000/10000``
    """
    own.run(f'cp -p {_CONF} {_CONF}.kept')
    try:
        _restart(own, f"printf '[nova_rt]\\nspare_pool = {pool}\\n' >>{_CONF}")
        yield
    finally:
        _restart(own, f'mv {_CONF}.kept {_CONF}')


def _restart(own: Node, change: str) -> None:
    own.run(f'{change}; systemctl restart nova-compute', _RESTART_S)
