# SPDX-License-Identifier: Apache-2.0
"""Tempest under nova-rt-compute and under stock nova-compute, compared.

Servers of ordinary flavors must behave the same under both: every test must
end in the same way. Runs inside the lab's namespaces.
"""

import importlib.util
import json
import pathlib
import string
import subprocess
import time
from typing import Any

from openstack.compute.v2.server import Server
from openstack.connection import Connection
import subunit
import testtools

from lab import catalog, cloud, config, paths, service
from lab.console import LabError, say

MODULES = ('test_create_server', 'test_server_actions', 'test_servers')
REGEX = rf'^tempest\.api\.compute\.servers\.({"|".join(MODULES)})\.'
# What libvirt-LXC can do of them; fewer means that something did not run.
AT_LEAST = 37
# One at a time: Nova detaches the loop device of a container twice, and the
# second time it may be the device of a server that is being started.
WORKERS = 1
COMPUTES = {'nova-rt-compute': False, 'nova-compute': True}

_WORKSPACE = paths.VAR / 'tempest'
_GONE_S = 60
_STESTR = """[DEFAULT]
test_path={tempest}/test_discover
top_dir={top}
"""


def run(regex: str, workers: int, at_least: int) -> int:
    """Run the tests twice, print and save the comparison.

    :param regex: which tests.
    :param at_least: how many of them must have run, so as to say something.
    :return: 1 when the outcomes differ, a test failed or too few ran.
    :raises LabError: when there are servers: stock nova-compute would not keep
        their reservations.
    """
    connection = catalog.connect()
    there = [found.name for found in _servers(connection)]
    if there:
        raise LabError(f'delete the servers first: {", ".join(there)}')
    outcomes = {}
    for name, stock in COMPUTES.items():
        cloud.up_inside(stock)
        _clean(connection)
        _write_workspace(connection)
        outcomes[name] = _run(name, regex, workers)
    _clean(connection)
    cloud.up_inside(False)
    return _report(outcomes, at_least)


def _write_workspace(connection: Connection) -> None:
    (_WORKSPACE / 'locks').mkdir(parents=True, exist_ok=True)
    image = connection.image.find_image(catalog.IMAGE, ignore_missing=False)
    network = connection.network.find_network(
        catalog.NETWORK, ignore_missing=False
    )
    template = string.Template((paths.TEMPLATES / 'tempest.conf').read_text())
    config.put(
        _WORKSPACE / 'tempest.conf',
        template.substitute(
            workspace=_WORKSPACE,
            password=config.PASSWORD,
            image=image.id,
            network=catalog.NETWORK,
            network_id=network.id,
        ),
        0o600,
    )
    spec = importlib.util.find_spec('tempest')
    if spec is None or spec.origin is None:
        raise LabError(f'tempest is not installed in {paths.VENV}')
    tempest = pathlib.Path(spec.origin).parent
    config.put(
        _WORKSPACE / '.stestr.conf',
        _STESTR.format(tempest=tempest, top=tempest.parent),
    )


def _run(name: str, regex: str, workers: int) -> dict[str, str]:
    say(f'tempest under {name}: starting')
    stream = paths.RESULTS / f'tempest-{name}.subunit'
    stream.parent.mkdir(parents=True, exist_ok=True)
    log = paths.LOG / f'tempest-{name}.log'
    command = [
        f'{paths.VENV}/bin/tempest',
        'run',
        f'--config-file={_WORKSPACE}/tempest.conf',
        f'--regex={regex}',
        f'--concurrency={workers}',
        '--subunit',
    ]
    began = time.monotonic()
    with stream.open('wb') as output, log.open('ab') as errors:
        subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env=service.base_environment(),
            cwd=_WORKSPACE,
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


def _report(outcomes: dict[str, dict[str, str]], at_least: int) -> int:
    ours, stock = (outcomes[name] for name in COMPUTES)
    rows = [
        (test, ours.get(test, 'not run'), stock.get(test, 'not run'))
        for test in sorted(ours | stock)
    ]
    different = [row for row in rows if row[1] != row[2]]
    failed = [row for row in rows if 'fail' in row[1:]]
    run = sum(
        1 for _, *both in rows if not {'skip', 'not run'}.intersection(both)
    )
    table = '\n'.join(
        f'{one:<10} {two:<10} {"" if one == two else "DIFFERENT "}{test}'
        for test, one, two in rows
    )
    names = '{:<10} {:<10} test'.format('ours', 'stock')
    summary = (
        f'{len(rows)} tests; run under both: {run}; different: '
        f'{len(different)}; failed: {len(failed)}'
    )
    text = f'{names}\n{table}\n{summary}\n'
    (paths.RESULTS / 'tempest.txt').write_text(text)
    (paths.RESULTS / 'tempest.json').write_text(
        json.dumps(
            {
                'outcomes': outcomes,
                'tests': len(rows),
                'run': run,
                'different': [row[0] for row in different],
                'failed': [row[0] for row in failed],
            },
            indent=2,
            sort_keys=True,
        )
    )
    print(text, end='')
    print(f'saved in {paths.RESULTS}')
    if run < at_least:
        print(f'only {run} tests ran, at least {at_least} should')
    return 1 if different or failed or run < at_least else 0
