# SPDX-License-Identifier: Apache-2.0
"""Points, measured in the containers of the lab."""

from collections.abc import Sequence
import contextlib
import dataclasses
import os
import pathlib
import subprocess
import tempfile
from typing import Any

from experiments import guest, places, samples, servers
from lab import catalog
from lab.console import LabError
from lab.measure import network, rtprobe

_PORT = 7000
#: Directory of the programs in a container; it becomes their /.
_PLACE = '/experiment'
_NOISE_S = 3600
_PATIENCE_S = 300


@dataclasses.dataclass(frozen=True)
class Conditions:
    """Other load while a point is measured.

    :ivar hogs: endless tasks of a plain container, on all CPUs
    :ivar ahead: whether the virtual switch runs before them, on the client's
        CPU
    """

    hogs: int = 0
    ahead: bool = True


def run(
    tasks: Sequence[guest.Task],
    load: guest.Load,
    conditions: Conditions = Conditions(),
) -> dict[str, samples.Run]:
    """Measure points, each with a server of its own.

    :returns: the measured runs, by the names of the tasks
    :raises LabError: if a point was not measured
    """
    with contextlib.ExitStack() as stack:
        cloud = stack.enter_context(contextlib.closing(catalog.connect()))
        image = cloud.image.find_image(catalog.IMAGE, ignore_missing=False)
        ours = servers.Servers(cloud, 'distwalk', image.id)
        stack.callback(ours.delete)
        name = stack.enter_context(tempfile.TemporaryDirectory())
        tree = _tree(load, pathlib.Path(name))
        found = {}
        for task in tasks:
            point = task.point
            server = ours.boot(
                task.name,
                f'{point.runtime_us}/{point.period_us}',
                network=True,
            )
            if conditions.hogs:
                noise = ours.boot('noise', network=True)
                _begin_noise(noise, conditions.hogs)
            found[task.name] = _ask(
                places.Place.of(cloud, server.id),
                servers.address(server),
                tree,
                task,
                conditions.ahead,
            )
            ours.delete()
    return found


def _begin_noise(noise: Any, hogs: int) -> None:
    """Keep all CPUs busy, the server's and that of the virtual switch."""
    probe = rtprobe.Probe(servers.address(noise))
    probe.wait(_PATIENCE_S)
    probe.hog('other', seconds=_NOISE_S, count=hogs)


def _tree(load: guest.Load, root: pathlib.Path) -> pathlib.Path:
    """Put a load's programs and their libraries into a directory."""
    # A container's user has to get in, too.
    root.chmod(0o755)
    guest.compile_c(load.source, root / 'load')
    for program in load.programs:
        guest.copy_program(program, root)
    return root


def _ask(
    place: places.Place,
    ip: str,
    tree: pathlib.Path,
    task: guest.Task,
    ahead: bool,
) -> samples.Run:
    """Start a load in a container, and its client beside it."""
    rtprobe.Probe(ip).wait(_PATIENCE_S)
    (cpu,) = place.cpus
    other = max(os.sched_getaffinity(0) - {cpu}, default=cpu)
    place.copy(tree, _PLACE)
    _, words = task.line().split(' -- ')
    asking = [
        'taskset', '--cpu-list', str(other), 'chrt', '--fifo', '1',
        'chroot', str(tree), '/load', 'client', '--to', ip,
        '--port', str(_PORT), *words.split(),
    ]  # fmt: skip
    answering = ['/load', 'server', '--port', str(_PORT)]
    with (
        place.inside(answering, ('--rr', '1'), cpu, _PLACE),
        network.ahead(other) if ahead else contextlib.nullcontext(),
    ):
        done = subprocess.run(
            asking, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
    if done.returncode:
        raise LabError(f'the client failed: {done.stderr.strip()[-200:]}')
    lines = done.stdout.splitlines()
    return samples.requests(lines, one_clock=place.own is None)
