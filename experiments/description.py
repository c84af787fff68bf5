# SPDX-License-Identifier: Apache-2.0
"""Checked descriptions of figures, from experiments/figures/NAME.yaml.

A description has the paper's parameters as a grid; :meth:`Figure.points` makes
its points. Times are in microseconds, sizes in bytes and rates in 1/s.
"""

from collections.abc import Iterator
import dataclasses
import itertools
import math
import pathlib
import re
from typing import Any

import yaml

from experiments import noises
from nova_rt import exception
from nova_rt.reservation.reservation import Reservation

FIGURES = pathlib.Path(__file__).resolve().parent / 'figures'
#: `make model` measures check, in about a minute.
SETS = ('check', 'small', 'full')
KERNELS = ('hcbs', 'base')
#: Most CPUs of a guest.
MAX_CPUS = 4
#: Size of one Ethernet frame, with its headers.
DATAGRAM_BYTES = 1514
#: Points that use more of their link are left out: they have no mean.
MAX_LINK_RATIO = 0.95


class Refused(Exception):
    """A description that cannot be measured; the text has the reason."""


def _check_number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refused(f'{name}: {value!r} is not a number')
    if not math.isfinite(value) or value < 0:
        raise Refused(f'{name}: {value!r} is not finite and at least 0')


