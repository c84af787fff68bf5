#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draw the schedules of the manual from the logs of the trace tests.

    figures.py LOGS DIRECTORY

LOGS has trace.log, trace-control.log and trace-cpus.log: `make -C kernel
check-full GROUPS=traces` leaves them there. Needs matplotlib, which is in the
project's environment.
"""

from collections.abc import Sequence
import dataclasses
import pathlib
import sys

import matplotlib

matplotlib.use('svg')

from matplotlib import axes as mpl_axes
from matplotlib import pyplot

# The same file from the same log, on any machine.
matplotlib.rcParams['svg.hashsalt'] = 'nova_rt'
matplotlib.rcParams['font.size'] = 9
METADATA = {'Date': None, 'Creator': None}

GROUPS = ('#00798c', '#30638e', '#6a994e', '#bc6c25', '#8e5572')
OTHERS = {'FIFO-99': '#d1495b', 'fair': '#edae49', 'deadline': '#7a5195'}
PERIOD = '#333333'
# For the front page, whose readers do not know the tests.
PLAIN_WORDS = {
    'group': 'container:\n3 ms in 10 ms',
    'FIFO-99': 'busy real-time\ntask of the host',
}


@dataclasses.dataclass(frozen=True)
class Actor:
    """A task of a scene; q and p in us, of its group or of itself."""

    name: str
    group: str
    q: int
    p: int


@dataclasses.dataclass(frozen=True)
class Piece:
    """A task on a CPU, from begin to end in us."""

    name: str
    cpu: int
    begin: int
    end: int


@dataclasses.dataclass
class Scene:
    """One scene of a log: its tasks, and the time that they ran.

    :ivar words: labels of tasks that replace their names.
    """

    length: int
    actors: list[Actor]
    pieces: list[Piece]
    words: dict[str, str] = dataclasses.field(default_factory=dict)

    def time_of(self, name: str) -> int:
        """Time that a task ran, in us."""
        return sum(p.end - p.begin for p in self.pieces if p.name == name)


def read(path: pathlib.Path) -> dict[str, Scene]:
    """The scenes of a log."""
    scenes: dict[str, Scene] = {}
    running: dict[int, tuple[str, int]] = {}
    finished = False
    for line in path.read_text('ascii', 'replace').splitlines():
        words = line.split(maxsplit=5)
        if line.startswith('scene '):
            running = {}
            scenes[words[1]] = Scene(int(words[2]) * 1000, [], [])
        elif line.startswith('actor '):
            actor = Actor(words[5], words[2], int(words[3]), int(words[4]))
            scenes[words[1]].actors.append(actor)
        elif line.startswith('switch '):
            name = line.split(maxsplit=4)[4]
            scene, when, cpu = scenes[words[1]], int(words[2]), int(words[3])
            close(scene, running.get(cpu), cpu, when)
            running[cpu] = (name, when)
        elif line.startswith('ok ') and line.endswith('switches'):
            scene = scenes[words[1].rstrip(':')]
            for cpu, what in running.items():
                close(scene, what, cpu, scene.length)
            running = {}
        elif line.startswith('DONE') and line.endswith('failures 0'):
            finished = True
    if not finished or not all(scene.pieces for scene in scenes.values()):
        raise ValueError(f'{path} is not the log of a test that passed')
    return scenes


def close(
    scene: Scene, what: tuple[str, int] | None, cpu: int, end: int
) -> None:
    """Add the piece that ran on a CPU until now."""
    if what is None:
        return
    name, begin = what
    begin, end = max(begin, 0), min(end, scene.length)
    if begin < end and name in {actor.name for actor in scene.actors}:
        scene.pieces.append(Piece(name, cpu, begin, end))


def colour(scene: Scene, name: str) -> str:
    """The colour of a task."""
    if name in OTHERS:
        return OTHERS[name]
    names = [actor.name for actor in scene.actors if actor.name not in OTHERS]
    return GROUPS[names.index(name) % len(GROUPS)]


def by_task(axes: mpl_axes.Axes, scene: Scene, title: str) -> None:
    """A row for each task, its periods as arrows."""
    rows = list(reversed(scene.actors))
    for row, actor in enumerate(rows):
        bars = [
            (p.begin / 1000, (p.end - p.begin) / 1000)
            for p in scene.pieces
            if p.name == actor.name
        ]
        axes.broken_barh(
            bars, (row - 0.3, 0.6), facecolor=colour(scene, actor.name), lw=0
        )
        if actor.p:
            starts = range(0, scene.length, actor.p)
            axes.vlines(
                [start / 1000 for start in starts],
                row - 0.45,
                row + 0.45,
                colors=PERIOD,
                lw=0.8,
            )
    axes.set_yticks(range(len(rows)), [label(scene, a) for a in rows])
    finish(axes, scene, title, len(rows))


def by_cpu(axes: mpl_axes.Axes, scene: Scene, title: str) -> None:
    """A row for each CPU, coloured by task."""
    cpus = 4
    for piece in scene.pieces:
        axes.broken_barh(
            [(piece.begin / 1000, (piece.end - piece.begin) / 1000)],
            (cpus - 1 - piece.cpu - 0.3, 0.6),
            facecolor=colour(scene, piece.name),
            lw=0,
        )
    axes.set_yticks(range(cpus), [f'CPU {cpus - 1 - n}' for n in range(cpus)])
    for actor in scene.actors:
        axes.plot(
            [],
            [],
            lw=6,
            color=colour(scene, actor.name),
            label=f'{actor.name}: {scene.time_of(actor.name) / 1000:.1f} ms',
        )
    axes.legend(
        loc='upper center',
        bbox_to_anchor=(0.5, -0.3),
        ncols=5,
        frameon=False,
        fontsize=8,
    )
    finish(axes, scene, title, cpus)


def label(scene: Scene, actor: Actor) -> str:
    """The label of a task's row."""
    if actor.name in scene.words:
        return scene.words[actor.name]
    share = 100 * scene.time_of(actor.name) / scene.length
    text = actor.name
    if actor.p:
        text += f' ({actor.q / 1000:g}, {actor.p / 1000:g})'
    return f'{text}\n{share:.1f} %'


