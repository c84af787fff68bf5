#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tables of the guest's logs, without and with the series side by side.

    table.py supply|values|shares|selftests LOG-WITHOUT LOG-WITH

Each ends with a verdict, which is the exit code as well.
"""

import collections
from collections.abc import Callable, Iterable
import dataclasses
import math
import sys


@dataclasses.dataclass(frozen=True)
class Row:
    """Supply of a reservation in one case.

    :ivar kept: the guest's verdict on it, see tests/bounds.c
    """

    case: str
    group: str
    runtime: int
    period: int
    prio: str
    beside: str
    periods: int
    least: float
    short: int
    gap: int
    ppm: int
    kept: bool


def rows(lines: Iterable[str]) -> dict[tuple[str, str], Row]:
    """The lines of a supply log that are about a reservation."""
    found = {}
    for line in lines:
        w = line.split()
        if len(w) != 15 or w[0] not in ('----', 'ok', 'FAIL'):
            continue
        if not w[2].startswith('g') or not w[1].isdigit():
            continue
        found[w[1], w[2]] = Row(
            case=w[1],
            group=w[2],
            runtime=int(w[3]),
            period=int(w[4]),
            prio=w[5],
            beside=w[6],
            periods=int(w[7]),
            least=float(w[8]),
            short=int(w[10]),
            gap=int(w[12]),
            ppm=int(w[13]),
            kept=w[14] == 'kept',
        )
    return found


def show(row: Row | None) -> str:
    """Half a line of the table."""
    if row is None:
        return 'did not run'
    return (
        f'{row.least:>10.3f} {row.short:>4}/{row.periods:<5} '
        f'{row.gap:>6} {row.ppm:>7}'
    )


def total(found: Iterable[Row]) -> str:
    """Summary of all rows of a log."""
    all_rows = list(found)
    short = sum(row.short for row in all_rows)
    periods = sum(row.periods for row in all_rows)
    bad = sum(not row.kept for row in all_rows)
    worst = max((abs(row.ppm) for row in all_rows), default=0)
    return (
        f'{len(all_rows)} reservations, {bad} of them out of bounds; '
        f'{short} of {periods} periods short; accounted time off by '
        f'{worst} ppm at most'
    )


def supply(without: list[str], with_: list[str]) -> tuple[list[str], bool]:
    """Supply: every reservation of every case."""
    old, new = rows(without), rows(with_)
    form = '{:>4} {:>2} {:>5} {:>6} {:>4} {:>6}  {:>36}   {:>36}'
    out = [
        form.format(
            'case',
            'of',
            'Q us',
            'P us',
            'prio',
            'beside',
            'without: min short gap ppm',
            'with: min short gap ppm',
        )
    ]
    for key, row in new.items():
        out.append(
            form.format(
                row.case,
                row.group,
                row.runtime,
                row.period,
                row.prio,
                row.beside,
                show(old.get(key)),
                show(row) + ('' if row.kept else ' <--'),
            )
        )
    finished = [
        any(line.startswith('DONE') for line in log)
        for log in (without, with_)
    ]
    # A control that keeps the promise as well would show nothing.
    shown = any(not row.kept for row in old.values())
    ok = (
        all(finished)
        and shown
        and bool(new)
        and all(row.kept for row in new.values())
        and not any(line.startswith('FAIL') for line in with_)
    )
    out.append(f'without: {total(old.values())}')
    out.append(f'with:    {total(new.values())}')
    out.append(f'verdict: {"passed" if ok else "FAILED"}')
    return out, ok


def numbers(lines: Iterable[str]) -> dict[str, float]:
    """The lines "value <name> <number>"."""
    found = {}
    for line in lines:
        w = line.split()
        if len(w) >= 3 and w[0] == 'value':
            found[w[1]] = float(w[2])
    return found


def plain(number: float) -> str:
    """A number without an exponent."""
    return f'{number:.0f}' if number >= 1000 else f'{number:g}'


# The clock counts instructions, so that a ratio is exact for these kernels.
# It still moves by some percent with the layout of the code, and messages by
# some more with the order of 200 tasks. The worst wakeup of all is shown, but
# not judged: it depends on when the guest happened to boot.
# name -> the least and the largest ratio that are accepted.
BOUNDS = {
    'pipe_fair': (0.97, math.inf),
    'pipe_fifo': (0.97, math.inf),
    'wakeup_mean_ns': (0, 1.05),
    'wakeup_p98_ns': (0, 1.1),
    'wakeup_loaded_mean_ns': (0, 1.05),
    'wakeup_loaded_p98_ns': (0, 1.1),
    'perf_pipe_us_per_op': (0, 1.03),
    'perf_pipe_threads_us_per_op': (0, 1.03),
    'perf_messaging_s': (0, 1.05),
    'perf_messaging_threads_s': (0, 1.05),
}


def values(without: list[str], with_: list[str]) -> tuple[list[str], bool]:
    """Values: each of both kernels, and their ratio."""
    old, new = numbers(without), numbers(with_)
    out = [f'{"value":<28} {"without":>12} {"with":>12} {"ratio":>7}']
    ok = bool(new) and set(old) == set(new)
    for name, now in new.items():
        was = old.get(name)
        if not was:
            before = '-' if was is None else plain(was)
            out.append(f'{name:<28} {before:>12} {plain(now):>12}')
            continue
        ratio, mark = now / was, ''
        least, most = BOUNDS.get(name, (0, math.inf))
        if not least <= ratio <= most:
            ok, mark = False, f' <-- not in {least} to {most}'
        out.append(
            f'{name:<28} {plain(was):>12} {plain(now):>12} {ratio:>7.3f}{mark}'
        )
    out.append(f'verdict: {"passed" if ok else "FAILED"}')
    return out, ok


def shares(without: list[str], with_: list[str]) -> tuple[list[str], bool]:
    """Values of several CPUs, of which the emulator runs one at a time.

    When a task wakes up is when its CPU has its turn.
    """
    return values(
        *(
            [line for line in log if 'wakeup' not in line]
            for log in (without, with_)
        )
    )


def results(lines: Iterable[str]) -> dict[str, str]:
    """The lines "self <test> <result>"."""
    found = {}
    for line in lines:
        w = line.split()
        if len(w) == 3 and w[0] == 'self':
            found[w[1]] = w[2]
    return found


def selftests(without: list[str], with_: list[str]) -> tuple[list[str], bool]:
    """Selftests: none that passes without the series may fail with it."""
    old, new = results(without), results(with_)
    out = [f'{"selftest":<60} without with']
    worse = []
    for name in {**old, **new}:
        was, now = old.get(name, '-'), new.get(name, '-')
        mark = ''
        if was == 'pass' and now != 'pass':
            worse.append(name)
            mark = ' <--'
        out.append(f'{name:<60} {was:<7} {now}{mark}')
    for title, found in ('without', old), ('with', new):
        count = collections.Counter(found.values())
        out.append(
            f'{title}: {count["pass"]} pass, {count["fail"]} fail, '
            f'{count["skip"]} skip'
        )
    ok = not worse and 'pass' in new.values()
    out.append(f'verdict: {"passed" if ok else "FAILED"}')
    return out, ok


Table = Callable[[list[str], list[str]], tuple[list[str], bool]]
TABLES: dict[str, Table] = {
    'supply': supply,
    'values': values,
    'shares': shares,
    'selftests': selftests,
}


def read(path: str) -> list[str]:
    """The lines of a log, even with bytes that a crash left in it."""
    with open(path, encoding='ascii', errors='replace') as log:
        return log.read().splitlines()


def main() -> int:
    """Print the table that the arguments name."""
    out, ok = TABLES[sys.argv[1]](read(sys.argv[2]), read(sys.argv[3]))
    print('\n'.join(out))
    return not ok


if __name__ == '__main__':
    sys.exit(main())