@dataclasses.dataclass(frozen=True)
class Point:
    """One run of the load.

    :ivar bandwidth: u = Q/P; 0 is a plain server without a reservation
    :ivar cpus: n, each with Q and P; the server has a thread for each
    :ivar ldr: lambda/(n mu u)
    :ivar bwr: lambda E[s]/sigma; 0 without a link
    :ivar link_mbit: sigma; 0 without a link, or if ``bwr`` gives it
    :ivar delay_us: delay of each answer, by netem: 2 delta
    """

    bandwidth: float = 0.0
    period_us: int = 2_000
    cpus: int = 1
    ldr: float = 0.0
    load: float = 0.0
    inter_arrival_us: float = 2_000.0
    work_is: str = 'exponential'
    size_bytes: float = 128.0
    size_is: str = 'constant'
    link_mbit: float = 0.0
    bwr: float = 0.0
    delay_us: int = 0
    noise: str = noises.NONE
    kernel: str = 'hcbs'

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if field.type is not str:
                _check_number(field.name, getattr(self, field.name))
        self._known('work_is', ('exponential', 'constant'))
        self._known('size_is', ('exponential', 'constant'))
        self._known('noise', tuple(noises.KINDS))
        self._known('kernel', KERNELS)
        if not self.inter_arrival_us or not self.period_us:
            raise Refused('a period and an inter-arrival time are above 0')
        if bool(self.ldr) == bool(self.load):
            raise Refused('a point has either ldr or load')
        if self.bwr and self.link_mbit:
            raise Refused('a point has bwr or link_mbit, not both')
        if self.ldr and not self.bandwidth:
            raise Refused('without a bandwidth there is no ldr, only a load')
        self._check_several()
        self._check_stable()

    def _check_several(self) -> None:
        if self.cpus not in range(1, MAX_CPUS + 1):
            raise Refused(f'cpus: {self.cpus} is not from 1 to {MAX_CPUS}')
        if self.cpus > 1 and (
            not self.bandwidth
            or self.link_bit_per_s
            or self.size_bytes > DATAGRAM_BYTES
            or self.size_is != 'constant'
            or self.work_is != 'exponential'
            or self.noise != noises.NONE
        ):
            raise Refused(
                'several CPUs have a reservation, exponential CPU times, '
                'requests of one datagram, and neither link nor noise'
            )

    def _check_stable(self) -> None:
        if not self.bandwidth:
            if not noises.KINDS[self.noise].plain:
                raise Refused(f'noise {self.noise} is beside a reservation')
        else:
            self._check_admitted()
        if self.cpu_load >= (self.bandwidth or 1):
            raise Refused(
                f'a load of {self.cpu_load:g} is not below the bandwidth of '
                f'{self.bandwidth or 1:g}'
            )

    def _check_admitted(self) -> None:
        try:
            beside = self.beside
        except exception.InvalidReservation as err:
            raise Refused(str(err)) from err
        total = sum(each.ppm for each in (self.reservation, *beside))
        if total > noises.CEILING_PPM:
            raise Refused(
                f'a bandwidth of {self.bandwidth:g} and '
                f'{sum(each.ppm for each in beside)} ppm of noise are above '
                f'{noises.CEILING_PPM} ppm'
            )
        if self.noise != noises.NONE and not beside:
            raise Refused(
                f'a bandwidth of {self.bandwidth:g} leaves nothing for noise'
            )

    def _known(self, name: str, words: tuple[str, ...]) -> None:
        if getattr(self, name) not in words:
            raise Refused(
                f'{name}: {getattr(self, name)!r} is none of {words}'
            )

    @property
    def rate_per_s(self) -> float:
        """The rate of requests, lambda."""
        return 1e6 / self.inter_arrival_us

    @property
    def cpu_load(self) -> float:
        """Load of the requests on each CPU, lambda/(n mu)."""
        return self.load or self.ldr * self.bandwidth

    @property
    def service_us(self) -> float:
        """The mean CPU time of a request, 1/mu."""
        return self.cpu_load * self.cpus * self.inter_arrival_us

    @property
    def runtime_us(self) -> int:
        """The runtime Q, to the next microsecond."""
        return round(self.bandwidth * self.period_us)

    @property
    def reservation(self) -> Reservation:
        """The reservation of a server that has one."""
        return Reservation(self.runtime_us, self.period_us)

    @property
    def beside(self) -> noises.Neighbours:
        """The reservations of the noise."""
        return noises.beside(
            self.noise, self.reservation if self.bandwidth else None
        )

    @property
    def link_bit_per_s(self) -> int:
        """The rate of the link, sigma; 0 without one."""
        if self.bwr:
            return round(self.rate_per_s * self.size_bytes * 8 / self.bwr)
        return round(self.link_mbit * 1e6)

    @property
    def link_ratio(self) -> float:
        """Load of the requests on the link; 0 without one."""
        if not self.link_bit_per_s:
            return 0.0
        return self.rate_per_s * self.size_bytes * 8 / self.link_bit_per_s

    def line(self, name: str, count: int, seed: int) -> str:
        """The point in the words of experiments/guest/init.c."""
        tasks = noises.KINDS[self.noise].tasks
        beside = ''.join(f' beside={each}' for each in self.beside)
        return (
            f'{name} runtime={self.runtime_us} period={self.period_us}'
            f' noise={tasks}{beside} link={self.link_bit_per_s}'
            f' delay={self.delay_us} cpus={self.cpus}'
            f' -- --count {count} --seed {seed}'
            f' --rate {self.rate_per_s:.9g} --work {self.service_us * 1e3:.9g}'
            f' --work-is {self.work_is} --size {self.size_bytes:.9g}'
            f' --size-is {self.size_is}'
        )


