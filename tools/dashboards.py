#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the Grafana dashboards from their own queries, without Grafana.

    python tools/dashboards.py --prometheus http://127.0.0.1:9090 \\
        --output DIRECTORY [--end TIMESTAMP] [--minutes 60] [--step 15]
        [--set instance=HOST] [--set server=UUID]

Writes one PNG for each dashboard. A variable that is not set takes the first
value that Prometheus has for it. It draws what the panels of etc/nova_rt have
in common with Grafana: titles, units, legends, stacks, rows that repeat.
"""

import argparse
from collections.abc import Iterator, Mapping
import dataclasses
import json
import pathlib
import re
import time
from typing import Any
import urllib.parse
import urllib.request

import matplotlib

matplotlib.use('Agg')

from matplotlib import dates, figure, pyplot, ticker

ROOT = pathlib.Path(__file__).resolve().parent.parent
DASHBOARDS = ROOT / 'etc' / 'nova_rt' / 'grafana'

#: Inches of a column and of a row of Grafana's grid.
_COLUMN, _ROW = 0.62, 0.36
_LABEL_VALUES = re.compile(r'label_values\((.*), (\w+)\)')
_GREEN, _RED = '#2f7d32', '#c62828'
#: For those who see colours in any way (Okabe and Ito).
_COLOURS = (
    '#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d55e00',
    '#999999', '#7b5ea7',
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Series:
    """One line of a graph.

    :ivar labels: its labels
    :ivar values: pairs of seconds since 1970 and value
    """

    labels: Mapping[str, str]
    values: list[tuple[float, float]]


class Prometheus:
    """A server that is asked.

    :param url: without a path
    """

    def __init__(self, url: str) -> None:
        self._url = url

    def _get(self, path: str, **parameters: object) -> Any:
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(
            f'{self._url}/api/v1/{path}?{query}', timeout=30
        ) as answer:
            return json.load(answer)['data']

    def range(
        self, query: str, start: float, end: float, step: float
    ) -> list[Series]:
        """Ask for a query's values over a time.

        :raises HTTPError: if Prometheus cannot read the query
        """
        found = self._get(
            'query_range', query=query, start=start, end=end, step=step
        )
        return [
            Series(
                each['metric'],
                [(at, float(value)) for at, value in each['values']],
            )
            for each in found['result']
        ]

    def labels(
        self, selector: str, label: str, start: float, end: float
    ) -> list[str]:
        """Ask for the values of a label."""
        found: list[str] = self._get(
            f'label/{label}/values',
            **{'match[]': selector, 'start': start, 'end': end},
        )
        return sorted(found, key=lambda text: (len(text), text))


@dataclasses.dataclass(frozen=True)
class Panel:
    """A panel with all variables filled in.

    :ivar queries: pairs of query and legend
    """

    title: str
    spec: Mapping[str, Any]
    queries: list[tuple[str, str]]

    @property
    def unit(self) -> str:
        """The unit, by Grafana's name."""
        return str(self.spec['fieldConfig']['defaults']['unit'])


