#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Results of HCBS-Test-Suite, without and with the series side by side.

    suite.py LOG-WITHOUT LOG-WITH

Each test has to pass on both kernels, or to end as the list of the repository
(EXPECTED) says, with the reason. The exit code is 0 if all do.
"""

from collections.abc import Iterable
import dataclasses
import pathlib
import sys
import tomllib

import table

EXPECTED = (
    pathlib.Path(__file__).resolve().parents[1]
    / 'tests/hcbs-suite/expected.toml'
)
MISSING = 'did not run'


@dataclasses.dataclass(frozen=True)
class Expected:
    """An end of a test that is not "pass" on both kernels.

    :ivar without: on the kernel without the series: the verdict, and after a
        colon words that the suite says
    :ivar with_: the same on the kernel with it
    """

    without: str
    with_: str
    reason: str


@dataclasses.dataclass(frozen=True)
class Result:
    """An end of a test, and the suite's own words for it."""

    verdict: str
    text: str

    def is_like(self, want: str) -> bool:
        """Whether it is what Expected says of one kernel."""
        verdict, _, words = want.partition(': ')
        return self.verdict == verdict and words in self.text


def expected(path: pathlib.Path = EXPECTED) -> dict[str, Expected]:
    """The tests that are known to end otherwise than with "pass"."""
    return {
        name: Expected(entry['without'], entry['with'], entry['reason'])
        for name, entry in tomllib.loads(path.read_text()).items()
    }


def results(lines: Iterable[str]) -> dict[str, Result]:
    """The lines "suite <CPUs>/<test> <verdict> <text>"."""
    found = {}
    for line in lines:
        w = line.split(maxsplit=3)
        if len(w) >= 3 and w[0] == 'suite':
            found[w[1]] = Result(w[2], w[3] if len(w) > 3 else '')
    return found


def judge(
    without: list[str],
    with_: list[str],
    known: dict[str, Expected],
) -> tuple[list[str], bool]:
    """Every test, and whether all ended as expected."""
    old, new = results(without), results(with_)
    parts = {name.partition('/')[0] for name in {**old, **new}}
    names = {**old, **new} | {
        name: None for name in known if name.partition('/')[0] in parts
    }
    out = [f'{"test":<28} {"without":<8} {"with":<8} the suite says']
    bad = 0
    missing = Result(MISSING, '')
    for name in names:
        was, now = old.get(name, missing), new.get(name, missing)
        want = known.get(name, Expected('pass', 'pass', ''))
        line = f'{name:<28} {was.verdict:<8} {now.verdict:<8} {now.text}'
        out.append(line.rstrip())
        if was.verdict != 'pass' and was.text not in ('', now.text):
            out.append(f'    without: {was.text}')
        if want.reason:
            out.append(f'    expected: {want.reason}')
        if not (was.is_like(want.without) and now.is_like(want.with_)):
            bad += 1
            out.append(f'    <-- expected: {want.without}; {want.with_}')
    done = all(
        any(line.startswith('DONE') for line in log)
        for log in (without, with_)
    )
    ok = done and bool(new) and not bad
    passed = sum(result.verdict == 'pass' for result in new.values())
    out += [
        f'with the series {passed} of {len(names)} pass; '
        f'{bad} ended otherwise than expected',
        f'verdict: {"passed" if ok else "FAILED"}',
    ]
    return out, ok


def compare(without: list[str], with_: list[str]) -> tuple[list[str], bool]:
    """Judge two logs by the list of the repository."""
    return judge(without, with_, expected())


def main() -> int:
    """Print the table of two logs."""
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    out, ok = compare(table.read(sys.argv[1]), table.read(sys.argv[2]))
    print('\n'.join(out))
    return not ok


if __name__ == '__main__':
    sys.exit(main())
