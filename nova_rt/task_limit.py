# SPDX-License-Identifier: Apache-2.0
"""The number of tasks that a container may have: an option, or by flavor."""

from collections.abc import Mapping

from nova_rt.reservation import spec_values

#: Extra spec of flavors, plain or real-time.
KEY = 'lxc:max_tasks'

TEXT = (
    'Processes and threads that a container may have, plain or real-time, '
    'instead of ``[nova_rt] max_tasks``.'
)

#: Up to what a kernel can number: include/linux/threads.h, PID_MAX_LIMIT.
VALUES = spec_values.Number(1, 4 * 1024 * 1024)


def choose(specs: Mapping[str, str], default: int) -> int:
    """Find the limit of a container.

    :param specs: extra specs of its flavor
    :param default: ``[nova_rt] max_tasks``
    :returns: number of tasks; 0 for no limit
    :raises InvalidRequest: if the flavor's is no such number
    """
    if KEY not in specs:
        return default
    return VALUES.parse(KEY, specs[KEY])
