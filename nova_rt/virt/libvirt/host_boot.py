# SPDX-License-Identifier: Apache-2.0
"""Servers that were refused their start when Nova resumed them at a host boot.

Nova puts such a server into ERROR, tells its user no more, and does not resume
it at the next boot. If the kernel enforced less than the server was sold with,
the host may boot the right kernel next time.
"""

from collections.abc import Callable, Iterable
import sys
from typing import Any

from nova import exception as nova_exception
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
    """Record the reason of the refusal for the user; Nova saves the instance.

    :param error: the exception being handled
    """
    if isinstance(error.__cause__, exception.WeakerPromise):
        instance.system_metadata[KEY] = 'weaker'
    compute_utils.add_instance_fault_from_exc(
        context, instance, error, sys.exc_info()
    )


def forget(instance: Any) -> None:
    """Forget the refusal of a server that has started since, on any host.

    Nova saves the instance.
    """
    instance.system_metadata.pop(KEY, None)


def retry(instances: Iterable[Any], may_start: Callable[[str], bool]) -> None:
    """Let Nova resume the servers that this kernel is sufficient for.

    Any fault of one server leaves the others, and the service, alone.

    :param may_start: tells from the UUID of a server whether this kernel keeps
        the promise it was sold with
    """
    for instance in instances:
        failed = instance.vm_state == vm_states.ERROR
        if KEY not in instance.system_metadata or (
            failed and not may_start(instance.uuid)
        ):
            continue
        del instance.system_metadata[KEY]
        if failed:
            LOG.info('Resuming server: the kernel keeps its promise again',
                     instance=instance)  # fmt: skip
            instance.vm_state = vm_states.ACTIVE
            instance.power_state = power_state.RUNNING
        try:
            instance.save()
        except nova_exception.InstanceNotFound:
            # Deleted since the list was read. Nova leaves one in ERROR alone.
            instance.vm_state = vm_states.ERROR
        except Exception:
            LOG.exception('Could not save server that may be resumed again',
                          instance=instance)  # fmt: skip
