# SPDX-License-Identifier: Apache-2.0
"""The demonstration on a node, whose kernel guarantees reservations.

It shows the difference to a kernel that only limits: a real-time process of
the host, of the highest priority, takes nothing from a reservation.
"""

from collections.abc import Sequence
import time

from matplotlib import axes as mpl_axes
from matplotlib import pyplot
from openstack.connection import Connection

from lab import catalog, node
from lab.console import LabError
from lab.demo import stage, story
from lab.measure import machine
from lab.node import group
from lab.node.group import Group, Moment

FLAVOR, REFUSED_FLAVOR = 'rt.ms.large', 'rt.ms.medium'
PERIOD_US = 10_000
SERVERS = ('rt-1', 'rt-2')
REFUSED = 'rt-3'
PICTURE = story.RESULTS / 'guarantee.png'

WATCH_S = 20
HOGS_AT_S = 10
# Of the reservation, in the mean of a window by the kernel's counts.
TOLERANCE = 0.005
#: Moments to either side of the hogs' beginning that belong to neither part.
_MARGIN_S = 1
_SLICE_S = 0.5
_COLOURS = ('#00798c', '#30638e', '#d1495b')


def tell() -> None:
    """Run the whole demonstration."""
    began = time.monotonic()
    connection = catalog.connect()
    own = node.nodes()[0]
    story.image(connection)
    _flavors()
    _servers(connection)
    groups = _kernel(connection, own)
    _guarantee(connection, own, groups)
    story.next_steps(time.monotonic() - began, 6, SERVERS, FLAVOR)


def _flavors() -> None:
    stage.heading(2, 'Flavors')
    stage.say(
        'One extra spec makes a flavor real-time: rt:reservation, so many '
        'microseconds of CPU in every period, on each vCPU. Without '
        'rt:enforcement=limit its servers run only where the kernel '
        'guarantees that. The lab has made these, with periods of 10 ms:'
    )
    stage.openstack(
        *('flavor', 'show', FLAVOR, '-c', 'name', '-c', 'vcpus'),
        *('-c', 'properties'),
    )


def _servers(connection: Connection) -> None:
    stage.heading(3, 'Two servers that reserve 90 % of a CPU each')
    for name in SERVERS:
        if story.taken(connection, name):
            stage.say(f'The server {name} is there already.')
        else:
            story.create(name, FLAVOR)
    stage.openstack(
        *('server', 'list', '--long', '-c', 'Name', '-c', 'Status'),
        *('-c', 'Networks', '-c', 'Flavor', '-c', 'Host'),
    )
    stage.say('They fill the two CPUs of the node. Another one is refused:')
    refused = connection.compute.find_server(REFUSED)
    if not refused:
        stage.openstack(
            *('server', 'create', REFUSED, '--flavor', REFUSED_FLAVOR),
            *('--image', story.IMAGE, '--network', catalog.NETWORK, '--wait'),
            *('-c', 'id', '-c', 'name', '-c', 'status'),
            fails=True,
        )
        refused = connection.compute.find_server(REFUSED, ignore_missing=False)
    fault = connection.compute.get_server(refused).fault
    stage.say(f'Its fault: {fault["message"]}')
    stage.openstack('server', 'delete', '--wait', REFUSED)


def _kernel(connection: Connection, own: node.Node) -> list[Group]:
    stage.heading(4, 'What the kernel holds')
    groups = []
    for name in SERVERS:
        server = story.found_server(connection, name)
        found = Group.of(own, server.id)
        groups.append(found)
        print(f'{name}, {found.directory} on {own.host}:')
        stage.show(found.listing())
    stage.say(
        'These are the files of the kernel itself. cpu.rt.effective has the '
        'CPU of each server, chosen as the one with the most bandwidth free.'
    )
    return groups


