# SPDX-License-Identifier: Apache-2.0
"""Plots like the papers': theory as lines, measurements as markers."""

from collections.abc import Iterator, Sequence
import dataclasses
import io
from typing import Any

import matplotlib

matplotlib.use('Agg')

from matplotlib import pyplot
import numpy

from experiments import evaluate, noises
from experiments.description import Figure, Point, Refused
from experiments.evaluate import Result
from lab.measure import distribution
from nova_rt import exception

COLOURS = (
    *('#0072b2', '#d55e00', '#009e73', '#cc79a7', '#56b4e9', '#e69f00'),
    '#000000',
)
LABELS = {
    'inter_arrival_us': 'mean time between requests (ms)',
    'bandwidth': 'reserved bandwidth Q/P',
    'ldr': 'load ratio LDR',
    'load': 'load LD',
    'period_us': 'period P (ms)',
    'link_mbit': 'link (Mbit/s)',
    'bwr': 'use of the link BWR',
    'size_bytes': 'size of a request (bytes)',
    'kernel': 'kernel',
    'noise': 'noise',
    'cpus': 'CPUs',
}
SHORT = {
    'inter_arrival_us': '1/lambda = {} ms',
    'bandwidth': 'Q/P = {}',
    'ldr': 'LDR {}',
    'load': 'LD {}',
    'period_us': 'P = {} ms',
    'link_mbit': '{} Mbit/s',
    'bwr': 'BWR {}',
    'size_bytes': '{} bytes',
    'cpus': '{} CPUs',
}
KERNELS = {'hcbs': 'with reservations', 'base': 'unpatched'}
NOISES = {kind: noise.words for kind, noise in noises.KINDS.items()}
_LINE = 80


def shown(name: str, value: Any) -> Any:
    """A value on an axis: times are in milliseconds there."""
    if name.endswith('_us'):
        return value / 1e3
    return value


def word(name: str, value: Any) -> str:
    """A value in a legend or a title."""
    if isinstance(value, str):
        return (KERNELS | NOISES).get(value, value)
    return SHORT[name].format(f'{shown(name, value):g}')


def groups(
    results: Sequence[Result], name: str
) -> Iterator[tuple[Any, list[Result]]]:
    """Results by the values of a parameter; all of them without one."""
    if not name:
        yield None, list(results)
        return
    values = list(dict.fromkeys(getattr(one.point, name) for one in results))
    for value in values:
        yield (
            value,
            [one for one in results if getattr(one.point, name) == value],
        )


def draw(figure: Figure, results: Sequence[Result]) -> bytes:
    """A figure as SVG."""
    pyplot.rc('font', size=9)
    pyplot.rc('svg', hashsalt=figure.name)
    pyplot.rc('axes', grid=True)
    pyplot.rc('axes.spines', top=False, right=False)
    pyplot.rc('grid', alpha=0.3)
    panels = list(groups(results, figure.panels))
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    canvas, axes = pyplot.subplots(
        rows,
        columns,
        figsize=(7.6 if columns == 1 else 10.5, 4.2 * rows),
        squeeze=False,
    )
    for axis, (value, some) in zip(axes.flat, panels, strict=False):
        if figure.draw == 'ecdf':
            _ecdf(axis, some)
        else:
            _lines(axis, figure, some)
        if value is not None:
            axis.set_title(word(figure.panels, value))
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    canvas.tight_layout()
    out = io.BytesIO()
    canvas.savefig(out, format='svg', metadata={'Date': None})
    pyplot.close(canvas)
    return out.getvalue()


