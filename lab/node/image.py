# SPDX-License-Identifier: Apache-2.0
"""The nodes' kernel and disks, made beside the cloud and kept by content.

They come from the network, so that this runs outside of the lab's namespaces,
as a process of its own with a log. :mod:`lab.node.services` waits for it.
"""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

from lab import node, paths, process
from lab.console import LabError, say

LOG = paths.LOG / 'node-image.log'
_RECORD = paths.RUN / 'node-image.json'
RESULT = paths.RUN / 'node-image.result'
_KERNEL = paths.CHECKOUT / 'kernel' / 'scripts' / 'build.sh'
_DISK = paths.CHECKOUT / 'lab' / 'node' / 'image.sh'
_STOCK = paths.CHECKOUT / 'lab' / 'node' / 'stock.sh'
_KERNEL_WORK = pathlib.Path(
    os.environ.get('NOVA_RT_KERNEL', '/var/lib/nova-rt-kernel')
)
_STEP_S = 20
# Of the kernel that is built; a little more or less with another compiler.
_OBJECTS = 1630
_KVM_S = 20


def start() -> process.Process | None:
    """Begin to make them, unless every node of this lab has its disk.

    :returns: the process, None when there is nothing to make.
    """
    if all(each.file('disk.qcow2').exists() for each in node.nodes()):
        return None
    RESULT.unlink(missing_ok=True)
    command = [sys.executable, '-m', 'lab', '_node-image']
    started = process.start(command, LOG, os.environ, paths.CHECKOUT)
    _RECORD.write_text(
        json.dumps({'pid': started.pid, 'started': started.started})
    )
    return started


def running() -> process.Process | None:
    """Return the process that makes them, if it lives."""
    try:
        found = process.Process(**json.loads(_RECORD.read_text()))
    except FileNotFoundError:
        return None
    return found if found.alive() else None


def stop() -> None:
    """End that process."""
    found = running()
    if found:
        process.stop([found], 2)
        found.kill_session()


def make() -> None:
    """Make what is missing, and note where all of it is.

    :raises LabError: when it fails.
    """
    done = threading.Event()
    counting = threading.Thread(target=_count, args=(time.time(), done))
    counting.start()
    try:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            kinds = sorted({each.kind for each in node.nodes()})
            made = {kind: pool.submit(_make_kernel, kind) for kind in kinds}
            releases = sorted({each.release for each in node.nodes()})
            disks = {name: _script(_DISK, name) for name in releases}
            kernels = {kind: each.result() for kind, each in made.items()}
    finally:
        done.set()
        counting.join()
    accel = accelerator(kernels[kinds[0]][0])
    found = {'kernels': kernels, 'disks': disks, 'accel': accel}
    RESULT.write_text(json.dumps(found))
    say(f'QEMU runs it by {accel}; all there')


def _make_kernel(kind: str) -> tuple[str, str]:
    """Make the kernel of a kind of nodes.

    :returns: its file and that of its initrd; '' where it needs none.
    """
    if kind == 'stock':
        made = _script(_STOCK)
        return f'{made}/vmlinuz', f'{made}/initrd'
    return _script(_KERNEL, 'hcbs', 'node'), ''


def _script(script: pathlib.Path, *arguments: str) -> str:
    # Its messages go to this process's own log.
    done = subprocess.run(
        [script, *arguments], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise LabError(f'{script.name} ended with {done.returncode}')
    return done.stdout.strip()


def _count(since: float, done: threading.Event) -> None:
    """Say how far the build of the kernel is."""
    while not done.wait(_STEP_S):
        for log in _KERNEL_WORK.glob('build-hcbs-node-*/log'):
            if log.stat().st_mtime < since:
                continue
            lines = log.read_text(errors='replace').splitlines()
            built = sum(line.startswith(('  CC ', '  AS ')) for line in lines)
            say(f'kernel: {built} of about {_OBJECTS} files compiled')


def accelerator(kernel: str) -> str:
    """Return how QEMU runs the node here: by KVM if that really runs it.

    The device alone says nothing: in some machines a guest hangs or is killed.
    """
    if not os.access('/dev/kvm', os.R_OK | os.W_OK):
        return 'tcg'
    # It has no root: the kernel gets as far as that, panics and leaves.
    command = [
        *('qemu-system-x86_64', '-accel', 'kvm', '-cpu', 'host', '-m', '512'),
        *('-smp', str(node.CPUS), '-nodefaults', '-display', 'none'),
        *('-serial', 'stdio', '-no-reboot', '-kernel', kernel),
        *('-append', 'console=ttyS0 panic=-1'),
    ]
    try:
        run = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_KVM_S,
        )
    except subprocess.TimeoutExpired:
        return 'tcg'
    panicked = b'Unable to mount root fs' in run.stdout
    return 'kvm' if run.returncode == 0 and panicked else 'tcg'
