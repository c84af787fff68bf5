# SPDX-License-Identifier: Apache-2.0
"""The owners that files on a server's root disk may have, noted with it."""

from typing import Any

from nova import exception as nova_exception
from oslo_log import log as logging

from nova_rt import exception, faults
from nova_rt.host import owners

LOG = logging.getLogger(__name__)


def note(instance: Any, mapped: bool) -> None:
    """Note whose files the disk may have from now on.

    :param mapped: whether the host that starts the server maps owners
    """
    here = owners.Owners.of(mapped)
    before = _read(instance)
    noted = (here if before is None else here.joined(before)).render()
    if instance.system_metadata.get(owners.KEY) != noted:
        instance.system_metadata[owners.KEY] = noted


def check(instance: Any, mapped: bool) -> None:
    """See that the files of a server would have owners on a host.

    :param mapped: whether the host that is to run it maps owners
    :raises ComputeResourcesUnavailable: if some would belong to nobody
    """
    here = owners.Owners.of(mapped)
    had = _read(instance)
    if had is not None and not here.includes(had):
        err = exception.HostNotPrepared(
            f'its files may belong to {had.render()} (users;groups), since '
            'it ran without a user namespace or with one of more IDs, and '
            f'containers of this host have {here.render()}'
        )
        raise nova_exception.ComputeResourcesUnavailable(
            reason=faults.tell(err)
        ) from err


def _read(instance: Any) -> owners.Owners | None:
    """Read the owners that files on the disk of a server may have.

    :returns: None if that was not noted: it was last started by an older
        nova_rt
    """
    text = instance.system_metadata.get(owners.KEY)
    try:
        return None if text is None else owners.Owners.parse(text)
    except ValueError:
        LOG.warning('Cannot read whose files it has: %r', text,
                    instance=instance)  # fmt: skip
        return None
