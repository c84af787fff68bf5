# SPDX-License-Identifier: Apache-2.0
"""Every cgroup interface that a kernel may offer for RT bandwidth, as data.

The only place that knows names and formats of the files. Sources: Linux
kernel/sched/core.c, cpu_legacy_files[] (``v1-throttle``); this project's
kernel/patches (``v2-rt-max-cpu``); the patches of hierarchical constant
bandwidth servers, HCBS, that others publish (the rest).
"""

from collections.abc import Iterable, Mapping
import dataclasses
import enum

from nova_rt import cpulist
from nova_rt.admission import Scope
from nova_rt.extra_specs import Enforcement
from nova_rt.reservation import MAX_PERIOD_US, PPM

#: The smallest runtime that every interface takes, in microseconds.
SMALLEST_US = 2

#: Bandwidth in these kernels is a fraction of 2^20.
BW_SHIFT = 20


class Form(enum.Enum):
    """How a file spells its numbers."""

    #: ``<us>``, for all CPUs.
    SCALAR = 'scalar'
    #: Written ``<cpus> <us>``, other CPUs are kept; read as one number per
    #: CPU, from CPU 0 on.
    CPUS_FIRST = 'cpus-first'
    #: Written ``<us> <cpus>``, other CPUs become 0; read as one number per
    #: CPU, from CPU 0 on.
    CPUS_LAST = 'cpus-last'
    #: ``<runtime us>|max <period us>`` in one file, for all CPUs.
    PAIR = 'pair'


