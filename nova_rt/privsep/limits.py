# SPDX-License-Identifier: Apache-2.0
"""Privileged: limits of a container's root on things of the host's root.

The kernel charges some objects to a user in every user namespace above it, and
above a container's that is the maker of the namespace: libvirt, so the
host's root (Linux kernel/ucount.c, inc_ucount()). A namespace begins without
limits of its own, so that 128 inotify instances of one container leave none to
the host's root and to every other container.

The limits are files of ``/proc/sys/user`` that show those of the namespace of
any process that opens them. Here a process enters the namespace to write them;
inside, only CAP_SYS_RESOURCE can raise them again, which containers are not
given.

Nothing here trusts its caller: the process must be in the partition and in a
user namespace other than this one, and the numbers are those of this
process's own configuration.
"""

from collections.abc import Iterator, Mapping
import contextlib
import errno
import os
import subprocess

from oslo_config import cfg

from nova_rt import conf
import nova_rt.privsep
from nova_rt.privsep import tasks
from nova_rt.privsep.kernel import SystemCalls

#: Files of /proc/sys/user -> option of nova_rt.
_OPTIONS = {
    'max_inotify_instances': 'max_inotify_instances',
    'max_fanotify_groups': 'max_inotify_instances',
    'max_inotify_watches': 'max_inotify_watches',
    'max_fanotify_marks': 'max_inotify_watches',
    **{
        f'max_{kind}_namespaces': 'max_namespaces'
        for kind in (
            'cgroup', 'ipc', 'mnt', 'net', 'pid', 'time', 'user', 'uts',
        )
    },
}  # fmt: skip

#: Writes pairs of a name and a number, and reads each back.
_SCRIPT = """
cd /proc/sys/user
while [ $# -gt 0 ]; do
    if [ -e "$1" ]; then
        echo "$2" >"$1"
        [ "$(cat "$1")" = "$2" ]
    fi
    shift 2
done
"""


@nova_rt.privsep.mount_pctxt.entrypoint
def limit(controller: int) -> None:
    """Limit the charges of a container to the host's root.

    :param controller: the container's libvirt_lxc, the parent of its first
        process
    :raises OSError: EACCES if its first process is not in the partition, or
        in no user namespace of its own; ESRCH if there is none; EIO if a
        limit is not held
    """
    _limit(SystemCalls(), controller, _configured())


def _configured() -> dict[str, int]:
    conf.register_opts(cfg.CONF)
    return {
        name: cfg.CONF.nova_rt[option] for name, option in _OPTIONS.items()
    }


def _limit(
    kernel: SystemCalls, controller: int, limits: Mapping[str, int]
) -> None:
    with opened(kernel, _open_first(kernel, int(controller))) as process:
        # It may have the memory of libvirt_lxc still, until it executes its
        # program: only CAP_SYS_PTRACE in the host's namespace will do then.
        namespace = os.open(
            'ns/user', os.O_RDONLY | os.O_CLOEXEC, dir_fd=process
        )
    try:
        if os.path.samestat(
            os.fstat(namespace), os.stat(f'{kernel.proc}/self/ns/user')
        ):
            raise PermissionError(
                errno.EACCES,
                f'the container of process {controller} has no user namespace',
            )
        _write(namespace, limits)
    finally:
        os.close(namespace)


def _open_first(kernel: SystemCalls, controller: int) -> int:
    """Open the directory in proc of a controller's first child.

    :raises OSError: ESRCH if there is none
    """
    path = f'{kernel.proc}/{controller}/task/{controller}/children'
    try:
        with open(path, encoding='ascii') as file:
            children = file.read().split()
        if children:
            return open_process(kernel, int(children[0]))
    except FileNotFoundError:
        pass
    raise ProcessLookupError(
        errno.ESRCH, f'process {controller} is no container that runs'
    )


def open_process(kernel: SystemCalls, pid: int) -> int:
    """Open the directory in proc of a process, which stays this one's.

    :returns: a descriptor
    :raises OSError: ENOENT if there is no such process
    """
    return os.open(
        f'{kernel.proc}/{pid}', os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    )


@contextlib.contextmanager
def opened(kernel: SystemCalls, process: int) -> Iterator[int]:
    """Require that a process is in a group of the partition.

    :param process: from :func:`open_process`; closed in the end
    :returns: the same, for as long as the context lasts
    :raises OSError: EACCES if not; ENOENT or ESRCH if it has ended
    """
    try:
        # On cgroup v1 the cpu controller has a hierarchy of its own.
        group = tasks.read_group(process, 'cpu')
        group = group or tasks.read_group(process, '')
        partition = kernel.partition.strip('/')
        if not group.startswith(f'/{partition}/'):
            raise PermissionError(
                errno.EACCES, f'{group} is not in the partition {partition!r}'
            )
        yield process
    finally:
        os.close(process)


def _write(namespace: int, limits: Mapping[str, int]) -> None:
    """Write limits in a user namespace.

    :raises OSError: EIO if one is not held
    """
    pairs = [str(word) for pair in limits.items() for word in pair]
    # A program of its own: a process with threads cannot enter one.
    done = subprocess.run(
        [
            'nsenter', f'--user=/proc/self/fd/{namespace}',
            'sh', '-euc', _SCRIPT, 'sh', *pairs,
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        pass_fds=(namespace,),
    )  # fmt: skip
    if done.returncode:
        said = done.stderr.decode(errors='replace').strip()
        raise OSError(errno.EIO, f'limits of a user namespace: {said}')