def plainly(scene: Scene) -> Scene:
    """The same scene in the words of the front page."""
    return dataclasses.replace(scene, words=PLAIN_WORDS)


def finish(axes: mpl_axes.Axes, scene: Scene, title: str, rows: int) -> None:
    """Set the limits, the title and the axes, as in all pictures."""
    axes.set_xlim(0, scene.length / 1000)
    axes.set_ylim(-0.6, rows - 0.4)
    axes.set_title(title, loc='left', fontsize=9)
    axes.set_xlabel('ms')
    axes.tick_params(axis='y', length=0)
    for side in ('top', 'right', 'left'):
        axes.spines[side].set_visible(False)


def picture(
    path: pathlib.Path,
    panels: Sequence[tuple[Scene, str]],
    *,
    cpus: bool = False,
) -> None:
    """Draw panels, one below the other."""
    heights = [4 if cpus else len(scene.actors) for scene, _ in panels]
    figure, axes = pyplot.subplots(
        len(panels),
        1,
        figsize=(7.2, sum(0.45 * h + (1.3 if cpus else 0.9) for h in heights)),
        height_ratios=heights,
        layout='constrained',
        squeeze=False,
    )
    draw = by_cpu if cpus else by_task
    for axis, (scene, title) in zip(axes[:, 0], panels, strict=True):
        draw(axis, scene, title)
    figure.savefig(path, metadata=METADATA)
    pyplot.close(figure)


def main() -> int:
    """Draw all of them."""
    logs, out = (pathlib.Path(name) for name in sys.argv[1:3])
    out.mkdir(parents=True, exist_ok=True)
    series = read(logs / 'trace.log')
    control = read(logs / 'trace-control.log')
    cpus = read(logs / 'trace-cpus.log')
    for name, what in (
        ('alone', 'a group with 3 ms in 10 ms beside a fair hog'),
        ('beside', 'the same group beside a FIFO-99 hog of the root'),
        ('three', 'two groups, a deadline task and a FIFO-99 hog'),
    ):
        picture(
            out / f'schedule-{name}.svg',
            [
                (control[name], f'Linux 7.2, without the series: {what}'),
                (series[name], f'with the series: {what}'),
            ],
        )
    picture(
        out / 'schedule-front.svg',
        [
            (
                plainly(control['beside']),
                "Mainline Linux: the host's task takes it all",
            ),
            (
                plainly(series['beside']),
                'Linux with HCBS: 3 ms in every 10 ms',
            ),
        ],
    )
    picture(
        out / 'schedule-cpus.svg',
        [
            (cpus['migrate'], '5 tasks on 4 servers of 3 ms in 10 ms'),
            (cpus['single'], '1 task on 4 servers of 3 ms in 10 ms'),
        ],
        cpus=True,
    )
    return 0


if __name__ == '__main__':
    sys.exit(main())
