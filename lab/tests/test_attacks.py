# SPDX-License-Identifier: Apache-2.0
"""A container's root tries everything that lab/guest/attack.sh knows."""

import os
import pathlib
import subprocess

from lab.tests import base

SCRIPT = pathlib.Path(__file__).parents[1] / 'guest' / 'attack.sh'
LIMIT_S = 300

#: Attempts that must have been made, by a part of their names.
MUST = ('cpuset.cpus', 'sched_rt_runtime_us', 'mknod mem', 'load a module',
        'renice', 'unlimited real-time priority', 'kill -0')  # fmt: skip


class AttackTest(base.LabTestCase):
    # Attacker and victim are neighbors.
    on_first = True

    def test_everything_is_refused(self):
        victim = self.create('rt.small')
        attacker = self.create('rt.small')
        other = self.container(victim)
        found = self.container(attacker)
        # It would be root of the host; the script refuses to run there.
        uid_map = pathlib.Path('/proc', str(found.first_process()), 'uid_map')
        self.assertNotEqual('0', uid_map.read_text().split()[1])
        before = self._reservations(found, other)

        code, text = self._attack(found, other)
        print(text)
        lines = [line.split('\t') for line in text.splitlines()]
        tried = [line for line in lines if line[0] == 'breach']
        succeeded = [line for line in tried if line[2] == 'SUCCEEDED']
        self.assertEqual([], succeeded)
        self.assertEqual(0, code, text)
        refused = [line[1] for line in tried if line[2] == 'refused']
        for part in MUST:
            self.assertTrue(any(part in name for name in refused), part)

        self.assertEqual(before, self._reservations(found, other))
        for each in (found, other):
            self.assertEqual('20000/100000', str(each.held()))
            self.assert_real_time(each)

    @staticmethod
    def _reservations(*containers):
        return [(each.rt_files(), each.cpus()) for each in containers]

    def _attack(self, found, other):
        """Run the script as root of a container, in all its namespaces.

        With more than that root has: libvirt has dropped capabilities, which
        whoever enters the user namespace has.
        """
        # Made from inside: to the root of the host its files have no owner.
        self._enter(
            found,
            'cat >/tmp/attack.sh; chmod 755 /tmp/attack.sh',
            input=SCRIPT.read_text(),
            check=True,
        )
        groups = [path / 'cgroup.procs' for path in set(found._paths.values())]

        victim = f'{other.cgroup.parent.name}/{other.cgroup.name}'

        def join():
            for group in groups:
                group.write_text(str(os.getpid()))

        done = self._enter(
            found,
            f'exec /bin/sh /tmp/attack.sh {other.first_process()} {victim}',
            preexec_fn=join,
            timeout=LIMIT_S,
        )
        return done.returncode, done.stdout + done.stderr

    @staticmethod
    def _enter(found, command, check=False, **options):
        """Run a command of a shell as root of a container."""
        return subprocess.run(
            ['nsenter', '--target', str(found.first_process()), '--all',
             '--root', '--wd=/', '/bin/sh', '-c', command],
            capture_output=True, text=True, check=check, **options,
        )  # fmt: skip