def load(name: str) -> dict[str, Any]:
    """Read a dashboard, such as ``host``."""
    path = DASHBOARDS / f'{name}.json'
    found: dict[str, Any] = json.loads(path.read_text(encoding='utf-8'))
    return found


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace variables by their values.

    :raises KeyError: for a variable that the dashboard does not have
    """
    return re.sub(
        r'\$(\w+)|\$\{(\w+)\}',
        lambda found: values[found[1] or found[2]],
        text,
    )


def choose(
    dashboard: Mapping[str, Any],
    prometheus: Prometheus,
    given: Mapping[str, str],
    start: float,
    end: float,
) -> dict[str, list[str]]:
    """Choose values for the variables of a dashboard.

    :param given: values that were asked for
    :returns: variable -> values; one only unless it has several
    """
    chosen: dict[str, list[str]] = {'__rate_interval': ['1m']}
    for variable in dashboard['templating']['list']:
        name = variable['name']
        if variable['type'] == 'datasource':
            continue
        match = _LABEL_VALUES.fullmatch(variable['definition'])
        if match is None:
            raise ValueError(f'no label_values(): {variable["definition"]}')
        first = {each: values[0] for each, values in chosen.items()}
        selector = fill(match[1], first)
        values = prometheus.labels(selector, match[2], start, end)
        if name in given:
            values = [given[name]]
        if not values:
            raise ValueError(f'Prometheus has no {name} for {selector}')
        chosen[name] = values if variable.get('multi') else values[:1]
    return chosen


def panels(
    dashboard: Mapping[str, Any], chosen: Mapping[str, list[str]]
) -> Iterator[tuple[Panel, dict[str, int]]]:
    """Go through the panels, those of a repeated row once for each value.

    :returns: panels, and where they are in the grid
    """
    everything = dashboard['panels']
    rows = [each for each in everything if each['type'] == 'row']
    below = min((row['gridPos']['y'] for row in rows), default=1_000)
    values = {name: found[0] for name, found in chosen.items()}
    for spec in everything:
        if spec['gridPos']['y'] < below:
            yield _fill_panel(spec, values), spec['gridPos']
    offset = 0
    for row in rows:
        members = [
            spec for spec in everything
            if spec['type'] != 'row' and spec['gridPos']['y'] > below
        ]  # fmt: skip
        height = 1 + max(spec['gridPos']['h'] for spec in members)
        for value in chosen[row['repeat']]:
            now = values | {row['repeat']: value}
            for spec in (row, *members):
                place = dict(spec['gridPos'])
                place['y'] += offset
                yield _fill_panel(spec, now), place
            offset += height


def _fill_panel(spec: Mapping[str, Any], values: Mapping[str, str]) -> Panel:
    queries = [
        (fill(target['expr'], values), target['legendFormat'])
        for target in spec.get('targets', ())
    ]
    return Panel(fill(spec['title'], values), spec, queries)


def name_of(legend: str, series: Series) -> str:
    """Name a series as its legend says; a UUID by its first part."""
    text = re.sub(
        r'\{\{(\w+)\}\}',
        lambda found: series.labels.get(found[1], ''),
        legend,
    )
    return re.sub(r'\b([0-9a-f]{8})(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b',
                  r'\1', text)  # fmt: skip


def _render_value(value: float, unit: str) -> str:
    if unit == 'percentunit':
        return f'{value:.0%}'
    text = f'{value:.3g}' if value < 1000 else f'{value:,.0f}'
    return text + {'s': ' s', 'hertz': ' Hz'}.get(unit, '')


class Drawing:
    """One dashboard as a picture.

    :param dashboard: as :func:`load` returns it
    :param source: what answers its queries
    :param chosen: values of its variables
    """

    def __init__(
        self,
        dashboard: Mapping[str, Any],
        source: Prometheus,
        chosen: Mapping[str, list[str]],
        start: float,
        end: float,
        step: float,
    ) -> None:
        self._source = source
        self._times = start, end, step
        self._panels = list(panels(dashboard, chosen))
        self._title = dashboard['title']
        names = ', '.join(
            f'{name} {values[0]}'
            for name, values in chosen.items()
            if len(values) == 1 and not name.startswith('__')
        )
        if names:
            self._title += f' ({names})'

    def save(self, path: pathlib.Path) -> None:
        """Draw all panels into a file."""
        bottom = max(place['y'] + place['h'] for _, place in self._panels)
        head = 1.4  # Rows of the grid, for the title.
        width, height = 24 * _COLUMN, (bottom + head) * _ROW
        drawn = pyplot.figure(figsize=(width, height), facecolor='white')
        drawn.text(
            0.012, 1 - 0.7 / (bottom + head), self._title, fontsize=14,
            weight='bold', va='center',
        )  # fmt: skip
        for panel, place in self._panels:
            top = 1 - (place['y'] + head) / (bottom + head)
            low = top - place['h'] / (bottom + head)
            box = place['x'] / 24, low, place['w'] / 24, top - low
            getattr(self, f'_draw_{panel.spec["type"]}')(drawn, panel, box)
        drawn.savefig(path, dpi=90)
        pyplot.close(drawn)

    def _draw_row(
        self, drawn: figure.Figure, panel: Panel, box: tuple[float, ...]
    ) -> None:
        left, low, _, height = box
        drawn.text(
            left + 0.012, low + height / 2, panel.title, fontsize=11,
            weight='bold', va='center',
        )  # fmt: skip

    def _draw_stat(
        self, drawn: figure.Figure, panel: Panel, box: tuple[float, ...]
    ) -> None:
        left, low, width, height = box
        ((query, _),) = panel.queries
        start, end, step = self._times
        found = self._source.range(query, start, end, step)
        text, colour = 'no data', 'grey'
        if found:
            value = found[0].values[-1][1]
            text = _render_value(value, panel.unit)
            defaults = panel.spec['fieldConfig']['defaults']
            limits = [
                each['value'] for each in defaults['thresholds']['steps']
            ]
            bad = len(limits) > 1 and value >= limits[1]
            colour = _RED if bad else _GREEN
        middle = left + width / 2
        drawn.text(
            middle, low + 0.85 * height, panel.title, ha='center', va='top',
            fontsize=9,
        )  # fmt: skip
        drawn.text(
            middle, low + 0.35 * height, text, ha='center', va='center',
            fontsize=22, color=colour, weight='bold',
        )  # fmt: skip

    def _draw_timeseries(
        self, drawn: figure.Figure, panel: Panel, box: tuple[float, ...]
    ) -> None:
        left, low, width, height = box
        total = drawn.get_size_inches()[1]
        legend, title = 0.5 / total, 0.3 / total
        axes = drawn.add_axes(
            (
                left + 0.032,
                low + legend,
                width - 0.045,
                height - legend - title,
            )
        )
        axes.set_title(panel.title, fontsize=9, loc='left')
        start, end, step = self._times
        stack: dict[float, float] = {}
        number = 0
        for query, text in panel.queries:
            for series in self._source.range(query, start, end, step):
                name = name_of(text, series)
                colour = _COLOURS[number % len(_COLOURS)]
                self._draw_series(axes, panel, name, series, stack, colour)
                number += 1
        self._finish(axes, panel, number)

    def _draw_series(
        self, axes: Any, panel: Panel, name: str, series: Series,
        stack: dict[float, float], colour: str,
    ) -> None:  # fmt: skip
        custom = panel.spec['fieldConfig']['defaults']['custom']
        # A gap stays a gap.
        step = self._times[2]
        at: list[float] = []
        values: list[float] = []
        for moment, value in series.values:
            if at and moment - at[-1] > 1.5 * step:
                at.append(at[-1] + step)
                values.append(float('nan'))
            at.append(moment)
            values.append(value)
        days = [moment / 86400 for moment in at]
        dashed = any(
            re.fullmatch(each['matcher']['options'], name)
            for each in panel.spec['fieldConfig']['overrides']
        )
        if custom['drawStyle'] == 'bars':
            axes.bar(
                days, values, width=step / 86400, align='edge', label=name,
                color=colour, alpha=0.6,
                bottom=[stack.get(moment, 0.0) for moment in at],
            )  # fmt: skip
            for moment, value in zip(at, values, strict=True):
                stack[moment] = stack.get(moment, 0.0) + value
            return
        steps = custom['lineInterpolation'] == 'stepAfter'
        shape = 'steps-post' if steps else 'default'
        if dashed or custom['stacking']['mode'] == 'none':
            axes.plot(
                days, values, label=name, color=colour, linewidth=1.4,
                drawstyle=shape, linestyle='--' if dashed else '-',
                alpha=0.9,
            )  # fmt: skip
            return
        lower = [stack.get(moment, 0.0) for moment in at]
        upper = [a + b for a, b in zip(lower, values, strict=True)]
        stack.update(zip(at, upper, strict=True))
        axes.fill_between(days, lower, upper, color=colour, alpha=0.35,
                          linewidth=0)  # fmt: skip
        axes.plot(days, upper, label=name, color=colour, linewidth=1.2)

    def _finish(self, axes: Any, panel: Panel, number: int) -> None:
        start, end, _ = self._times
        axes.set_xlim(start / 86400, end / 86400)
        locator = dates.AutoDateLocator(  # type: ignore[no-untyped-call]
            maxticks=6
        )
        axes.xaxis.set_major_locator(locator)
        form = dates.DateFormatter('%H:%M')  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_formatter(form)
        limit = panel.spec['fieldConfig']['defaults'].get('max')
        top = max(axes.get_ylim()[1], 1e-9)
        if panel.unit != 'percentunit':
            top = max(top, 1)
            axes.yaxis.set_major_locator(ticker.MaxNLocator(5))
        axes.set_ylim(0, limit * 1.04 if limit is not None else top * 1.08)
        if panel.unit == 'percentunit':
            axes.yaxis.set_major_formatter(ticker.PercentFormatter(1, 0))
        axes.tick_params(labelsize=7)
        axes.grid(alpha=0.25)
        for side in ('top', 'right'):
            axes.spines[side].set_visible(False)
        if number == 0:
            axes.text(
                0.5, 0.5, 'no data', transform=axes.transAxes, ha='center',
                color='grey',
            )  # fmt: skip
            return
        axes.legend(
            loc='upper center', bbox_to_anchor=(0.5, -0.1), fontsize=7,
            ncols=min(number, 5), columnspacing=1.2,
            handlelength=1.5, frameon=False,
        )  # fmt: skip


def draw(
    source: Prometheus,
    output: pathlib.Path,
    given: Mapping[str, str],
    start: float,
    end: float,
    step: float = 15,
) -> None:
    """Draw every dashboard.

    :param output: the directory of the pictures
    :param given: variables that are set
    :param start: seconds since 1970, like ``end``
    :param step: seconds
    """
    output.mkdir(parents=True, exist_ok=True)
    for path in sorted(DASHBOARDS.glob('*.json')):
        dashboard = load(path.stem)
        chosen = choose(dashboard, source, given, start, end)
        picture = output / f'{path.stem}.png'
        Drawing(dashboard, source, chosen, start, end, step).save(picture)
        print(picture)


def main() -> None:
    """Draw what a Prometheus has."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or '').split('\n')[0]
    )
    parser.add_argument('--prometheus', default='http://127.0.0.1:9090')
    parser.add_argument('--output', type=pathlib.Path, required=True)
    parser.add_argument('--end', type=float, default=time.time())
    parser.add_argument('--minutes', type=float, default=60)
    parser.add_argument('--step', type=float, default=15)
    parser.add_argument('--set', action='append', default=[])
    options = parser.parse_args()
    given = dict(each.split('=', 1) for each in options.set)
    draw(
        Prometheus(options.prometheus), options.output, given,
        options.end - options.minutes * 60, options.end, options.step,
    )  # fmt: skip


if __name__ == '__main__':
    main()
