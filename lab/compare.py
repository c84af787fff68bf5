# SPDX-License-Identifier: Apache-2.0
"""Tempest's own tests under nova-rt-compute and stock nova-compute, compared.

Servers of ordinary flavors must behave the same under both: every test must
end in the same way, except that ours may pass where the stock one fails. With
real-time flavors, which are ours alone, every test must pass or skip. Runs
inside the lab's namespaces.
"""

import json
import pathlib
import subprocess
import time
from typing import Any

from openstack.compute.v2.server import Server
from openstack.connection import Connection
import subunit
import testtools

from lab import catalog, cloud, paths, service, tempest
from lab.console import LabError, say

MODULES = ('test_create_server', 'test_server_actions', 'test_servers')
REGEX = (
    r'^tempest\.api\.compute\.'
    rf'(servers\.({"|".join(MODULES)})|admin\.test_migrations)\.'
)
# What libvirt-LXC can do of them; fewer means that something did not run.
AT_LEAST = 40
# One at a time: Nova detaches the loop device of a container twice, and the
# second time it may be the device of a server that is being started.
WORKERS = 1
OURS, STOCK = 'nova-rt-compute', 'nova-compute'

_GONE_S = 60


def run(regex: str, workers: int, at_least: int, rt: bool = False) -> int:
    """Run the tests under each compute, print and save the outcomes.

    :param regex: which tests.
    :param at_least: how many must have passed each time, so as to say
        something.
    :param rt: with real-time flavors, under our compute alone.
    :return: 1 when a test failed under ours, or the outcomes differ and ours
        is not the better one, or too few passed.
    :raises LabError: when there are servers: stock nova-compute would not keep
        their reservations.
    """
    connection = catalog.connect()
    there = [found.name for found in _servers(connection)]
    if there:
        raise LabError(f'delete the servers first: {", ".join(there)}')
    outcomes = {}
    flavors = tempest.RT_FLAVORS if rt else tempest.PLAIN_FLAVORS
    for name in (OURS,) if rt else (OURS, STOCK):
        cloud.up_inside(stock_compute=name == STOCK)
        _clean(connection)
        tempest.write(connection, flavors)
        outcomes[name] = _run(name, regex, workers)
    _clean(connection)
    cloud.up_inside(False)
    return report(outcomes, at_least, 'tempest-rt' if rt else 'tempest')


def _run(name: str, regex: str, workers: int) -> dict[str, str]:
    say(f'tempest under {name}: starting')
    stream = paths.RESULTS / f'tempest-{name}.subunit'
    stream.parent.mkdir(parents=True, exist_ok=True)
    log = paths.LOG / f'tempest-{name}.log'
    command = [*tempest.command([f'--regex={regex}'], workers), '--subunit']
    began = time.monotonic()
    with stream.open('wb') as output, log.open('ab') as errors:
        subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env=service.base_environment(),
            cwd=tempest.WORKSPACE,
            check=False,
        )
    found = _read(stream)
    say(
        f'tempest under {name}: {_counts(found)}, '
        f'{time.monotonic() - began:.0f} s'
    )
    if not found:
        raise LabError(f'tempest ran nothing under {name}', log)
    return found


def _read(stream: pathlib.Path) -> dict[str, str]:
    outcomes: dict[str, str] = {}

    def add(test: Any) -> None:
        # 'exists' is the listing that comes before a run.
        if test['status'] != 'exists':
            outcomes[test['id']] = test['status']

    result = testtools.StreamToDict(add)
    result.startTestRun()
    with stream.open('rb') as file:
        subunit.ByteStreamToStreamResult(file).run(result)
    result.stopTestRun()
    return outcomes


def _counts(outcomes: dict[str, str]) -> str:
    values = list(outcomes.values())
    return ', '.join(
        f'{values.count(status)} {status}' for status in sorted(set(values))
    )


def _servers(connection: Connection) -> list[Server]:
    return list(connection.compute.servers(all_projects=True))


def _clean(connection: Connection) -> None:
    # Tests clean up after themselves, failed ones not always.
    for server in _servers(connection):
        connection.compute.delete_server(server, ignore_missing=True)
    deadline = time.monotonic() + _GONE_S
    while _servers(connection):
        if time.monotonic() > deadline:
            raise LabError(
                f'servers are not deleted after {_GONE_S} s',
                paths.LOG / 'nova-compute.log',
            )
        time.sleep(0.5)


def report(
    outcomes: dict[str, dict[str, str]], at_least: int, name: str
) -> int:
    """Print the outcomes and save them.

    :param outcomes: compute -> test -> outcome
    :param name: of the files with the results
    :return: see :func:`run`.
    """
    tests = sorted(set().union(*outcomes.values()))
    rows = {
        test: [found.get(test, 'not run') for found in outcomes.values()]
        for test in tests
    }
    words = {test: _word(row) for test, row in rows.items()}
    passed = sum(set(row) == {'success'} for row in rows.values())
    lines = ['  '.join([*(f'{each:<15}' for each in outcomes), 'test'])]
    for test, row in rows.items():
        words_of_row = [*(f'{each:<15}' for each in row), words[test], test]
        lines.append('  '.join(filter(None, words_of_row)))
    found = {
        word.lower(): [test for test in tests if words[test] == word]
        for word in ('FAILED', 'DIFFERENT', 'BETTER')
    }
    counts = [f'{word}: {len(those)}' for word, those in found.items()]
    lines.append('; '.join([f'{len(tests)} tests; passed: {passed}', *counts]))
    text = '\n'.join([*lines, ''])
    (paths.RESULTS / f'{name}.txt').write_text(text)
    summary = {'outcomes': outcomes, 'tests': len(tests), 'passed': passed}
    (paths.RESULTS / f'{name}.json').write_text(
        json.dumps(summary | found, indent=2, sort_keys=True)
    )
    print(text, end='')
    print(f'saved in {paths.RESULTS}')
    if passed < at_least:
        print(f'only {passed} tests passed, at least {at_least} should')
    bad = found['failed'] or found['different'] or passed < at_least
    return 1 if bad else 0


def _word(row: list[str]) -> str:
    """Judge the outcomes of one test, ours first."""
    if row[0] == 'fail':
        return 'FAILED'
    if row == ['success', 'fail']:
        return 'BETTER'
    return '' if len(set(row)) == 1 else 'DIFFERENT'
