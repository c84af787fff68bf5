# SPDX-License-Identifier: Apache-2.0
"""One page with all figures, which needs no other file."""

import base64
from collections.abc import Iterator, Mapping, Sequence
import dataclasses
import html
import itertools
import json
import pathlib
from typing import Any

from experiments import beside, description, noises, plot, points
from experiments.description import Figure
from experiments.evaluate import Result
from experiments.verdict import Verdict, reserved

_HERE = pathlib.Path(__file__).resolve().parent

_HEADS = (
    'mean (ms)',
    '95 % within',
    'p99 (ms)',
    'theory mean',
    'theory p99',
    'bound p99',
    'link (ms)',
    'error',
    'chance',
    'fluid',
    'alone',
    'scheduler',
    'its p99',
    'latest (ms)',
    'allowed (ms)',
    'beyond',
    'longest (ms)',
    'bound (ms)',
    'lost',
)


def write(
    directory: pathlib.Path,
    which: str,
    figures: Sequence[Figure],
    results: Mapping[str, Sequence[Result]],
    verdicts: Sequence[Verdict],
) -> pathlib.Path:
    """Write the page, each figure's plot, and the numbers of all points.

    :param which: the set
    :returns: the path of the page
    """
    directory.mkdir(parents=True, exist_ok=True)
    parts = []
    for figure in figures:
        some = results[figure.name]
        picture = plot.draw(figure, some)
        (directory / f'{figure.name}.svg').write_bytes(picture)
        parts.append(section(which, figure, some, picture))
    points.write(directory / 'points.csv', results)
    page = directory / 'index.html'
    page.write_text(_page(which, figures, results, verdicts, parts))
    summary = {
        'set': which,
        'verdicts': [vars(each) for each in verdicts],
    }
    text = json.dumps(summary, indent=2)
    (directory / 'verdicts.json').write_text(f'{text}\n')
    return page


def parameters(figure: Figure) -> list[str]:
    """The columns that identify a point."""
    names = [figure.panels, figure.curves, figure.x]
    return [name for name in dict.fromkeys(names) if name]


def head(figure: Figure) -> list[str]:
    """Names of a table's columns."""
    return [plot.LABELS[name] for name in parameters(figure)] + list(_HEADS)


def row(figure: Figure, one: Result) -> list[str]:
    """A point in a table."""
    return [
        *(
            _shown(name, getattr(one.point, name))
            for name in parameters(figure)
        ),
        _ms(one.measured.mean_s),
        f'+- {_ms(one.mean_half_s)}' if one.mean_half_s else '',
        _ms(one.measured.percentile_s),
        _ms(one.theory.mean_s),
        _ms(one.theory.percentile_s),
        _ms(one.bound_s) if one.point.link_bit_per_s else '',
        _ms(one.link_late_s) if one.point.link_bit_per_s else '',
        _percent(one.error),
        _percent(one.chance),
        _percent(one.fluid_error),
        _known(one.alone_error) if reserved(one) else '',
        _percent(one.scheduler_error) if scheduled(one) else '',
        _percent(one.scheduler_percentile_error) if scheduled(one) else '',
        _ms(one.excess_s) if one.gap_s else '',
        _ms(one.gap_s) if one.gap_s else '',
        str(one.beyond) if one.gap_s else '',
        _ms(one.longest_s),
        _ms(one.guaranteed_s) if one.guaranteed_s else '',
        str(one.lost),
    ]


def scheduled(one: Result) -> bool:
    """Whether the scheduler is simulated for this point."""
    return one.gap_s > 0 and one.point.cpus == 1


def _shown(name: str, value: Any) -> str:
    value = plot.shown(name, value)
    return value if isinstance(value, str) else f'{value:g}'


def _ms(seconds: float) -> str:
    return f'{seconds * 1e3:.3f}'


def _known(fraction: float | None) -> str:
    return '' if fraction is None else _percent(fraction)


def _percent(fraction: float) -> str:
    # Of a queue without end, percents are no help.
    return f'{1 + fraction:.0f} times' if fraction > 9 else f'{fraction:+.1%}'


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of text."""

    def line(tag: str, cells: Sequence[str]) -> str:
        made = ''.join(f'<{tag}>{html.escape(c)}</{tag}>' for c in cells)
        return f'<tr>{made}</tr>'

    body = '\n'.join(line('td', cells) for cells in rows)
    return f'<table>\n{line("th", heads)}\n{body}\n</table>'


def section(
    which: str, figure: Figure, results: Sequence[Result], picture: bytes
) -> str:
    """A figure as a part of the page."""
    code = base64.b64encode(picture).decode()
    title = html.escape(figure.title)
    texts = ''.join(
        f'<h3>{name}</h3><p>{html.escape(text)}</p>'
        for name, text in (
            ('Question', figure.question),
            ('Set-up', figure.setup),
        )
    )
    rows = [row(figure, one) for one in results]
    # Empty columns would push the rest off the page.
    used = [any(cells) for cells in zip(*rows, strict=True)]
    heads, *rows = (
        list(itertools.compress(line, used)) for line in (head(figure), *rows)
    )
    return (
        f'<h2 id="{figure.name}">{title}</h2>'
        f'<p><i>{html.escape(figure.source[0].upper() + figure.source[1:])}'
        f'</i></p>{texts}<h3>Result</h3>'
        f'<img alt="{title}" src="data:image/svg+xml;base64,{code}">'
        f'<p>{html.escape(result(figure, results))}</p>'
        f'<div class="wide">{table(heads, rows)}</div>'
        '<h3>Where it deviates, and why</h3>'
        f'<p>{html.escape(figure.deviates)}</p>'
        f'<p><code>python -m experiments run {which} {figure.name}</code></p>'
    )


def result(figure: Figure, results: Sequence[Result]) -> str:
    """A figure's numbers in two or three sentences."""
    found = list(_sentences(results))
    if figure.draw == 'ecdf':
        found += _noise(results)
    return ' '.join(found)