def _lines(axis: Any, figure: Figure, results: Sequence[Result]) -> None:
    curves = list(groups(results, figure.curves))
    xs = sorted({shown(figure.x, getattr(r.point, figure.x)) for r in results})
    # Curves stand beside each other, so that their markers do.
    step = min(numpy.diff(xs)) / 5 if len(xs) > 1 else 0.02
    width = min(step, (xs[-1] - xs[0]) / 30) if len(xs) > 1 else step
    for number, (value, some) in enumerate(curves):
        colour = COLOURS[number % len(COLOURS)]
        shift = (number - (len(curves) - 1) / 2) * width / len(curves) * 2
        theory = list(_theory(figure, some))
        for row, style in ((1, '-'), (2, '--')):
            axis.plot(
                [each[0] for each in theory],
                [each[row] for each in theory],
                style,
                color=colour,
                linewidth=1,
            )
        for one in some:
            x = shown(figure.x, getattr(one.point, figure.x)) + shift
            ys = [one.measured.mean_s * 1e3, one.measured.percentile_s * 1e3]
            axis.plot([x, x], ys, color=colour, alpha=0.3, linewidth=3)
            axis.plot(x, ys[0], 'o', color=colour, markersize=5)
            axis.plot(x, ys[1], '^', color=colour, markersize=6)
            if one.point.cpus == 1:
                axis.plot(
                    [x, x],
                    [
                        one.scheduler.mean_s * 1e3,
                        one.scheduler.percentile_s * 1e3,
                    ],
                    '_k',
                    markersize=8,
                )
            if one.guaranteed_s:
                axis.plot(x, one.longest_s * 1e3, 'x', color=colour)
                axis.plot(x, one.guaranteed_s * 1e3, 'v', color=colour)
        axis.plot([], [], color=colour, label=word(figure.curves, value))
    bounds = (('x', 'longest'), ('v', 'guaranteed bound'))
    for style, label in (
        ('-', 'mean, formula'),
        ('--', '99th percentile, formula'),
        ('o', 'mean, measured'),
        ('^', '99th percentile, measured'),
        *(
            [('_', 'scheduler, same requests')]
            if any(one.point.cpus == 1 for one in results)
            else []
        ),
        *(bounds if any(one.guaranteed_s for one in results) else ()),
    ):
        axis.plot([], [], style, color='#444444', label=label)
    axis.set_yscale('log')
    axis.yaxis.set_major_formatter('{x:g}')
    axis.yaxis.set_minor_formatter(_some_minor)
    axis.tick_params(axis='y', which='minor', labelsize=7)
    axis.set_xlabel(LABELS[figure.x])
    axis.set_ylabel('response time (ms)')
    axis.legend(
        fontsize=7, loc='center left', bbox_to_anchor=(1.0, 0.5), frameon=False
    )


def _some_minor(value: float, _: int) -> str:
    digit = f'{value:e}'[0]
    return f'{value:g}' if digit in '25' else ''


def _theory(
    figure: Figure, results: Sequence[Result]
) -> Iterator[tuple[float, float, float]]:
    """x, mean and the papers' percentile, in milliseconds, along a curve."""
    some = sorted(results, key=lambda one: getattr(one.point, figure.x))
    first, last = some[0], some[-1]
    trip_s = first.way.trip_s
    low, high = (getattr(one.point, figure.x) for one in (first, last))
    for x in numpy.linspace(low, high, _LINE if high > low else 1):
        try:
            point = _at(first.point, figure.x, float(x))
        except Refused:
            continue
        exact, bound, bandwidth = evaluate.models(point, trip_s)
        try:
            yield (
                shown(figure.x, float(x)),
                exact.mean_s(point.rate_per_s, bandwidth) * 1e3,
                bound.percentile_s(
                    point.rate_per_s, bandwidth, evaluate.FRACTION
                )
                * 1e3,
            )
        except exception.Unanswerable:
            continue


def _at(point: Point, name: str, value: float) -> Point:
    return dataclasses.replace(point, **{name: value})  # type: ignore[arg-type]


def _ecdf(axis: Any, results: Sequence[Result]) -> None:
    kinds = dict.fromkeys(one.point.noise for one in results)
    widths = {kind: 1.2 + 2 * number for number, kind in enumerate(kinds)}
    for number, one in enumerate(results):
        width = widths[one.point.noise]
        reserved = one.point.bandwidth > 0
        kind = 'reserved' if reserved else 'plain'
        axis.step(
            *distribution.steps((one.sorted_ns / 1e6).tolist()),
            where='post',
            # Curves that coincide are drawn thin over thick.
            linewidth=width if reserved else 1.5,
            zorder=3 - width / 20,
            linestyle='-' if reserved else '--',
            color=COLOURS[number % len(COLOURS)],
            label=f'{kind}, {NOISES[one.point.noise]}',
        )
    axis.set_xscale('log')
    axis.xaxis.set_major_formatter('{x:g}')
    axis.set_xlabel('response time (ms)')
    axis.set_ylabel('fraction of the requests')
    # Below: names of noise are long.
    axis.legend(
        fontsize=8,
        loc='upper center',
        bbox_to_anchor=(0.5, -0.14),
        frameon=False,
        ncol=2 if len(results) > len(kinds) else 1,
    )