@dataclasses.dataclass(frozen=True, order=True)
class Share:
    """Runtime in every period, as the kernel has it: anything it accepts.

    :ivar runtime_us: microseconds; None where the group has no bound of its
        own
    :ivar period_us: microseconds
    """

    runtime_us: int | None
    period_us: int

    @property
    def ppm(self) -> int:
        """Bandwidth in ppm of a CPU, rounded down; no bound is a whole CPU."""
        if self.runtime_us is None:
            return PPM
        # The kernel's word for "no bandwidth" may be 0/0.
        return self.runtime_us * PPM // max(1, self.period_us)

    @property
    def cost_ppm(self) -> int:
        """Bandwidth in ppm of a CPU, rounded up: what it takes from others."""
        if self.runtime_us is None:
            return 0  # Its tasks live on what the group above holds.
        return -(-self.runtime_us * PPM // max(1, self.period_us))

    @property
    def kernel_bw(self) -> int:
        """Bandwidth as the kernel counts it: kernel/sched/core.c, to_ratio().

        A sum of these, and nothing else, is comparable with a sum that the
        kernel reports.
        """
        if self.runtime_us is None:
            return 0
        return (self.runtime_us << BW_SHIFT) // max(1, self.period_us)

    def __str__(self) -> str:
        runtime = 'max' if self.runtime_us is None else self.runtime_us
        return f'{runtime}/{self.period_us} us'


@dataclasses.dataclass(frozen=True)
class Held:
    """What a group holds.

    :ivar every: on every CPU; None where the kernel has a share per CPU
    :ivar cpus: CPU -> share, of the CPUs that have any runtime
    """

    every: Share | None = None
    cpus: Mapping[int, Share] = dataclasses.field(default_factory=dict)

    def on(self, cpu: int) -> int:
        """Bandwidth on a CPU, in ppm, rounded down."""
        if self.every is not None:
            return self.every.ppm
        return self.cpus[cpu].ppm if cpu in self.cpus else 0

    def cost_on(self, cpu: int) -> int:
        """Bandwidth taken from others on a CPU, in ppm, rounded up."""
        if self.every is not None:
            return self.every.cost_ppm
        return self.cpus[cpu].cost_ppm if cpu in self.cpus else 0

    @property
    def without_bound(self) -> bool:
        """Whether the group lives on what the group above holds."""
        return self.every is not None and self.every.runtime_us is None

    @property
    def cost_ppm(self) -> int:
        """Bandwidth taken from others, on the CPU with the most, in ppm."""
        if self.every is not None:
            return self.every.cost_ppm
        return max((share.cost_ppm for share in self.cpus.values()), default=0)

    def __str__(self) -> str:
        if self.every is not None:
            return str(self.every)
        groups: dict[Share, list[int]] = {}
        for cpu, share in self.cpus.items():
            groups.setdefault(share, []).append(cpu)
        texts = (
            f'{share} on CPUs {cpulist.render(cpus)}'
            for share, cpus in groups.items()
        )
        return ', '.join(texts) or '0 us on every CPU'


@dataclasses.dataclass(frozen=True)
class Supply:
    """What a CPU of the host has for reservations, as the kernel reports it.

    :ivar ceiling_ppm: what groups can hold on it in all
    :ivar reserved_ppm: what they hold now, whoever made them
    """

    ceiling_ppm: int
    reserved_ppm: int


@dataclasses.dataclass(frozen=True)
class Server:
    """What a group has on a CPU, as the kernel reports it."""

    runtime_ns: int
    period_ns: int

    @property
    def kernel_bw(self) -> int:
        """Bandwidth as the kernel counts it."""
        return (self.runtime_ns << BW_SHIFT) // max(1, self.period_ns)

    def __str__(self) -> str:
        return f'{self.runtime_ns}/{self.period_ns} ns'


@dataclasses.dataclass(frozen=True)
class Usage:
    """What a group did with its reservation on a CPU, since it was made.

    :ivar periods: budgets that it was given
    :ivar throttled: budgets that it used up
    :ivar used_us: microseconds for which its real-time tasks ran
    """

    periods: int
    throttled: int
    used_us: int


def to_ppm(kernel_bw: int) -> int:
    """Bandwidth in ppm as the kernel prints it, rounded down."""
    return kernel_bw * PPM >> BW_SHIFT


def to_kernel_bw(ppm: int) -> int:
    """Bandwidth as the kernel counts it, rounded up."""
    return -(-(ppm << BW_SHIFT) // PPM)


@dataclasses.dataclass(frozen=True)
class Interface:
    """One kernel's way to reserve RT bandwidth for a group.

    :ivar version: of the control groups, 1 or 2
    :ivar runtime_file: has the runtime; with ``Form.PAIR``, the period too
    :ivar period_file: has the period; None with ``Form.PAIR``
    :ivar effective_file: says for each CPU what the kernel made of it; in the
        host's own group, what there is and what is reserved. Where it is, a
        group reserves on the CPUs of its cpuset, and one without a
        reservation lives on that of the group above
    :ivar stat_file: says for each CPU what was used
    """

    name: str
    version: int
    enforcement: Enforcement
    scope: Scope
    runtime_file: str
    runtime_form: Form
    period_file: str | None = None
    period_form: Form = Form.SCALAR
    effective_file: str | None = None
    stat_file: str | None = None

    @property
    def reports(self) -> bool:
        """Whether the kernel says what it has and what it made of a wish."""
        return self.effective_file is not None

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files to read."""
        if self.period_file is None:
            return (self.runtime_file,)
        return (self.runtime_file, self.period_file)

    @property
    def per_cpu(self) -> bool:
        """Whether a group has a share for each CPU of its own."""
        return self.runtime_form in (Form.CPUS_FIRST, Form.CPUS_LAST)

    def parse(self, texts: Mapping[str, str]) -> Held:
        """What the files say.

        :param texts: content of each of ``files``
        :raises ValueError: if it is not of this interface
        """
        words = texts[self.runtime_file].split()
        if self.runtime_form is Form.PAIR:
            runtime, period = words
            return Held(Share(_number(runtime), int(period)))
        assert self.period_file is not None
        periods = [int(word) for word in texts[self.period_file].split()]
        runtimes = [_number(word) for word in words]
        if not self.per_cpu:
            (one_runtime,), (one_period,) = runtimes, periods
            return Held(Share(one_runtime, one_period))
        if self.period_form is Form.SCALAR:
            periods = periods * len(runtimes)
        shares = zip(runtimes, periods, strict=True)
        return Held(
            cpus={
                cpu: Share(runtime, period)
                for cpu, (runtime, period) in enumerate(shares)
                if runtime != 0
            }
        )

    def wish(
        self, runtime_us: int, period_us: int, cpus: Iterable[int]
    ) -> Held:
        """What a group should hold for a reservation on these CPUs."""
        share = Share(runtime_us, period_us)
        if self.per_cpu:
            return Held(cpus={cpu: share for cpu in sorted(cpus)})
        return Held(share)

    def lower(self, held: Held, wish: Held) -> list[tuple[str, str]]:
        """Writes that leave as little as a group with RT tasks may have.

        Not 0, which the kernel refuses then (kernel/sched/rt.c,
        tg_rt_schedulable(): EBUSY), but on CPUs that the group is to leave.
        With the longest period it is less than any share of a group around,
        whose period can then be changed by itself.

        :returns: file and text, in order; nothing for a group without share
        """
        if held.every is not None:
            if held.every.runtime_us in (0, None):
                return []
            keep, drop = [0], []
        else:
            keep = [cpu for cpu in held.cpus if cpu in wish.cpus]
            drop = [cpu for cpu in held.cpus if cpu not in wish.cpus]
        if self.runtime_form is Form.PAIR:
            return [(self.runtime_file, f'{SMALLEST_US} {MAX_PERIOD_US}')]
        assert self.period_file is not None
        runtimes = {SMALLEST_US: keep} if keep else {}
        if drop and (self.runtime_form is Form.CPUS_FIRST or not keep):
            runtimes[0] = drop
        periods = {MAX_PERIOD_US: keep} if keep else {}
        return [
            *self._writes(self.runtime_file, self.runtime_form, runtimes),
            *self._writes(self.period_file, self.period_form, periods),
        ]

    def raise_to(self, wish: Held) -> list[tuple[str, str]]:
        """Writes that give a group its share.

        The period first: while the runtime is small it can be anything, and
        the runtime can be anything then that is not above it.

        :returns: file and text, in order
        """
        if wish.every is not None:
            runtimes = {wish.every.runtime_us or 0: [0]}
            periods = {wish.every.period_us: [0]}
        else:
            runtimes, periods = {}, {}
            for cpu, share in wish.cpus.items():
                runtimes.setdefault(share.runtime_us or 0, []).append(cpu)
                periods.setdefault(share.period_us, []).append(cpu)
        if self.runtime_form is Form.PAIR:
            (runtime,), (period,) = runtimes, periods
            return [(self.runtime_file, f'{runtime} {period}')]
        assert self.period_file is not None
        return [
            *self._writes(self.period_file, self.period_form, periods),
            *self._writes(self.runtime_file, self.runtime_form, runtimes),
        ]

    def unbound(self, held: Held) -> list[tuple[str, str]]:
        """Writes that end a reservation of ``Form.PAIR``: no bound.

        :returns: file and text, in order
        """
        assert self.runtime_form is Form.PAIR and held.every is not None
        return [(self.runtime_file, f'max {held.every.period_us}')]

    def nothing(self, held: Held) -> list[tuple[str, str]]:
        """Writes that give everything back.

        :returns: file and text, in order; nothing for a group without share
        """
        if self.runtime_form is Form.PAIR:
            assert held.every is not None
            return [(self.runtime_file, f'0 {held.every.period_us}')]
        cpus = list(held.cpus) if held.every is None else [0]
        numbers = {0: cpus} if cpus else {}
        return self._writes(self.runtime_file, self.runtime_form, numbers)

    @staticmethod
    def _writes(
        name: str, form: Form, numbers: Mapping[int, list[int]]
    ) -> list[tuple[str, str]]:
        """One write or several, of numbers and the CPUs they are for."""
        if not numbers:
            return []
        if form is Form.SCALAR:
            (number,) = numbers
            return [(name, str(number))]
        lists = {
            number: cpulist.render(cpus) for number, cpus in numbers.items()
        }
        if form is Form.CPUS_FIRST:
            return [
                (name, f'{cpus} {number}') for number, cpus in lists.items()
            ]
        pairs = ' '.join(f'{number} {cpus}' for number, cpus in lists.items())
        return [(name, pairs)]


def parse_supply(text: str) -> dict[int, Supply]:
    """CPU -> what it has, from the effective file of the host's own group.

    :raises ValueError: if it is anything else
    """
    rows = _by_cpu(text, 'ceiling_ppm', 'reserved_ppm')
    if not rows:
        raise ValueError('no CPU')
    return {cpu: Supply(*numbers) for cpu, numbers in rows.items()}


def parse_servers(text: str) -> dict[int, Server]:
    """CPU -> what a group has there, from its effective file.

    :raises ValueError: if it is anything else
    """
    rows = _by_cpu(text, 'runtime_ns', 'period_ns')
    return {cpu: Server(*numbers) for cpu, numbers in rows.items()}


def parse_usage(text: str) -> dict[int, Usage]:
    """CPU -> what a group did there, from its statistics file.

    :raises ValueError: if it is anything else
    """
    rows = _by_cpu(text, 'periods', 'throttled', 'used_usec')
    return {cpu: Usage(*numbers) for cpu, numbers in rows.items()}


def _by_cpu(text: str, *keys: str) -> dict[int, list[int]]:
    """The numbers of a file with lines ``<cpu> <key>=<number> ...``.

    A kernel may say more some day; what is asked for must be there.

    :raises ValueError: if it is not
    """
    rows = {}
    for line in text.splitlines():
        cpu, *pairs = line.split()
        numbers = dict(pair.split('=', 1) for pair in pairs)
        if not numbers.keys() >= set(keys):
            raise ValueError(f'no {", ".join(keys)} in {line!r}')
        rows[int(cpu)] = [int(numbers[key]) for key in keys]
    return rows


def _number(word: str) -> int | None:
    """Microseconds; None for ``max``, which cgroup v1 calls -1."""
    return None if word in ('max', '-1') else int(word)


_RUNTIME = 'cpu.rt_runtime_us'
_PERIOD = 'cpu.rt_period_us'

V1_THROTTLE = Interface(
    'v1-throttle', 1, Enforcement.LIMIT, Scope.HOST,
    _RUNTIME, Form.SCALAR, _PERIOD,
)  # fmt: skip
V1_HCBS_MULTI = Interface(
    'v1-hcbs-multi', 1, Enforcement.GUARANTEE, Scope.CPU,
    'cpu.rt_multi_runtime_us', Form.CPUS_FIRST, _PERIOD,
)  # fmt: skip
V2_HCBS_SCALAR = Interface(
    'v2-hcbs-scalar', 2, Enforcement.GUARANTEE, Scope.HOST,
    _RUNTIME, Form.SCALAR, _PERIOD,
)  # fmt: skip
V2_HCBS_MULTI = Interface(
    'v2-hcbs-multi', 2, Enforcement.GUARANTEE, Scope.CPU,
    _RUNTIME, Form.CPUS_LAST, _PERIOD, Form.CPUS_LAST,
)  # fmt: skip
V2_RT_MAX = Interface(
    'v2-rt-max', 2, Enforcement.GUARANTEE, Scope.HOST,
    'cpu.rt.max', Form.PAIR,
)  # fmt: skip
V2_RT_MAX_CPU = Interface(
    'v2-rt-max-cpu', 2, Enforcement.GUARANTEE, Scope.CPU,
    'cpu.rt.max', Form.PAIR,
    effective_file='cpu.rt.effective', stat_file='cpu.rt.stat',
)  # fmt: skip

#: All of them; of two with the same files, the one that says more of them.
ALL = (
    V1_HCBS_MULTI, V1_THROTTLE, V2_RT_MAX_CPU, V2_RT_MAX, V2_HCBS_MULTI,
    V2_HCBS_SCALAR,
)  # fmt: skip
BY_NAME = {interface.name: interface for interface in ALL}
