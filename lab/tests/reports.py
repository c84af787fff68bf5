# SPDX-License-Identifier: Apache-2.0
"""The tools of an operator: nova-rt-manage and Prometheus."""

import json
import subprocess
import urllib.parse
import urllib.request

from lab import paths

ETC = paths.ETC / 'nova'
FILES = ('nova.conf', 'nova-database.conf', 'nova-rt-conductor.conf')


def run_manage(*words):
    """Run nova-rt-manage with output in JSON."""
    return subprocess.run(
        [
            paths.VENV / 'bin' / 'nova-rt-manage',
            *(f'--config-file={ETC / name}' for name in FILES),
            *words, '-f', 'json',
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def manage(*words):
    """Run nova-rt-manage; its exit code, and what it says as JSON."""
    done = run_manage(*words)
    try:
        return done.returncode, json.loads(done.stdout)
    except ValueError as err:
        raise AssertionError(f'{words}: {done.stdout}{done.stderr}') from err


def query(expression):
    """Ask Prometheus: the value of each series, by its labels."""
    url = 'http://127.0.0.1:9090/api/v1/query?query='
    with urllib.request.urlopen(url + urllib.parse.quote(expression)) as found:
        result = json.load(found)['data']['result']
    return {
        frozenset(each['metric'].items()): float(each['value'][1])
        for each in result
    }
