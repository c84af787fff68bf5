# SPDX-License-Identifier: Apache-2.0
"""A real-time server on DevStack, as Nova, kernel and metrics see it."""

from collections.abc import Callable
import json
import pathlib
import shlex
import time
from typing import Any

from lab.console import LabError, say
from tools.devstack_run import machine, places

NAME = 'devstack-run'
FLAVOR = 'rt.small'
RUNTIME_US, PERIOD_US = 20_000, 100_000
#: NOVA_RT_ID_BASE of the plug-in's settings, which the only server has.
CONTAINER_ROOT = 2_000_224_256
EXPORTER = 'http://127.0.0.1:9839/metrics'
PROMETHEUS = 'http://127.0.0.1:9095/api/v1/query'
#: Metrics are read every few seconds, reports are sent later still.
SEEN_S = 90
INSIDE = pathlib.Path(__file__).parent / 'inside.py'
_CLIENT = 'export OS_CLOUD=devstack-admin PATH=/opt/stack/data/venv/bin:$PATH;'
_MANAGE = (
    '/opt/stack/data/venv/bin/nova-rt-manage --config-file '
    '/etc/nova/nova.conf --config-file /etc/nova/nova-rt-conductor.conf'
)


def check(log: pathlib.Path) -> dict[str, Any]:
    """Boot a server of the plug-in's flavor, look at it, delete it.

    :raises LabError: if it is not as its flavor says, or leaves its group
    """
    began = time.monotonic()
    server = _boot()
    facts: dict[str, Any] = {
        'ACTIVE after, s': round(time.monotonic() - began)
    }
    try:
        kernel = look(server)
        log.write_text(json.dumps([server, kernel], indent=2) + '\n')
        facts |= judge(kernel)
        facts |= _addresses(server)
        facts |= _seen(server['id'])
    finally:
        _delete(server['id'])
    _gone(kernel['groups'])
    facts['after delete'] = 'its groups are gone'
    return facts


def _boot() -> dict[str, Any]:
    try:
        return openstack(
            'server create --image rt-busybox --network private --wait '
            f'--flavor {FLAVOR} {NAME}'
        )
    except LabError as error:
        try:
            fault = openstack(f'server show {NAME}').get('fault')
            _delete(NAME)
        except LabError:
            raise error from None
        raise LabError(f'the server does not start: {fault}') from error


def _delete(server: str) -> None:
    ask_client(f'openstack server delete --wait {server}')


def look(server: dict[str, Any]) -> dict[str, Any]:
    """Return the reservation of a server in the container's kernel."""
    name = server['OS-EXT-SRV-ATTR:instance_name']
    found: dict[str, Any] = json.loads(
        machine.ask(f'python3 - {name}', text=INSIDE.read_text())
    )
    return found


def judge(kernel: dict[str, Any]) -> dict[str, Any]:
    """Compare the kernel with the flavor, and sum it up.

    :raises LabError: if it is not the same
    """
    held = kernel['runtime_us'], kernel['period_us']
    if held != (RUNTIME_US, PERIOD_US):
        raise LabError(
            f'the kernel holds {held}, not {RUNTIME_US}/{PERIOD_US}'
        )
    if not kernel['processes']:
        raise LabError('the container has no process')
    for found in kernel['processes']:
        if found['policy'] != 'SCHED_RR':
            raise LabError(f'not real-time: {found}')
        if found['root is'] != CONTAINER_ROOT:
            raise LabError(f'its root is not {CONTAINER_ROOT}: {found}')
    return {
        'kernel holds': f'{held[0]}/{held[1]}',
        'on CPUs': kernel['cpus'],
        'processes': f'{len(kernel["processes"])}, all SCHED_RR',
        'their root is': CONTAINER_ROOT,
    }


def _addresses(server: dict[str, Any]) -> dict[str, Any]:
    # DHCP of OVN has answered if the guest knows its own address.
    addresses = [a for each in server['addresses'].values() for a in each]
    return {'addresses': ', '.join(map(str, addresses))}


def _seen(uuid: str) -> dict[str, Any]:
    """Wait until exporter, Prometheus and database know of a server."""
    wanted = f'nova_rt_server_cpu_reserved_ratio{{server="{uuid}"}}'
    views: dict[str, Callable[[], bool]] = {
        'exporter': lambda: uuid in machine.ask(f'curl -sf {EXPORTER}'),
        'Prometheus': lambda: (
            uuid
            in machine.ask(
                f'curl -sf -G {PROMETHEUS} --data-urlencode '
                f'{shlex.quote("query=" + wanted)}'
            )
        ),
        'nova-rt-manage': lambda: (
            f'{RUNTIME_US}/{PERIOD_US}'
            in machine.ask(f'{_MANAGE} server show {uuid}', places.USER)
        ),
    }
    return {
        f'seen by {name} after, s': wait_for(name, view)
        for name, view in views.items()
    }


def wait_for(name: str, view: Callable[[], bool]) -> int:
    """Wait until something is so, and return the seconds that it took.

    :raises LabError: if it never is
    """
    began = time.monotonic()
    why = 'it does not say so'
    while (passed := time.monotonic() - began) < SEEN_S:
        try:
            if view():
                say(f'  {name}: yes')
                return round(passed)
        except LabError as error:
            why = str(error)
        time.sleep(1)
    raise LabError(f'{name}, after {SEEN_S} s: {why}')


def _gone(groups: list[str]) -> None:
    left = ' '.join(groups)
    wait_for(
        'groups are gone',
        lambda: not machine.ask(f'ls -d {left} 2>/dev/null || true').strip(),
    )


def openstack(words: str) -> dict[str, Any]:
    """Run a command of OpenStack's client and return its answer."""
    text = ask_client(f'openstack {words} -f json')
    # With --wait it prints an empty line first.
    found: dict[str, Any] = json.loads(text[text.index('{') :])
    return found


def ask_client(script: str) -> str:
    """Return the output of a script with OpenStack's client, as admin."""
    return machine.ask(_CLIENT + script, places.USER)
