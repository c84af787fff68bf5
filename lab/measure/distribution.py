# SPDX-License-Identifier: Apache-2.0
"""Response times as numbers, as a table and as a picture.

The one definition of a percentile and of a picture of a distribution, for the
demo, for experiments/ and for bench/.
"""

from collections.abc import Sequence
import dataclasses
import pathlib
from typing import TypeVar

import matplotlib

matplotlib.use('Agg')

from matplotlib import axes as mpl_axes
from matplotlib import pyplot, ticker

_COLOURS = {'plain': '#d1495b', 'real-time': '#00798c'}
_PERCENTS = (50, 90, 99)
#: Nothing runs beside it.
ALONE = 'alone'
Time = TypeVar('Time', bound=float)


def percentile(times: Sequence[Time], percent: int) -> Time:
    """The time within which this percentage of the requests was answered.

    The nearest rank, so always a time that was measured.

    :param times: ascending, at least one
    :param percent: from 0 to 100
    :returns: one of the times
    """
    rank = -(-len(times) * percent // 100)
    return times[max(rank, 1) - 1]


def steps(times: Sequence[Time]) -> tuple[list[Time], list[float]]:
    """The distribution function of measured times, to draw with 'post'.

    :param times: ascending, at least one
    :returns: times, and the fraction that was answered by each
    """
    shares = [rank / len(times) for rank in range(len(times) + 1)]
    return [times[0], *times], shares


@dataclasses.dataclass(frozen=True)
class Series:
    """The response times of one service under one condition.

    :ivar server: 'plain' or 'real-time'.
    :ivar beside: ALONE, or the load beside it.
    :ivar times_us: times in microseconds, ascending, of answered requests.
    :ivar lost: requests without answer.
    """

    server: str
    beside: str
    times_us: tuple[int, ...]
    lost: int = 0

    @classmethod
    def of(
        cls, server: str, beside: str, times_us: Sequence[int | None]
    ) -> 'Series':
        """Sort measured times; None stands for no answer."""
        kept = sorted(time for time in times_us if time is not None)
        if not kept:
            raise ValueError(f'{server}, {beside}: no request was answered')
        return cls(server, beside, tuple(kept), len(times_us) - len(kept))

    def percentile(self, percent: int) -> int:
        """Return the time that this percentage of the requests met, in us."""
        return percentile(self.times_us, percent)


def table(series: Sequence[Series]) -> str:
    """Return a table in milliseconds.

    The ratio is to the p99 of the same server alone.
    """
    alone = {
        row.server: row.percentile(99) for row in series if row.beside == ALONE
    }
    lines = [
        f'{"server":<11}{"beside it":<18}{"p50":>9}{"p90":>9}{"p99":>9}'
        f'{"max":>9}{"p99/alone":>12}{"lost":>6}'
    ]
    for row in series:
        values = [row.percentile(percent) for percent in (*_PERCENTS, 100)]
        numbers = ''.join(f'{value / 1000:>9.2f}' for value in values)
        ratio = f'{row.percentile(99) / alone[row.server]:.2f}'
        lines.append(
            f'{row.server:<11}{row.beside:<18}{numbers}{ratio:>12}'
            f'{row.lost:>6}'
        )
    return '\n'.join(lines)


def picture(
    series: Sequence[Series],
    title: str,
    subtitle: str,
    caption: str,
    target: pathlib.Path,
) -> None:
    """Draw the distribution functions of the series into one PNG file.

    :param title: subject of the picture, one short line.
    :param subtitle: its numbers, one line.
    :param caption: conditions of the measurement.
    """
    figure, axes = pyplot.subplots(figsize=(9, 5.6), dpi=150)
    for row in series:
        _curve(axes, row)
    axes.set_xscale('log')
    axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(_milliseconds))
    axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    axes.set_xlim(
        min(row.times_us[0] for row in series) / 1000 * 0.8,
        max(row.times_us[-1] for row in series) / 1000 * 1.4,
    )
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(ticker.PercentFormatter(1))
    axes.set_xlabel('response time of the service, ms (log scale)')
    axes.set_ylabel('requests answered within that time')
    axes.grid(which='major', color='#d8d8d8', linewidth=0.8)
    axes.grid(which='minor', axis='x', color='#eeeeee', linewidth=0.6)
    axes.axhline(0.99, color='#888888', linewidth=0.8)
    axes.annotate(
        '99 %',
        (1, 0.99),
        (4, 0),
        xycoords=('axes fraction', 'data'),
        textcoords='offset points',
        va='center',
        fontsize=9,
        color='#555555',
    )
    for side in ('top', 'right'):
        axes.spines[side].set_visible(False)
    axes.legend(loc='best', frameon=True, framealpha=1, fontsize=10)
    axes.set_title(subtitle, loc='left', fontsize=10.5, pad=10)
    figure.suptitle(
        title, x=0.01, ha='left', fontsize=13, fontweight='bold', y=0.98
    )
    figure.text(0.01, 0.01, caption, fontsize=8, color='#555555', va='bottom')
    figure.tight_layout(rect=(0, 0.03 + 0.025 * caption.count('\n'), 1, 1))
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target)
    pyplot.close(figure)


def _curve(axes: mpl_axes.Axes, row: Series) -> None:
    colour = _COLOURS[row.server]
    alone = row.beside == ALONE
    late = row.percentile(99) / 1000
    axes.step(
        *steps([time / 1000 for time in row.times_us]),
        where='post',
        color=colour,
        linewidth=1.4 if alone else 2.6,
        linestyle=(0, (4, 2)) if alone else 'solid',
        label=f'{row.server}, {row.beside}: 99 % within {late:.1f} ms',
    )
    axes.plot([late], [0.99], marker='o', markersize=6, color=colour)


def _milliseconds(value: float, position: int) -> str:
    return f'{value:g}'
