#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs HCBS-Test-Suite, which others wrote, without and with the series.

    HCBS_SUITE=DIRECTORY suite.py [PATTERN]

The directory is one into which the suite was installed as its README says;
nothing here builds it. The suite writes the files of the first HCBS series:
tests/suite/shim.c translates them. Two guests with two CPUs run its programs
one by one; PATTERN takes some of the tests. The table has what each said, and
why it is not what the suite expects. The exit code is 0 if the series does
what the table here says, and 69 if there is no suite.
"""

import collections
from collections.abc import Iterable, Mapping
import concurrent.futures
import dataclasses
import fnmatch
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

KERNEL = pathlib.Path(__file__).resolve().parent.parent
SCRIPTS = KERNEL / 'scripts'
WORK = pathlib.Path(
    os.environ.get('NOVA_RT_KERNEL', '/var/lib/nova-rt-kernel')
)
LOGS = pathlib.Path(os.environ.get('KERNEL_LOGS', WORK / 'logs'))
PROGRAMS = (
    'tools',
    'constraints_cgroup_setup',
    'time',
    'regression',
    'stress',
)
NO_SUITE = 69

#: Test -> what its failure says on the kernel with the series, and why.
DIFFERENCES = {
    'setup.root': (
        'Invalid argument',
        'sets the root to 0 first; here the root has what is not reserved',
    ),
    # 0.2 and 0.3 of both CPUs, beside two deadline tasks of 0.4.
    'deadline-20': (
        'Device or resource busy',
        'both deadline tasks count on each CPU: 0.2 + 0.8 + 0.05 > 1',
    ),
    'deadline-30': (
        'Device or resource busy',
        'both deadline tasks count on each CPU: 0.3 + 0.8 + 0.05 > 1',
    ),
}

GUEST = {
    'GUEST_TOOLS': 'yes',
    'GUEST_MB': '1024',
    # Sixteen nanoseconds an instruction: the suite runs for many seconds.
    'GUEST_SHIFT': '4',
    'GUEST_TIMEOUT': '7200',
}


@dataclasses.dataclass(frozen=True)
class Result:
    """What a test said.

    :ivar verdict: 'passed', 'failed', 'skipped' or, of a program that was
        ended by the time limit, 'nothing'
    :ivar reason: what it said of it
    """

    verdict: str
    reason: str = ''


def parse(lines: Iterable[str]) -> dict[str, Result]:
    """Read a guest's log.

    :returns: test -> result; a program with several tests has one for each
    """
    found: dict[str, Result] = {}
    name = test = ''
    for line in lines:
        words = line.split()
        if line.startswith('SUITE '):
            name = test = words[1]
            # A program that only sets something up says nothing if it did.
            quiet = name.startswith('setup.')
            found[name] = Result('passed' if quiet else 'nothing')
        elif not line.startswith('| ') or not name:
            continue
        elif match := re.search(
            r'\[\w+\] (\S+): (Success|Failure|Skipped)', line
        ):
            if name.endswith('.all'):
                found.pop(name, None)
                test = f'{name.removesuffix("all")}{match[1]}'
            word = {'Success': 'passed', 'Failure': 'failed'}
            found[test] = Result(word.get(match[2], 'skipped'))
        elif match := re.match(r'\| +Reason: (.*)', line):
            found[test] = dataclasses.replace(found[test], reason=match[1])
        elif line.startswith('| Error: '):
            found[test] = Result('failed', line.removeprefix('| Error: '))
    return found


def explain(
    results: Mapping[str, Result],
    differences: Mapping[str, tuple[str, str]],
) -> dict[str, str]:
    """Say why tests did not pass.

    :returns: test -> why, for those that are not as the table says
    """
    bad = {}
    for test, result in results.items():
        expected, _ = differences.get(test, ('', ''))
        if result.verdict == 'skipped':
            continue
        if (result.verdict == 'passed') == bool(expected):
            bad[test] = f'{result.verdict}: {result.reason}'
        elif expected and expected not in result.reason:
            bad[test] = f'failed for another reason: {result.reason}'
    for test in differences.keys() - results.keys():
        bad[test] = 'did not run'
    return bad


def pack(installed: pathlib.Path, archive: pathlib.Path) -> None:
    """Make the archive that the guest has beside its own."""
    with tempfile.TemporaryDirectory(dir=WORK) as name:
        root = pathlib.Path(name)
        place = root / 'root' / 'test_suite'
        place.mkdir(parents=True)
        for program in PROGRAMS:
            shutil.copy(installed / program, place)
        subprocess.run(
            [
                *'gcc -O2 -Wall -Wextra -Werror -static -o'.split(),
                root / 'root' / 'shim',
                KERNEL / 'tests' / 'suite' / 'shim.c',
            ],
            check=True,
        )
        names = '\n'.join(
            str(path.relative_to(root)) for path in sorted(root.rglob('*'))
        )
        packed = subprocess.run(
            ['cpio', '-o', '-H', 'newc', '--quiet'],
            cwd=root,
            input=names.encode(),
            check=True,
            stdout=subprocess.PIPE,
        ).stdout
        archive.write_bytes(gzip.compress(packed, 1))


def run(
    kernel: str, archive: pathlib.Path, pattern: str
) -> tuple[list[str], bool]:
    """Run the tests on one of the kernels.

    :returns: the log, and whether the guest's run was good
    """
    image = subprocess.run(
        [SCRIPTS / 'build.sh', kernel],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout.strip()
    log = LOGS / f'suite-{kernel}.log'
    log.unlink(missing_ok=True)
    code = subprocess.run(
        [SCRIPTS / 'guest.sh', image, f'script:suite:{pattern}', '2', log],
        check=False,
        env=os.environ | GUEST | {'GUEST_MORE': str(archive)},
    ).returncode
    text = log.read_text(errors='replace') if log.exists() else ''
    return text.replace('\r', '').splitlines(), code == 0


def show(base: Mapping[str, Result], hcbs: Mapping[str, Result]) -> None:
    """Print the table."""
    print(f'{"test":<38} {"unpatched":<9} {"series":<9} what the series said')
    for test, result in hcbs.items():
        without = base.get(test, Result('-')).verdict
        why = DIFFERENCES.get(test, ('', ''))[1]
        said = f'{result.reason} ({why})' if why else result.reason
        print(f'{test:<38} {without:<9} {result.verdict:<9} {said}'.rstrip())
    for name, results in (('unpatched', base), ('series', hcbs)):
        counts = collections.Counter(r.verdict for r in results.values())
        print(name, ', '.join(f'{n} {word}' for word, n in counts.items()))


def main() -> int:
    """Run both, show both, judge one."""
    pattern = sys.argv[1] if len(sys.argv) > 1 else '*'
    directory = os.environ.get('HCBS_SUITE', '')
    installed = pathlib.Path(directory or '.') / 'test_suite'
    if not directory or not all((installed / p).exists() for p in PROGRAMS):
        print(
            'suite: skipped: HCBS_SUITE is not a directory in which '
            'HCBS-Test-Suite is installed'
        )
        return NO_SUITE
    LOGS.mkdir(parents=True, exist_ok=True)
    archive = WORK / f'suite-{os.getpid()}.cpio.gz'
    try:
        pack(installed, archive)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            runs = [
                pool.submit(run, k, archive, pattern) for k in ('base', 'hcbs')
            ]
        (base, _), (hcbs, good) = (one.result() for one in runs)
    finally:
        archive.unlink(missing_ok=True)
    results = parse(hcbs)
    show(parse(base), results)
    expected = {
        test: why
        for test, why in DIFFERENCES.items()
        if fnmatch.fnmatch(test, pattern) or test.startswith('setup.')
    }
    bad = explain(results, expected)
    for test, why in bad.items():
        print(f'FAIL {test}: {why}')
    if not good:
        print(f'FAIL the guest, see {LOGS / "suite-hcbs.log"}')
    return bool(bad) or not good


if __name__ == '__main__':
    sys.exit(main())
