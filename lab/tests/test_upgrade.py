# SPDX-License-Identifier: Apache-2.0
"""Servers run while nova_rt becomes a newer version, and an older one again.

The older version is made of the same sources, or of a revision of git::

    python -m lab exec env NOVA_RT_TEST_UPGRADE_FROM=v1.0.0 \\
        stestr --test-path=./lab/tests run --serial test_upgrade
"""

import contextlib
import os
import pathlib
import subprocess

from lab import edition, process, services
from lab.tests import watched
from lab.tests.reports import ETC

FROM = os.environ.get('NOVA_RT_TEST_UPGRADE_FROM', '')
OLDER = '0.0.1'
#: Services that have nova_rt in them, in the order in which they are started.
OURS = (
    'nova-conductor', 'nova-scheduler', 'nova-rt-conductor', 'nova-api',
    'nova-compute', 'nova-rt-exporter',
)  # fmt: skip
#: An idle helper ends after a minute.
HELPERS_S = 180


class UpgradeTest(watched.WatchedTestCase):
    """Stop, install, ``db sync``, start; and back."""

    def setUp(self):
        super().setUp()
        self.newer = edition.installed()
        self.older = edition.make(edition.build(OLDER, FROM))
        self.addCleanup(self.switch, self.newer)

    def test_upgrade_and_back(self):
        self.switch(self.older)
        self.assert_runs(self.older)
        servers = [self.create(self.flavor_name) for _ in range(2)]
        for server in servers:
            self.keep(server)
        before = self.state(servers)
        for version in (self.newer, self.older):
            self.switch(version)
            self.assert_runs(version)
            for server in servers:
                self.assert_same(server)
            self.assertEqual(before, self.state(servers))
            another = self.create(self.flavor_name)
            self.assert_same(another)
            self.delete(another)
            self.assert_audited()
            self.wait_for(
                lambda: self.state(servers) == before, 'it is not the same'
            )
            self.counts['upgrades'] += 1
            print(f'  runs {version.version}: the same', flush=True)

    def switch(self, version):
        """Stop the services, and start them as another version."""
        table = services.table()
        wanted = [version.put_in(table[name]) for name in OURS]
        for each in reversed(wanted):
            each.stop()
        version.permit()
        files = [ETC / 'nova.conf', ETC / 'nova-rt-conductor.conf']
        subprocess.run(
            [
                version.program('nova-rt-manage'),
                *(f'--config-file={file}' for file in files),
                'db', 'sync',
            ],
            check=True,
        )  # fmt: skip
        for each in wanted:
            each.ensure()
        self.compute_up(version.put_in(table[watched.COMPUTE]))

    def assert_runs(self, version):
        """The services are of this version, and so are their helpers."""
        # Those of another host, which is not upgraded, end when they are idle.
        self.wait_for(
            lambda: find_helpers(version.prefix) == (True, False),
            f'there are other helpers than those of {version.prefix}',
            HELPERS_S,
        )

    def state(self, servers):
        """Return all that has to be the same afterwards."""
        return {
            server.id: (
                self.record(server).encode(),
                self.allocations(server),
                self.container(server).pid,
                str(self.container(server).held()),
            )
            for server in servers
        } | {'stats': self.stats()}


def find_helpers(prefix):
    """Look whether helpers of nova_rt run from here, and from elsewhere."""
    found = {
        f'{prefix}/bin/' in line
        for line in commands()
        if 'privsep-helper' in line and 'nova_rt' in line
    }
    return True in found, False in found


def commands():
    """Return the command lines of all processes."""
    found = []
    for pid in process.pids():
        with contextlib.suppress(OSError):
            text = pathlib.Path(f'/proc/{pid}/cmdline').read_text()
            found.append(text.replace('\0', ' '))
    return found
