# SPDX-License-Identifier: Apache-2.0
"""Limits of what a container takes from the host's root user."""

from nova_rt.host.files import Files


def put_on(controller: int, files: Files | None = None) -> None:
    """Limit a container that runs in a user namespace.

    :param controller: its libvirt_lxc process, the domain's ID
    :raises OSError: see :func:`nova_rt.privsep.limits.limit`
    """
    (files or Files()).limit(controller)