def _sentences(results: Sequence[Result]) -> Iterator[str]:
    used = [one for one in results if reserved(one) and one.gap_s]
    if used:
        fluid = max((one.fluid_error for one in used), key=abs)
        alone = max(
            (e for one in used if (e := one.alone_error) is not None),
            key=abs,
            default=None,
        )
        yield (
            f'{results[0].count + results[0].lost} requests a point. With the '
            'same requests, the measured means differ from the fluid CPU by '
            f'up to {fluid:+.1%}'
            + (
                '.'
                if alone is None
                else ', and from the model for a container that is alone, '
                f'where it is valid, by up to {alone:+.1%}.'
            )
        )
    simulated = [abs(one.scheduler_error) for one in used if scheduled(one)]
    if simulated:
        yield (
            'From the simulated scheduler they differ by at most '
            f'{max(simulated):.1%}.'
        )
    linked = [one for one in used if one.point.link_bit_per_s]
    if linked:
        below = sum(one.measured.percentile_s <= one.bound_s for one in linked)
        yield (
            f'{below} of {len(linked)} measured 99th percentiles are below '
            "the papers' bound."
        )
    for one in results:
        if one.point.kernel != 'hcbs':
            late = one.measured.percentile_s / one.theory.percentile_s
            yield (
                f'Unpatched, at a load ratio of {one.point.ldr:g}, the mean '
                f'is {one.measured.mean_s / one.theory.mean_s:.2f} and the '
                f'99th percentile {late:.2f} times that of the model.'
            )


def _noise(results: Sequence[Result]) -> Iterator[str]:
    for one, ratio in beside.ratios(results):
        kind = noises.KINDS[one.point.noise]
        with_ = 'With' if reserved(one) else 'Without'
        yield (
            f'{with_} a reservation, the 99th percentile beside {kind.words} '
            f'is {ratio:.3f} times that alone'
            + (
                f', in the simulation {_ideal(results, one):.3f} times.'
                if reserved(one) and kind.busy
                else '.'
            )
        )


def _ideal(results: Sequence[Result], noisy: Result) -> float:
    """The same ratio of the simulated scheduler."""
    quiet = dataclasses.replace(noisy.point, noise=noises.NONE)
    alone = next(one for one in results if one.point == quiet)
    return noisy.scheduler.percentile_s / alone.scheduler.percentile_s


def _page(
    which: str,
    figures: Sequence[Figure],
    results: Mapping[str, Sequence[Result]],
    verdicts: Sequence[Verdict],
    parts: Sequence[str],
) -> str:
    rows = ''.join(
        f'<tr><td class="{"holds" if v.holds else "broken"}">'
        f'{"holds" if v.holds else "broken"}</td>'
        f'<td>{html.escape(v.what)}</td><td>{html.escape(v.found)}</td></tr>'
        for v in verdicts
    )
    links = ''.join(
        f'<li><a href="#{figure.name}">{html.escape(figure.title)}</a>'
        f' ({html.escape(figure.source)})</li>'
        for figure in figures
    )
    points = sum(len(some) for some in results.values())
    requests = sum(one.count for some in results.values() for one in some)
    part = ''
    if which != 'full':
        part = (
            ' The set-ups describe the full set; this one has some of its '
            'points, with fewer requests.'
        )
    chosen = ''
    if len(figures) < len(description.names()):
        chosen = ''.join(f' {figure.name}' for figure in figures)
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<title>Response times of real-time containers</title>'
        f'<style>{(_HERE / "style.css").read_text()}</style></head><body>'
        '<h1>Response times of real-time containers: model and kernel</h1>'
        f'{(_HERE / "introduction.html").read_text()}'
        f'<p>This is the {which} set: {len(figures)} figures, {points} '
        f'points, {requests} requests; '
        f'<code>python -m experiments run {which}{chosen}</code>.{part}'
        '</p><h3>The bounds that are stated</h3>'
        '<table class="text"><tr><th></th><th>Bound</th><th>Found</th></tr>'
        f'{rows}</table><h3>Figures</h3><ul>{links}</ul>{"".join(parts)}'
        '</body></html>\n'
    )
