# SPDX-License-Identifier: Apache-2.0
"""Draws response times against reservations. Needs matplotlib."""

import pathlib

from nova_rt import exception
from nova_rt.cmd.cli import base
from nova_rt.cmd.model import values as texts
from nova_rt.cmd.model.answers import Point
from nova_rt.model import inputs, sizing, units

_FORMATS = ('.pdf', '.png', '.svg')
_STEPS = 200
# For those who see colours in any way (Okabe and Ito).
_BLUE, _ORANGE, _GREEN, _RED = '#0072b2', '#e69f00', '#009e73', '#d55e00'


def draw(point: Point, path: str) -> None:
    """Draw mean and percentile for all bandwidths, with the chosen one.

    :param path: its ending says the format
    :raises CannotRun: without matplotlib, or if it cannot be written
    """
    if pathlib.PurePath(texts.check_path(path)).suffix not in _FORMATS:
        raise exception.InvalidQuantity(
            f'--plot {texts.show_path(path)}: the name must end in '
            f'{", ".join(_FORMATS)}'
        )
    try:
        import matplotlib
        from matplotlib import figure, ticker
    except ImportError as err:
        raise base.CannotRun(
            '--plot needs matplotlib: install nova_rt[plot], or '
            'python3-matplotlib'
        ) from err
    # The same picture has the same bytes.
    matplotlib.rcParams['svg.hashsalt'] = 'nova_rt'
    drawing = figure.Figure(figsize=(7, 4.5), layout='constrained')
    axes = drawing.subplots()
    fraction = point.fraction or 0.99
    name = f'p{units.tell_percentile(fraction)}'
    bandwidths, means, fluids, bounds = _curves(point, fraction)
    axes.fill_between(
        bandwidths, fluids, bounds, color=_BLUE, alpha=0.15, linewidth=0,
        label='longer by at most the gap',
    )  # fmt: skip
    axes.plot(bandwidths, fluids, color=_BLUE, label=name)
    axes.plot(bandwidths, means, color=_GREEN, linestyle='--', label='mean')
    chosen = sizing.expect(
        point.choice.model, point.rate_per_s, fraction, point.reservation,
        point.limits,
    )  # fmt: skip
    at = point.reservation.runtime_us / point.reservation.period_us
    axes.plot(
        [at], [1e3 * (chosen.percentile_s + chosen.gap_s)], 'o',
        color=_RED, label=f'{point.reservation}, {name} with the gap',
    )  # fmt: skip
    if point.deadline_s is not None:
        axes.axhline(
            1e3 * point.deadline_s, color=_ORANGE, linestyle=':',
            label='deadline',
        )  # fmt: skip
    axes.set_yscale('log')
    for each in (
        axes.yaxis.set_major_formatter,
        axes.yaxis.set_minor_formatter,
    ):
        each(ticker.LogFormatter(minor_thresholds=(2, 0.5)))
    axes.set_xlabel(
        f'bandwidth Q/P of each CPU, period {point.reservation.period_us} us'
    )
    axes.set_ylabel('response time, ms')
    axes.set_title(f'{point.choice.name}, {point.rate_per_s:.4g} requests/s')
    axes.grid(alpha=0.3, which='both')
    axes.legend()
    try:
        drawing.savefig(path, dpi=150, metadata=_metadata(path))
    except OSError as err:
        raise base.CannotRun(
            f'{texts.show_path(path)} cannot be written: {err.strerror}'
        ) from err


def _metadata(path: str) -> dict[str, None]:
    """Leave out the time of day."""
    if path.endswith('.png'):
        return {}
    return {'.svg': {'Date': None}, '.pdf': {'CreationDate': None}}[
        pathlib.PurePath(path).suffix
    ]


def _curves(point: Point, fraction: float) -> tuple[tuple[float, ...], ...]:
    """Bandwidths, and in ms: means, percentiles, percentiles with the gap."""
    model, period_us = point.choice.model, point.reservation.period_us
    lost = point.limits.overhead_us / period_us
    rows: list[tuple[float, ...]] = []
    for step in range(1, _STEPS + 1):
        gross = step / _STEPS
        net = gross - lost
        if net < inputs.LEAST:
            continue
        if point.rate_per_s >= model.capacity_per_s(net):
            continue
        mean_s = model.mean_s(point.rate_per_s, net)
        fluid_s = model.percentile_s(point.rate_per_s, net, fraction)
        gap_s = model.gap_s(period_us / 1e6, net)
        rows.append(
            (gross, 1e3 * mean_s, 1e3 * fluid_s, 1e3 * (fluid_s + gap_s))
        )
    return tuple(zip(*rows, strict=True)) or ((), (), (), ())
