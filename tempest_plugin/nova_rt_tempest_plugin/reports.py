# SPDX-License-Identifier: Apache-2.0
"""Reports of nova_rt itself on servers: its database and its exporter."""

import json
import re
import shlex
from typing import Any
import urllib.request

from tempest import config

from nova_rt_tempest_plugin.hosts import transport

CONF = config.CONF

_SAMPLE = re.compile(r'(\w+)(?:\{(.*)\})? (\S+)')
_LABEL = re.compile(r'(\w+)="([^"]*)"')


def manage(*words: str) -> Any:
    """Run nova-rt-manage; return its output, read from JSON.

    :returns: None if it refuses, because it does not know a server say
    """
    line = f'{CONF.nova_rt.manage_command} {shlex.join(words)} -f json'
    try:
        return json.loads(transport.manage_host().shell(line))
    except transport.HostError:
        return None


def samples(host: transport.Host) -> dict[tuple[str, frozenset], float]:
    """Read the exporter of a host.

    :returns: name of the metric and its labels -> value
    """
    url = CONF.nova_rt.exporter_url.replace('{host}', host.address)
    with urllib.request.urlopen(url, timeout=30) as answer:
        text = answer.read().decode()
    found = {}
    for line in text.splitlines():
        match = _SAMPLE.fullmatch(line)
        if match is not None:
            name, labels, value = match.groups()
            pairs = frozenset(_LABEL.findall(labels or ''))
            found[name, pairs] = float(value)
    return found


def of_server(host: transport.Host, server: str) -> dict[str, Any]:
    """Read the metrics of one server from the exporter of a host.

    :returns: name of the metric -> value, or CPU -> value where the metric
        is of each CPU
    """
    found: dict[str, Any] = {}
    for (name, pairs), value in samples(host).items():
        labels = dict(pairs)
        if labels.pop('server', None) != server:
            continue
        if 'cpu' in labels:
            found.setdefault(name, {})[int(labels['cpu'])] = value
        else:
            found[name] = value
    return found


def of_cpus(host: transport.Host, name: str) -> dict[int, float]:
    """Read a metric of each CPU of a host.

    :param name: of the metric, ``nova_rt_host_cpu_free_ratio`` say
    """
    return {
        int(dict(pairs)['cpu']): value
        for (found, pairs), value in samples(host).items()
        if found == name and set(dict(pairs)) == {'cpu'}
    }


def history(server: str) -> list[str]:
    """Return the events of a server's reservation, in order."""
    rows = manage('server', 'history', server) or []
    return [row['Event'] for row in reversed(rows)]