def _guarantee(
    connection: Connection, own: node.Node, groups: list[Group]
) -> None:
    stage.heading(5, 'A guarantee beside a limit')
    cpus = [found.cpus()[0] for found in groups]
    stage.say(
        f'Endless loops run in both servers, for {WATCH_S} s. In the middle, '
        f'four hogs begin on CPU {cpus[0]}, outside of the servers: two '
        'ordinary processes, and two real-time ones of priority 99, the '
        'highest. Then the same with a real-time loop that has no '
        'reservation: so would a server run on a kernel that only limits. '
        'The CPU time is what the kernel has counted.'
    )
    probes = [story.probe_of(connection, name) for name in SERVERS]
    for probe in probes:
        probe.quiet()
        probe.hog('rr', 1, seconds=3600)
    try:
        pair = group.watch(own, cpus[0], groups, WATCH_S, HOGS_AT_S)
    finally:
        for probe in probes:
            probe.quiet()
    limit = group.watch(own, cpus[0], [], WATCH_S, HOGS_AT_S)
    rows = [
        *(
            (f'{name}, CPU {cpu}', pair, index)
            for index, (name, cpu) in enumerate(
                zip(SERVERS, cpus, strict=True)
            )
        ),
        ('no reservation', limit, 0),
    ]
    lines = [f'{"":<16}{"before the hogs":>17}{"beside the hogs":>17}']
    for label, moments, index in rows:
        before, beside = _means(moments, index)
        lines.append(
            f'{label:<16}{before:>16.2%} {beside:>16.2%}  {story.bar(beside)}'
        )
    print()
    stage.show('\n'.join(lines))
    held = groups[0].held()
    where = f'Linux {own.run("uname -r").strip()} in QEMU on '
    where += machine.describe()
    _draw(pair, limit, cpus, held.runtime_us / held.period_us, where)
    _conclude(_means(pair, 0)[1], held.runtime_us / held.period_us)


def _means(moments: Sequence[Moment], index: int) -> tuple[float, float]:
    """Return the shares of the CPU before and beside the hogs."""
    return (
        _share(moments, index, 0, HOGS_AT_S - _MARGIN_S),
        _share(moments, index, HOGS_AT_S + _MARGIN_S, WATCH_S),
    )


def _share(
    moments: Sequence[Moment], index: int, begin: float, end: float
) -> float:
    inside = [each for each in moments if begin <= each.seconds <= end]
    if len(inside) < 2:
        raise LabError(f'no counts between {begin} and {end} s')
    return _between(inside[0], inside[-1], index)


def _between(first: Moment, last: Moment, index: int) -> float:
    """Return the share of the CPU; by the kernel's periods, if it has some."""
    periods = last.periods[index] - first.periods[index]
    passed_us = periods * PERIOD_US or (last.seconds - first.seconds) * 1e6
    return (last.used_us[index] - first.used_us[index]) / passed_us


def _draw(
    pair: list[Moment],
    limit: list[Moment],
    cpus: list[int],
    reserved: float,
    where: str,
) -> None:
    figure, both = pyplot.subplots(
        1, 2, figsize=(9, 4.6), dpi=150, sharey=True
    )
    for index, name in enumerate(SERVERS):
        label = f'{name}, on CPU {cpus[index]}'
        _curve(both[0], pair, index, _COLOURS[index], label)
    _curve(both[1], limit, 0, _COLOURS[2], f'a loop on CPU {cpus[0]}')
    both[0].set_title(f'guarantee: {reserved:.0%} reserved', fontsize=10.5)
    both[1].set_title('limit: real-time, no reservation', fontsize=10.5)
    for axes in both:
        axes.axvspan(HOGS_AT_S, WATCH_S, color='#eeeeee', zorder=0)
        axes.set_xlabel(f's; grey: with four hogs on CPU {cpus[0]}')
        axes.set_xlim(0, WATCH_S)
        axes.set_xticks(range(0, WATCH_S, 5))
        axes.set_ylim(0, 1.05)
        axes.yaxis.set_major_formatter('{x:.0%}')
        axes.grid(color='#d8d8d8', linewidth=0.8)
        axes.legend(loc='lower left', fontsize=9)
    both[0].set_ylabel('CPU time in half a second')
    figure.suptitle(
        'A real-time process of the host takes nothing from a reservation',
        x=0.01, ha='left', fontsize=13, fontweight='bold',
    )  # fmt: skip
    figure.text(0.01, 0.01, where, fontsize=8, color='#555555')
    figure.tight_layout(rect=(0, 0.03, 1, 1))
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE)
    pyplot.close(figure)


def _curve(
    axes: mpl_axes.Axes,
    moments: list[Moment],
    index: int,
    colour: str,
    label: str,
) -> None:
    times, shares = [], []
    last = moments[0]
    for each in moments:
        if each.seconds - last.seconds >= _SLICE_S:
            times.append(last.seconds)
            shares.append(_between(last, each, index))
            last = each
    axes.step(
        times, shares, where='post', color=colour, linewidth=2, label=label
    )


def _conclude(beside: float, reserved: float) -> None:
    print()
    off = beside / reserved - 1
    if off < -TOLERANCE:
        stage.warn(
            f'{SERVERS[0]} got {beside:.2%} beside the hogs, less than the '
            f'{reserved:.0%} that it has reserved: did this machine take the '
            "node's CPU away?"
        )
    else:
        stage.say(
            f'{SERVERS[0]} kept its {reserved:.0%} of the CPU beside '
            'processes of the highest priority.'
        )
    stage.say(f'The picture: {PICTURE}')
