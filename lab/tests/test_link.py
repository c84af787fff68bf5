# SPDX-License-Identifier: Apache-2.0
"""The cloud holds a server's link to a rate, beside its CPU."""

import json
import socket
import subprocess
import sys
import time

from lab import paths
from lab.measure import container
from lab.tests import base

RATE_KBPS = 8_000
QUESTION = (
    'reservation', '--rate=400/s', '--service-time=1ms', '--deadline=100ms',
    '--percentile=99', '--link=8Mbit', '--request-size=1KiB',
)  # fmt: skip
#: Traffic that is sent, as a multiple of the rate.
FLOOD = 5
FLOOD_S = 2
#: Seconds in which what a server may have in one burst is used up.
BURST_S = 0.5
_DISCARD = 9
_DATA = bytes(1000)


class LinkTest(base.LabTestCase):
    """A flood, and the part of it that comes to the container."""

    def test_commands_of_the_model(self):
        commands = _commands()
        policy = commands.split('\n')[0].split()[-1]
        # After the server, whose port has it.
        self.addCleanup(self.delete_policy, policy)
        server = self.create(base.PLAIN, network=True)
        ip = self.probe(server).ip
        found = self.container(server)
        self.assertLess(2 * RATE_KBPS, _received_kbps(found, ip))

        (port,) = self.cloud.network.ports(device_id=server.id)
        subprocess.run(
            ['sh', '-e', '-c', commands.replace('PORT', port.id)], check=True
        )
        # The switch hears of it a moment later.
        self.wait_for(
            lambda: _received_kbps(found, ip) < 1.5 * RATE_KBPS,
            'the link is not held',
        )
        held = _received_kbps(found, ip)
        self.assertAlmostEqual(RATE_KBPS, held, delta=RATE_KBPS * 0.1)

        subprocess.run(
            ['openstack', 'port', 'unset', '--qos-policy', port.id], check=True
        )
        self.wait_for(
            lambda: _received_kbps(found, ip) > 2 * RATE_KBPS,
            'the link is held for ever',
        )

    def delete_policy(self, name):
        """Delete a policy, if it is there."""
        found = self.cloud.network.find_qos_policy(name)
        if found:
            self.cloud.network.delete_qos_policy(found)


def _commands():
    """Those that nova-rt-model prints."""
    done = subprocess.run(
        [sys.executable, '-m', 'nova_rt.cmd.model.app', *QUESTION, '-f',
         'json'],
        cwd=paths.CHECKOUT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)['Link']


def _received_kbps(found, ip):
    """Send a flood; return at which rate it comes to a container."""
    with socket.socket(type=socket.SOCK_DGRAM) as sender:
        sender.connect((ip, _DISCARD))
        _send(sender, BURST_S)
        began, before = time.monotonic(), _received(found)
        _send(sender, FLOOD_S)
        bits = 8 * (_received(found) - before)
        return bits / (time.monotonic() - began) / 1000


def _send(sender, seconds):
    began, sent = time.monotonic(), 0
    while (passed := time.monotonic() - began) < seconds:
        if 8 * sent > FLOOD * RATE_KBPS * 1000 * passed:
            time.sleep(0.001)
            continue
        try:
            sender.send(_DATA)
        except ConnectionRefusedError:
            # Nobody listens: the answer to an earlier one.
            pass
        sent += len(_DATA)


def _received(found):
    """Bytes that came to the network interface so far."""
    file = container.PROC / str(found.first_process()) / 'net' / 'dev'
    for line in file.read_text().splitlines():
        name, _, numbers = line.partition(':')
        if name.strip() == 'eth0':
            return int(numbers.split()[0])
    raise AssertionError('the container has no eth0')
