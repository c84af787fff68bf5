# SPDX-License-Identifier: Apache-2.0
"""Features of the host's kernel that libvirt-lxc needs."""

from nova_rt import exception
from nova_rt.host.files import Files


def check_children(files: Files) -> None:
    """Require that the first process of a container can be found.

    The limits of a container are set in that process's user namespace.

    :raises HostNotPrepared: if not
    """
    task = files.proc / 'thread-self'
    if task.exists() and not (task / 'children').exists():
        raise exception.HostNotPrepared(
            f'this kernel has no {files.proc}/<pid>/task/<tid>/children, by '
            'which the first process of a container is found: no server would '
            'start; boot a kernel with CONFIG_PROC_CHILDREN=y'
        )


def find_no_fuse(files: Files) -> str | None:
    """Tell whether libvirt-lxc can show a container its own /proc/meminfo.

    :returns: None if it can, else a sentence
    """
    try:
        known = files.read(files.proc / 'filesystems').split()
    except OSError:
        return None
    # It may be a module that is loaded when the device is opened.
    if 'fuse' in known or (files.dev / 'fuse').exists():
        return None
    return (
        'this kernel has no FUSE, which libvirt-lxc needs unless it was built '
        'without: no server will start; boot a kernel with CONFIG_FUSE_FS'
    )
