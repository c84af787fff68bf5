# SPDX-License-Identifier: Apache-2.0
"""Record of the reservations in the kernel during a test, and its evaluation.

Integers throughout: bandwidth in ppm of a CPU, rounded up; nanoseconds of the
monotonic clock.
"""

from collections.abc import Iterable, Mapping
import dataclasses
import json
import pathlib

_PPM = 1_000_000
_NS = 1_000_000_000


@dataclasses.dataclass(frozen=True)
class Group:
    """The reservation that one container's group holds.

    :ivar cpus: those that it may use, and so holds the bandwidth on
    """

    runtime_us: int
    period_us: int
    cpus: tuple[int, ...]

    @property
    def ppm(self) -> int:
        """Its bandwidth on each of its CPUs; a kernel without a sum for each
        CPU counts it once.
        """
        if self.runtime_us <= 0:
            return 0
        return -(-self.runtime_us * _PPM // self.period_us)

    def __str__(self) -> str:
        cpus = ','.join(map(str, self.cpus))
        return f'{self.runtime_us}/{self.period_us} on {cpus}'


#: By the path of the group below its hierarchy.
Groups = dict[str, Group]


@dataclasses.dataclass(frozen=True)
class Budget:
    """A bound on the sum of groups.

    :ivar cpus: only groups that may use one of these count; None for all,
        where the kernel sums over the host
    """

    name: str
    cpus: frozenset[int] | None
    ppm: int

    def held(self, groups: Mapping[str, Group]) -> int:
        """Sum up its groups."""
        return sum(
            group.ppm
            for group in groups.values()
            if self.cpus is None or self.cpus & set(group.cpus)
        )


def budgets(cpus: Mapping[int, int], host: int | None) -> list[Budget]:
    """Make the budgets of a host.

    :param cpus: CPU -> ppm
    :param host: ppm of the host, None where only CPUs count
    """
    found = [
        Budget(f'CPU {cpu}', frozenset({cpu}), ppm)
        for cpu, ppm in sorted(cpus.items())
    ]
    if host is not None:
        found.append(Budget('host', frozenset(cpus), host))
    return found


@dataclasses.dataclass(frozen=True)
class Course:
    """Record of a sampler.

    :ivar states: each time at which something changed, with all that groups
        held from then on
    :ivar longest_ns: the longest time between two samples
    :ivar cpu_ns: CPU time that the sampler took
    """

    states: tuple[tuple[int, Groups], ...]
    samples: int
    longest_ns: int
    began_ns: int
    ended_ns: int
    cpu_ns: int = 0

    @classmethod
    def read(cls, file: pathlib.Path) -> 'Course':
        """Read the file of a sampler.

        :raises ValueError: if it was killed, and has gaps of unknown length
        """
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        if not lines or 'samples' not in lines[-1]:
            raise ValueError(f'{file}: the sampler did not run to its end')
        states = tuple(
            (
                line['t'],
                {
                    name: Group(runtime, period, tuple(cpus))
                    for name, (runtime, period, cpus) in line['groups'].items()
                },
            )
            for line in lines[:-1]
        )
        last = lines[-1]
        return cls(
            states, last['samples'], last['longest_ns'], last['began'],
            last['ended'], last['cpu_ns'],
        )  # fmt: skip

    def over(self, allowed: Iterable[Budget]) -> list[str]:
        """Find when groups held more than they may.

        :returns: a line for each such state and budget
        """
        allowed = list(allowed)
        return [
            f'{self._at(t)}: {budget.name} was to hold at most {budget.ppm} '
            f'ppm, held {held}: {_told(groups)}'
            for t, groups in self.states
            for budget in allowed
            if (held := budget.held(groups)) > budget.ppm
        ]

    def most(self, budget: Budget) -> int:
        """Return the most that a budget ever had to bear, in ppm."""
        return max((budget.held(groups) for _, groups in self.states),
                   default=0)  # fmt: skip

    def changes(self, name: str) -> list[str]:
        """List the changes of a group since it first held something.

        A group to which nothing happened has one entry; one that was away has
        one for each time.

        :param name: its path below the hierarchy
        """
        told: list[str] = []
        last: Group | None = None
        for t, groups in self.states:
            group = groups.get(name)
            if group == last or (not told and not (group and group.ppm)):
                continue
            last = group
            told.append(f'{self._at(t)}: {group or "gone"}')
        return told

    def drops(self) -> list[str]:
        """Find groups that lost bandwidth while they were there.

        A container has nothing for a moment after each start, and its group
        goes with its end: both are no loss.
        """
        told = []
        pairs = zip(self.states, self.states[1:], strict=False)
        for (_, before), (t, after) in pairs:
            for name, group in after.items():
                had = before.get(name)
                if had and group.ppm < had.ppm:
                    told.append(f'{self._at(t)}: {name} {had} became {group}')
        return told

    def __str__(self) -> str:
        seconds = (self.ended_ns - self.began_ns) // _NS
        return (
            f'{self.samples} samples in {seconds} s, longest gap '
            f'{self.longest_ns // 1_000_000} ms, {len(self.states)} states, '
            f'{self.cpu_ns // 1_000_000} ms of CPU time'
        )

    def _at(self, t: int) -> str:
        # Milliseconds since it began.
        return f'+{(t - self.began_ns) // 1_000_000} ms'


def _told(groups: Mapping[str, Group]) -> str:
    return '; '.join(f'{name} {group}' for name, group in groups.items())
