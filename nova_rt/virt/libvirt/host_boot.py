# SPDX-License-Identifier: Apache-2.0
"""Servers that Nova resumes when their host boots, and that are refused it.

Nova puts such a server into ERROR, says no more to its user, and leaves it
alone at the next boot. If the kernel did less than the server was sold, the
next boot may bring the right one.
"""

from collections.abc import Callable, Iterable
import sys
from typing import Any

from nova.compute import power_state, vm_states
from nova.compute import utils as compute_utils
from oslo_log import log as logging

from nova_rt import exception, faults

LOG = logging.getLogger(__name__)

#: Key in ``instance.system_metadata`` of a server to be resumed later.
KEY = 'nova_rt_not_resumed'


def note_refusal(
    context: Any, instance: Any, error: faults.ReservationNotHeld
) -> None:
    """Tell the user why a server was not resumed; Nova saves the instance.

    :param error: the one that is being handled
    """
    if isinstance(error.__cause__, exception.WeakerPromise):
        instance.system_metadata[KEY] = 'weaker'
    compute_utils.add_instance_fault_from_exc(
        context, instance, error, sys.exc_info()
    )


def retry(instances: Iterable[Any], may_start: Callable[[str], bool]) -> None:
    """Let Nova resume those that this kernel does what they were sold.

    :param may_start: tells that of the UUID of a server
    """
    for instance in instances:
        failed = instance.vm_state == vm_states.ERROR
        if KEY not in instance.system_metadata or (
            failed and not may_start(instance.uuid)
        ):
            continue
        del instance.system_metadata[KEY]
        if failed:
            LOG.info('The kernel does again what it was sold',
                     instance=instance)  # fmt: skip
            instance.vm_state = vm_states.ACTIVE
            instance.power_state = power_state.RUNNING
        instance.save()
