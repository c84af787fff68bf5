#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the way of a reservation from flavor to kernel, as SVG on stdout.

    python doc/figures/way.py >doc/source/contributor/figures/way.svg

Lanes, steps and arrows are data; the picture is a grid of four columns.
"""

import dataclasses
import itertools
from xml.sax.saxutils import escape

WIDTH = 1000
LEFT = 142  # of the first column; the names of the lanes are before it
COLUMN = 214
BOX = 190
LINE, CODE_LINE = 15, 14

INK, GREY, FAINT = '#1f2933', '#5f6b78', '#b8c2cc'
WAY, BACK, STATS, EVENT = '#0b5cad', '#a3123a', '#6b4fa0', '#c77f00'
CODE = (
    f'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" fill="{WAY}" '
    'xml:space="preserve"'
)


@dataclasses.dataclass(frozen=True)
class Lane:
    """A program, as a band across the picture."""

    top: int
    height: int
    label: tuple[str, ...]
    fill: str


@dataclasses.dataclass(frozen=True)
class Box:
    """A step: what happens, and the modules that own it.

    :ivar event: whether it emits an event
    :ivar aside: whether it is an explanation, not a step
    """

    column: int
    top: int
    height: int
    title: tuple[str, ...]
    modules: tuple[str, ...] = ()
    number: int | None = None
    span: int = 1
    fill: str = '#ffffff'
    event: bool = False
    aside: bool = False

    @property
    def left(self) -> int:
        """The left edge."""
        return LEFT + self.column * COLUMN

    @property
    def right(self) -> int:
        """The right edge."""
        return self.left + BOX + (self.span - 1) * COLUMN

    @property
    def middle(self) -> int:
        """Half-way between the left and the right edge."""
        return (self.left + self.right) // 2

    @property
    def bottom(self) -> int:
        """The lower edge."""
        return self.top + self.height


LANES = (
    Lane(8, 104, ('nova-api',), '#eef4fb'),
    Lane(146, 104, ('nova-scheduler,', 'Placement'), '#eaf6f1'),
    Lane(284, 346, ('nova-rt-compute',), '#fdf5e6'),
    Lane(646, 80, ('privileged helper',), '#fbecec'),
    Lane(742, 122, ('kernel',), '#eeeef4'),
)

FLAVOR = Box(
    0, 24, 78, ('Flavor is created: each', 'rt: extra spec is checked'),
    ('api.validation', '  .extra_specs.rt'), 1,
)  # fmt: skip
HINT = Box(
    1, 24, 78, ('Server is requested: the', 'hint is checked'),
    ('api.middleware',), 2,
)  # fmt: skip
PURE = Box(
    2, 24, 78,
    ('Read in the same way by nova-api, nova-scheduler',
     'and nova-rt-compute:'),
    ('request  extra_specs  bounds  reservation',), span=2, aside=True,
)  # fmt: skip
ASK = Box(
    0, 162, 78, ('Bandwidth and trait are', 'added to the request'),
    ('scheduler', '  .request_filter'), 3,
)  # fmt: skip
SUM = Box(
    1, 162, 78, ('Placement: which hosts', 'have the trait and the sum?'),
    ('CUSTOM_RT_BANDWIDTH', 'CUSTOM_RT_GUARANTEE|LIMIT'), 4, fill='#d5eee3',
)  # fmt: skip
FIT = Box(
    2, 162, 78, ('Do the CPUs of the host', 'have room, one by one?'),
    ('scheduler.filters', '  .rt_bandwidth_filter'), 5,
)  # fmt: skip
WEIGH = Box(
    3, 162, 78, ('Emptiest host first; the', 'sum is allocated there'),
    ('scheduler.weights', '  .rt_bandwidth'), 6,
)  # fmt: skip
RECORD = Box(
    0, 312, 78, ('The request becomes the', 'record of the server'),
    ('compute.manager', 'record'), 7, event=True,
)  # fmt: skip
CLAIM = Box(
    1, 312, 78, ('CPUs are claimed under', 'Nova\'s own lock'),
    ('compute.resource_tracker', 'admission.place'), 8, event=True,
)  # fmt: skip
DOMAIN = Box(
    2, 312, 78, ('The domain gets CPUs and', 'a copy of the record'),
    ('virt.libvirt.driver', 'virt.libvirt.metadata'), 9,
)  # fmt: skip
GUARD = Box(
    3, 312, 78, ('At each start and check the', 'reservation is applied'),
    ('virt.libvirt', '  .running'), 10, event=True,
)  # fmt: skip
PARTS = Box(
    0, 440, 128, ('What the back ends use:',),
    ('host.cgroup   groups', 'host.cpus     CPUs', 'host.tasks    policies',
     'host.files    all access', 'host.interface', 'host.capability'),
    aside=True,
)  # fmt: skip
APPLY = Box(
    3, 440, 64, ('The container\'s group is', 'found and handed down'),
    ('host.host: Host.apply',), 11,
)  # fmt: skip
CHECK = Box(
    3, 532, 64, ('Does the kernel hold it?', 'If not, the start fails'),
    ('host.host: Host.check',), 15,
)  # fmt: skip
BUDGETED = Box(
    1, 474, 98, ('v1-throttle: each level of', 'the container holds the',
                 'reservation'), ('host.v1_throttling',),
)  # fmt: skip
REPORTING = Box(
    2, 474, 98, ('v2-rt-max-cpu: one level', 'holds it, the kernel',
                 'reports each CPU'), ('host.hcbs  .hcbs_files',),
)  # fmt: skip
HELPER = Box(
    1, 658, 54, ('Checks path and text, writes once, sets policies',),
    ('privsep.cgroup',), 13, span=2,
)  # fmt: skip
V1 = Box(
    1, 758, 70, ('A limit, over the host',),
    ('cpu.rt_runtime_us', 'cpu.rt_period_us'), 14,
)  # fmt: skip
V2 = Box(
    2, 758, 70, ('A guarantee, on each CPU',),
    ('cpu.rt.max', 'cpu.rt.effective'), 14,
)  # fmt: skip

STEPS = (
    FLAVOR, HINT, PURE, ASK, SUM, FIT, WEIGH, RECORD, CLAIM, DOMAIN, GUARD,
    PARTS, APPLY, CHECK, BUDGETED, REPORTING, HELPER, V1, V2,
)  # fmt: skip
# Around the back ends.
FRAME_LEFT, FRAME_RIGHT = BUDGETED.left - 8, REPORTING.right + 8
FRAME_TOP, FRAME_BOTTOM = 440, 596
BACK_X = CHECK.left + 24


def text(
    x: int, y: int, words: str, more: str = f'fill="{INK}"', px: int = 12
) -> str:
    """A line of text."""
    return (
        f'<text x="{x}" y="{y}" font-size="{px}" {more}>{escape(words)}</text>'
    )


def bolt(x: int, y: int) -> str:
    """The mark of a step that emits an event."""
    return (
        f'<path d="M{x} {y}h9l-4 6h4l-10 11l3 -8h-4z" fill="{EVENT}" '
        'stroke="#ffffff"/>'
    )


def disc(x: int, y: int, number: int) -> list[str]:
    """The number of a step."""
    more = 'fill="#ffffff" text-anchor="middle" font-weight="bold"'
    return [
        f'<circle cx="{x}" cy="{y}" r="10" fill="{INK}"/>',
        text(x, y + 4, str(number), more, 11),
    ]


def arrow(path: str, colour: str = WAY, dash: str = 'none') -> str:
    """A line with a head at its end."""
    return (
        f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2" '
        f'stroke-dasharray="{dash}" marker-end="url(#{colour[1:]})"/>'
    )


def along(*boxes: Box) -> list[str]:
    """Arrows from each box to the next, in one row."""
    return [
        arrow(f'M{one.right} {one.top + 39}H{two.left - 2}')
        for one, two in itertools.pairwise(boxes)
    ]


def around(one: Box, two: Box, turn: int) -> str:
    """An arrow to the row below, which turns at a height."""
    return arrow(
        f'M{one.middle} {one.bottom}V{turn}H{two.middle}V{two.top - 2}'
    )


def draw_lane(lane: Lane) -> list[str]:
    """The band of a program, and its name."""
    out = [
        f'<rect x="4" y="{lane.top}" width="{WIDTH - 8}" '
        f'height="{lane.height}" rx="6" fill="{lane.fill}"/>'
    ]
    y = lane.top + 32
    for label in lane.label:
        out.append(text(12, y, label, f'fill="{INK}" font-weight="bold"'))
        y += 16
    return out


def draw_box(box: Box) -> list[str]:
    """A step, or an explanation."""
    edge = (
        f'stroke="{FAINT}" stroke-dasharray="3 3" fill="none"'
        if box.aside
        else f'stroke="#8896a5" fill="{box.fill}"'
    )
    out = [
        f'<rect x="{box.left}" y="{box.top}" width="{box.right - box.left}" '
        f'height="{box.height}" rx="5" {edge}/>'
    ]
    x, y = box.left + 12, box.top + 19
    for line in box.title:
        out.append(text(x, y, line))
        y += LINE
    y += 3
    for line in box.modules:
        out.append(text(x, y, line, CODE, 11))
        y += CODE_LINE
    if box.number is not None:
        out += disc(box.left, box.top, box.number)
    if box.event:
        out.append(bolt(box.right - 16, box.top - 8))
    return out


def draw_arrows() -> list[str]:
    """All arrows, with the words beside them."""
    grey = f'fill="{GREY}"'
    read_y = V1.bottom + 14
    return [
        *along(FLAVOR, HINT),
        around(HINT, ASK, 130),
        text(HINT.middle + 10, 134, 'RequestSpec: flavor and hints', grey, 11),
        *along(ASK, SUM, FIT, WEIGH),
        around(WEIGH, RECORD, 274),
        text(FIT.middle + 50, 267, 'RPC, with the RequestSpec', grey, 11),
        *along(RECORD, CLAIM, DOMAIN, GUARD),
        arrow(
            f'M{CLAIM.right - 40} {CLAIM.top}V262H{FIT.middle - 60}'
            f'V{FIT.bottom + 2}', STATS, '5 4',
        ),
        text(CLAIM.right - 34, 300, 'node_stats: what is free on each CPU',
             f'fill="{STATS}"', 11),
        around(GUARD, APPLY, 410),
        arrow(f'M{APPLY.left} 472H{FRAME_RIGHT + 2}'),
        arrow(f'M{BUDGETED.middle} {BUDGETED.bottom}V{HELPER.top - 2}'),
        arrow(f'M{REPORTING.middle} {REPORTING.bottom}V{HELPER.top - 2}'),
        arrow(f'M{V1.middle} {HELPER.bottom}V{V1.top - 2}'),
        arrow(f'M{V2.middle} {HELPER.bottom}V{V2.top - 2}'),
        f'<path d="M{V2.middle} {V2.bottom}V{read_y}" stroke="{BACK}" '
        'stroke-width="2"/>',
        arrow(
            f'M{V1.middle} {V1.bottom}V{read_y}H{BACK_X}V{CHECK.bottom + 2}',
            BACK,
        ),
        text(BACK_X + 10, 682, 'read back: plain reads,',
             f'fill="{BACK}"', 11),
        text(BACK_X + 10, 696, 'without privileges', f'fill="{BACK}"', 11),
    ]  # fmt: skip


def draw_notes() -> list[str]:
    """The border of the host layer, the frame and the legend."""
    grey = f'fill="{GREY}"'
    out = [
        f'<path d="M12 420H{WIDTH - 12}" stroke="{GREY}" '
        'stroke-dasharray="2 4"/>',
        text(12, 446, 'nova_rt.host:', grey, 11),
        text(12, 460, 'Linux, no Nova', grey, 11),
        f'<rect x="{FRAME_LEFT}" y="{FRAME_TOP}" '
        f'width="{FRAME_RIGHT - FRAME_LEFT}" '
        f'height="{FRAME_BOTTOM - FRAME_TOP}" rx="6" fill="none" '
        f'stroke="{GREY}" stroke-dasharray="6 4"/>',
        text(FRAME_LEFT + 20, FRAME_TOP + 20,
             'One back end (host.protocol), chosen by host.probe', grey, 11),
        *disc(FRAME_LEFT, FRAME_TOP, 12),
    ]  # fmt: skip
    x, y = LEFT, 774
    for colour, dash, words in (
        (WAY, 'none', 'way of a reservation'),
        (STATS, '5 4', 'for later requests'),
        (BACK, 'none', 'read back'),
    ):
        out.append(arrow(f'M{x} {y}h32', colour, dash))
        out.append(text(x + 42, y + 4, words, grey, 11))
        y += 20
    out.append(bolt(x + 12, y - 8))
    out.append(text(x + 42, y + 4, 'emits an event', grey, 11))
    out.append(text(x, y + 24, 'Modules are below nova_rt.', grey, 11))
    return out


def main() -> None:
    """Print the picture."""
    heads = ''.join(
        f'<marker id="{colour[1:]}" viewBox="0 0 8 8" refX="7" refY="4" '
        'markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" '
        f'orient="auto"><path d="M0 0L8 4L0 8z" fill="{colour}"/></marker>'
        for colour in (WAY, BACK, STATS)
    )
    height = LANES[-1].top + LANES[-1].height + 8
    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" '
        f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="DejaVu Sans, Verdana, sans-serif">',
        '<title>The way of a reservation from flavor to kernel</title>',
        f'<defs>{heads}</defs>',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for lane in LANES:
        lines += draw_lane(lane)
    lines += draw_notes()
    lines += draw_arrows()
    for box in STEPS:
        lines += draw_box(box)
    print('\n'.join([*lines, '</svg>']))


if __name__ == '__main__':
    main()
