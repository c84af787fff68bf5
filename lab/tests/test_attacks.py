# SPDX-License-Identifier: Apache-2.0
"""A container's root tries everything that lab/guest/attack.sh knows."""

import collections
import contextlib
import os
import pathlib
import subprocess
import threading

from lab.tests import base

SCRIPT = pathlib.Path(__file__).parents[1] / 'guest' / 'attack.sh'
LIMIT_S = 600

#: Attempts that must have been refused, by a part of their names.
REFUSED = ('cpuset.cpus', 'cpu.rt', 'mkdir in', 'join by',
        'sched_rt_runtime_us', 'mknod mem', 'renice',
        'unlimited real-time priority')  # fmt: skip


class AttackTest(base.LabTestCase):
    # Attackers and victims are neighbors.
    on_first = True

    def test_from_a_real_time_server(self):
        self._refused('rt.small')

    def test_from_a_plain_server(self):
        self._refused('plain.small')

    def _refused(self, flavor):
        """Attack a real-time server, a plain one, and one that restarts."""
        victim = self.create('rt.small')
        plain = self.create(base.PLAIN)
        restarting = self.create('rt.small')
        found = self.container(self.create(flavor))
        others = [self.container(each) for each in (victim, plain)]
        # It would be root of the host; the script refuses to run there.
        uid_map = pathlib.Path('/proc', str(found.first_process()), 'uid_map')
        self.assertNotEqual('0', uid_map.read_text().split()[1])
        before = self._reservations(found, *others)

        with self._restarts(restarting) as restarts:
            code, text = self._attack(found, others[0])
        results = self._results(text)
        print(text)
        print({word: len(names) for word, names in results.items()}, restarts)
        self.assertEqual(0, code, text)
        self.assertFalse(results['SUCCEEDED'] | results['UNCLEAR'])
        for part in (*REFUSED, others[0].cgroup.name, others[1].cgroup.name):
            self.assertTrue(
                any(part in name for name in results['refused']), part
            )
        # The number of another's process names none here.
        self.assertIn(
            f'kill -0 {others[0].first_process()}', results['unseen']
        )
        # A kernel without modules does not get as far as to refuse.
        self.assertIn('load a module', results['refused'] | results['absent'])
        self.assertLess(0, sum(restarts.values()))
        self.assertEqual(before, self._reservations(found, *others))
        for each in (self.container(restarting), others[0]):
            self.assertEqual('20000/100000', str(each.held()))
            self.assert_real_time(each)

    @contextlib.contextmanager
    def _restarts(self, server):
        """Restart a server again and again meanwhile; count that."""
        counts = collections.Counter()
        over = threading.Event()

        def restart():
            while not over.is_set():
                self.cloud.compute.reboot_server(server, 'HARD')
                self.reach(server, 'ACTIVE')
                counts['restarts'] += 1

        thread = threading.Thread(target=restart)
        thread.start()
        try:
            yield counts
        finally:
            over.set()
            thread.join()

    @staticmethod
    def _results(text):
        """Names of the attempts, by their results."""
        found = collections.defaultdict(set)
        for line in text.splitlines():
            kind, *rest = line.split('\t')
            if kind == 'breach':
                found[rest[1]].add(rest[0])
        return found

    @staticmethod
    def _reservations(*containers):
        return [(each.rt_files(), each.cpus()) for each in containers]

    def _attack(self, found, other):
        """Run the script as root of a container, in all its namespaces.

        With more than that root has: libvirt has dropped capabilities, which
        a process has that enters the user namespace.
        """
        self._enter(
            found,
            'cat >/tmp/attack.sh; chmod 755 /tmp/attack.sh',
            # Made from inside: to the root of the host its files have no
            # owner.
            input=SCRIPT.read_text(),
            check=True,
        )
        groups = [path / 'cgroup.procs' for path in set(found._paths.values())]

        def join():
            for group in groups:
                group.write_text(str(os.getpid()))

        done = self._enter(
            found,
            f'exec /bin/sh /tmp/attack.sh {other.first_process()} '
            f'{other.cgroup.parent.name}',
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
