# SPDX-License-Identifier: Apache-2.0
"""The possible owners of files on a server's root disk, kept with it."""

from typing import Any

from nova import exception as nova_exception
from oslo_log import log as logging

from nova_rt import exception, faults
from nova_rt.host import owners

LOG = logging.getLogger(__name__)


def note(instance: Any, mapped: bool) -> None:
    """Record the owners that new files on the disk may have.

    :param mapped: whether the host that starts the server maps owners
    """
    here = owners.Owners.of(mapped)
    before = _read(instance)
    noted = (here if before is None else here.joined(before)).render()
    if instance.system_metadata.get(owners.KEY) != noted:
        instance.system_metadata[owners.KEY] = noted


def check(instance: Any, mapped: bool) -> None:
    """Require that all files of a server will have owners on a host.

    :param mapped: whether the new host maps owners
    :raises ComputeResourcesUnavailable: if some would belong to nobody
    """
    here = owners.Owners.of(mapped)
    had = _read(instance)
    if had is not None and not here.includes(had):
        err = exception.HostNotPrepared(
            f'files of this server may belong to {had.render()} '
            '(users;groups), since it ran without a user namespace or with '
            f'one of more IDs, and containers of this host have '
            f'{here.render()}'
        )
        raise nova_exception.ComputeResourcesUnavailable(
            reason=faults.tell(err)
        ) from err


def _read(instance: Any) -> owners.Owners | None:
    """Read the possible owners of files on the disk of a server.

    :returns: None if they were not recorded: an older nova_rt was the last to
        start the server
    """
    text = instance.system_metadata.get(owners.KEY)
    try:
        return None if text is None else owners.Owners.parse(text)
    except ValueError:
        LOG.warning('Cannot read owners of files on root disk: %r', text,
                    instance=instance)  # fmt: skip
        return None