@dataclasses.dataclass(frozen=True)
class Figure:
    """A description.

    :ivar name: name of its file
    :ivar title: its subject, in a few words
    :ivar source: the paper's figure
    :ivar question: the question that the figure answers
    :ivar setup: the set-up, and its differences from the paper's
    :ivar deviates: deviations of the result, and their reasons
    :ivar x: the name of a parameter, for the axis
    :ivar curves: the parameter each of whose values has a curve
    :ivar panels: the parameter each of whose values has a plot; or ''
    :ivar draw: ``lines`` over x, or ``ecdf``
    :ivar common: parameters of all points
    :ivar full: parameters with a list of values each, and the count
    :ivar small: the same, for the small set; empty if it is not in there
    :ivar check: the same, for the set that `make model` measures
    """

    name: str
    title: str
    source: str
    question: str
    setup: str
    deviates: str
    x: str
    curves: str
    common: dict[str, Any]
    full: dict[str, Any]
    small: dict[str, Any]
    panels: str = ''
    draw: str = 'lines'
    check: dict[str, Any] = dataclasses.field(default_factory=dict)

    def points(self, which: str) -> Iterator[Point]:
        """The points of a set; none if the figure is not in it."""
        grid = dict(getattr(self, which))
        grid.pop('count', None)
        if not grid:
            return
        for values in itertools.product(*grid.values()):
            chosen = dict(self.common)
            try:
                for key, value in zip(grid, values, strict=True):
                    chosen |= _pairs(key, value)
                point = Point(**chosen)
            except (Refused, TypeError) as err:
                raise Refused(f'{self.name}: {values}: {err}') from err
            if point.link_ratio <= MAX_LINK_RATIO:
                yield point

    def count(self, which: str) -> int:
        """Requests that are measured at each point."""
        return int(getattr(self, which).get('count', 0))


def _pairs(key: str, value: Any) -> dict[str, Any]:
    """One parameter, or several that go together: "load, bandwidth"."""
    keys = [each.strip() for each in key.split(',')]
    values = value if len(keys) > 1 else [value]
    if not isinstance(values, list) or len(values) != len(keys):
        raise Refused(f'{key}: {value!r} does not have {len(keys)} values')
    return dict(zip(keys, values, strict=True))


def parse(name: str, text: str) -> Figure:
    """Read a description.

    :raises Refused: if it is invalid
    """
    if not re.fullmatch(r'[a-z0-9-]+', name):
        raise Refused(f'{name!r} is not a name of a figure')
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as err:
        raise Refused(f'{name}: {" ".join(str(err).split())}') from err
    if not isinstance(found, dict):
        raise Refused(f'{name}: it has no keys')
    _check_keys(name, found)
    figure = Figure(name=name, **found)
    if figure.draw not in ('lines', 'ecdf'):
        raise Refused(f'{name}: it draws neither lines nor ecdf')
    for axis in filter(None, (figure.x, figure.curves, figure.panels)):
        if axis not in {field.name for field in dataclasses.fields(Point)}:
            raise Refused(f'{name}: a point has no {axis}')
    # No set is refused later.
    list(figure.points('small'))
    list(figure.points('check'))
    if not list(figure.points('full')):
        raise Refused(f'{name}: no points')
    return figure


def _check_keys(name: str, found: dict[str, Any]) -> None:
    fields = {field.name for field in dataclasses.fields(Figure)} - {'name'}
    wrong = set(map(str, found)) - fields
    missing = fields - {'panels', 'draw', 'check'} - set(found)
    if wrong or missing:
        raise Refused(
            f'{name}: unknown: {sorted(wrong)}, missing: {sorted(missing)}'
        )
    for key in ('common', *SETS):
        if not isinstance(found.get(key, {}), dict):
            raise Refused(f'{name}: {key} has no keys')
    for key in SETS:
        _check_grid(name, key, found.get(key, {}))


def _check_grid(name: str, which: str, grid: dict[str, Any]) -> None:
    if not grid:
        return
    count = grid.get('count')
    if type(count) is not int or not 100 <= count <= 1_000_000:
        raise Refused(f'{name}: {which}: a count is from 100 to 1000000')
    for key, values in grid.items():
        if key != 'count' and not (isinstance(values, list) and values):
            raise Refused(f'{name}: {which}: {key} is not a list of values')


def load(name: str) -> Figure:
    """Read the description of a figure.

    :raises Refused: if there is none
    """
    path = FIGURES / f'{name}.yaml'
    if not re.fullmatch(r'[a-z0-9-]+', name) or not path.exists():
        raise Refused(f'no figure {name!r}; there are {", ".join(names())}')
    return parse(name, path.read_text())


def names() -> list[str]:
    """Names of all figures, in the order of the report."""
    return sorted(path.stem for path in FIGURES.glob('*.yaml'))
