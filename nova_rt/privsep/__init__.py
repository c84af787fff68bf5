# SPDX-License-Identifier: Apache-2.0
"""The privileged contexts: the rights of nova_rt beyond those of its service.

``rt_pctxt`` has three capabilities, each needed:

* CAP_CHOWN to take the files of a reservation back from the container's root,
  who is given them by libvirt on cgroup v2,
* CAP_DAC_OVERRIDE to make the partition, because the top directory of a
  control group hierarchy is writable for nobody, root included,
* CAP_SYS_NICE to give tasks a real-time policy and, on a kernel that
  guarantees, to reserve.

``mount_pctxt`` puts id-mapped mounts in place: CAP_SYS_ADMIN to mount,
CAP_SETUID and CAP_SETGID to describe a user namespace, CAP_DAC_READ_SEARCH to
reach a root file system, and CAP_SYS_PTRACE to enter the user namespace of a
first process that has not executed its program yet. Where the machine has it,
CAP_SYS_RESOURCE keeps libvirt_lxc from the out-of-memory killer. It is a
helper of its own, so that the one that writes to control groups has none of
these.
"""

import pathlib

from oslo_privsep import capabilities, priv_context


def is_permitted(capability: int) -> bool:
    """Look whether the kernel can give this process a capability at all.

    Some machines keep some from root, and a helper that asks for one of them
    does not start.
    """
    status = pathlib.Path('/proc/self/status').read_text(encoding='utf-8')
    bounding = status.partition('CapBnd:')[2].split()[0]
    return bool(int(bounding, 16) >> capability & 1)


rt_pctxt = priv_context.PrivContext(
    'nova_rt',
    cfg_section='nova_rt_privileged',
    pypath=f'{__name__}.rt_pctxt',
    capabilities=[
        capabilities.CAP_CHOWN,
        capabilities.CAP_DAC_OVERRIDE,
        capabilities.CAP_SYS_NICE,
    ],
)

mount_pctxt = priv_context.PrivContext(
    'nova_rt',
    cfg_section='nova_rt_privileged_mount',
    pypath=f'{__name__}.mount_pctxt',
    capabilities=[
        capabilities.CAP_DAC_READ_SEARCH,
        capabilities.CAP_SETGID,
        capabilities.CAP_SETUID,
        capabilities.CAP_SYS_ADMIN,
        capabilities.CAP_SYS_PTRACE,
        *filter(is_permitted, [capabilities.CAP_SYS_RESOURCE]),
    ],
)
