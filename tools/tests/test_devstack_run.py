# SPDX-License-Identifier: Apache-2.0
"""tools/devstack-run and tools/container.sh: what needs no container."""

import dataclasses
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from lab import paths
from tools.devstack_run import (
    cli,
    inside,
    machine,
    mirrors,
    picture,
    places,
    results,
    server,
    steps,
)
from tools.devstack_run.machine import RunError

TOOLS = paths.CHECKOUT / 'tools'
STACKED = results.Result(
    'stack', '2026-01-02 03:04:05', 890.4, 0, '', {'nova': '33.0.0.dev1'}
)


class DirectoryTest(unittest.TestCase):
    """A test with a directory of its own."""

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)


class ResultsTest(DirectoryTest):
    """Results that are kept of a step."""

    def test_kept_and_read(self):
        path = self.directory / 'deep' / 'results.jsonl'
        self.assertEqual([], results.read(path))
        failed = results.Result('server', 'now', 1.5, 1, 'no "bandwidth"')
        for found in (STACKED, failed):
            results.append(path, found)
        self.assertEqual([STACKED, failed], results.read(path))

    def test_last_run(self):
        prepared = dataclasses.replace(STACKED, step='prepare')
        kept = [prepared, STACKED, prepared, STACKED, STACKED]
        self.assertEqual(kept[2:], results.last_run(kept))
        self.assertEqual([STACKED], results.last_run([STACKED]))

    def test_table(self):
        failed = results.Result('leftovers', 'now', 3, 1, '2 things are left')
        text = results.table([STACKED, failed])
        self.assertRegex(text, r'(?m)^stack +2026-01-02 03:04:05 +890 s +0$')
        self.assertRegex(text, r'(?m)^leftovers .* 1  2 things are left$')
        self.assertIn('stack:\n  nova: 33.0.0.dev1', text)


class CommandLineTest(DirectoryTest):
    """Words of the command line, and the steps that they mean."""

    def test_all_ends_with_a_second_stack(self):
        chosen = cli.chosen(['all'])
        self.assertEqual(2, chosen.count('stack'))
        self.assertLess(chosen.index('leftovers'), len(chosen) - 3)
        self.assertEqual('down', chosen[-1])
        self.assertLessEqual(set(chosen), set(steps.STEPS))

    def test_steps(self):
        self.assertEqual(['up', 'stack'], cli.chosen(['up', 'stack']))
        self.assertEqual(
            ['exec', 'ls', 'up'], cli.chosen(['exec', 'ls', 'up'])
        )

    def test_refused(self):
        for words in (
            [],
            ['exec'],
            ['stak'],
            ['up', 'all'],
            ['up', 'summary'],
        ):
            with self.subTest(words), self.assertRaises(RunError):
                cli.chosen(words)

    def test_program(self):
        for words, code in (([], 2), (['stak'], 2), (['--help'], 0)):
            done = subprocess.run(
                [sys.executable, TOOLS / 'devstack-run', *words],
                capture_output=True,
                check=False,
            )
            self.assertEqual(code, done.returncode, done)

    def run_with(self, fates):
        """Run steps of which each ends as said; return the code and ran."""
        ran = []

        def run(name, options):
            ran.append(name)
            return dataclasses.replace(STACKED, step=name, exit=fates[name])

        with (
            mock.patch.object(cli, 'run_step', run),
            mock.patch('builtins.print'),
        ):
            return cli.run_all(fates, mock.Mock()), ran

    def test_failed_test_does_not_keep_the_rest_from_running(self):
        fates = {'stack': 0, 'tempest': 1, 'unstack': 0}
        self.assertEqual((1, list(fates)), self.run_with(fates))

    def test_nothing_after_a_failed_stack(self):
        self.assertEqual(
            (1, ['up', 'stack']),
            self.run_with({'up': 0, 'stack': 1, 'server': 0}),
        )

    def test_step_is_kept(self):
        options = mock.Mock(regex='x', workers=1, set=[])
        with (
            mock.patch.multiple(
                places,
                LOG=self.directory,
                RESULTS=self.directory / 'results.jsonl',
            ),
            mock.patch.dict(
                steps.STEPS,
                good=mock.Mock(return_value={'a': 1}),
                bad=mock.Mock(side_effect=RunError('why')),
            ),
            mock.patch('builtins.print'),
        ):
            for name in ('good', 'bad'):
                cli.run_step(name, options)
            good, bad = results.read(places.RESULTS)
        self.assertEqual((0, '', {'a': 1}), (good.exit, good.note, good.facts))
        self.assertEqual((1, 'why'), (bad.exit, bad.note))


class MirrorsTest(DirectoryTest):
    """Repositories, wherever they are."""

    def repository(self, path, *words):
        path = self.directory / path
        path.mkdir(parents=True)
        subprocess.run(['git', 'init', '-q', *words, path], check=True)
        return path

    def commit(self, checkout):
        subprocess.run(
            [
                *('git', '-C', checkout, '-c', 'user.name=x'),
                *('-c', 'user.email=x@example.org', 'commit', '-q'),
                *('--allow-empty', '-m', 'x'),
            ],
            check=True,
        )

    def test_find(self):
        for path, words, found in (
            ('a/openstack/nova.git', ['--bare'], ''),
            ('b/openstack/nova', [], '.git'),
            ('c/openstack/nova', ['--bare'], ''),
            ('d/openstack+nova/repo', ['--bare'], ''),
        ):
            made = self.repository(path, *words)
            base = str(self.directory / path[0])
            self.assertEqual(made / found, mirrors.find(base, 'nova'))

    def test_missing(self):
        with self.assertRaisesRegex(RunError, 'has no openstack/nova'):
            mirrors.find(str(self.directory), 'nova')

    def test_copy_of_a_partial_clone_can_be_cloned(self):
        checkout = self.repository('checkout')
        self.commit(checkout)
        source = checkout / '.git'
        promise = source / 'objects' / 'pack' / 'pack-1.promisor'
        promise.touch(0o600)
        target = self.directory / 'openstack' / 'nova.git'
        commit = mirrors.copy(source, target)
        self.assertFalse((target / promise.relative_to(source)).exists())
        subprocess.run(
            ['git', 'clone', '-q', target, self.directory / 'clone'],
            check=True,
        )
        self.assertEqual(
            commit,
            mirrors.git(
                self.directory / 'clone' / '.git', 'rev-parse', 'HEAD'
            ),
        )

    def test_checkout_is_followed(self):
        checkout = self.repository('checkout')
        target = self.directory / 'nova_rt.git'
        taken = []
        for _ in range(2):
            self.commit(checkout)
            taken.append(mirrors.take_checkout(checkout, target, 'branch'))
        self.assertEqual(
            taken[1], mirrors.git(checkout / '.git', 'rev-parse', 'HEAD')
        )
        self.assertFalse(mirrors.uncommitted(checkout))
        (checkout / 'file').touch()
        self.assertTrue(mirrors.uncommitted(checkout))

    def test_url(self):
        self.assertTrue(mirrors.is_url('https://example.org'))
        self.assertFalse(mirrors.is_url('/srv/git'))


class LocalConfTest(unittest.TestCase):
    """The local.conf that DevStack reads."""

    def test_filled_in(self):
        text = steps.local_conf('/srv/git', ['NOVA_RT_HINTS=deny'])
        localrc, _, rest = text.partition('[[post-config')
        self.assertIn('\nGIT_BASE=/srv/git\n', localrc)
        self.assertIn('\nNOVA_RT_HINTS=deny\n', localrc)
        self.assertIn(
            '\nenable_plugin nova_rt /srv/git/nova_rt.git checkout\n', localrc
        )
        self.assertNotRegex(localrc.replace('@NAME@', ''), '@[A-Z]+@')
        self.assertIn('ovs_create_tap', rest)

    def test_refused_without_repositories(self):
        options = steps.Options(pathlib.Path('/x'), '', '', 1, [])
        with self.assertRaisesRegex(RunError, 'GIT_BASE is not set'):
            steps.prepare(options)


class PictureTest(DirectoryTest):
    """Leftovers of ours, and what is not ours."""

    def take(self, **answers):
        return picture.Picture(dict(picture.walk(self.directory)), answers)

    def left(self, before, **answers):
        return picture.left(before, self.take(**answers), self.directory)

    def test_nothing(self):
        (self.directory / 'etc').mkdir()
        (self.directory / 'etc' / 'nova_rt.conf').touch()
        before = self.take(units=['nova-rt-x enabled'])
        self.assertEqual([], self.left(before, units=['nova-rt-x enabled']))

    def test_marked_files(self):
        etc = self.directory / 'etc'
        etc.mkdir()
        (etc / 'hosts').write_text('localhost')
        before = self.take()
        (etc / 'hosts').write_text('localhost nova-rt')
        (etc / 'nova_rt.conf').touch()
        (etc / 'x.conf').write_text('options nbd\ninstall nbd /bin/true\n')
        (etc / 'link').symlink_to('/opt/stack/nova_rt/bin')
        (etc / 'mysql.conf').write_text('nothing of ours')
        self.assertEqual(
            [
                'changed file /etc/hosts: its text has nova-rt',
                'new file /etc/link: its target has nova_rt',
                'new file /etc/nova_rt.conf: its name has nova_rt',
                'new file /etc/x.conf: its text has install nbd',
            ],
            self.left(before),
        )

    def test_gone(self):
        for name in ('etc', 'usr'):
            (self.directory / name).mkdir()
            (self.directory / name / 'file').touch()
        before = self.take()
        for name in ('etc', 'usr'):
            (self.directory / name / 'file').unlink()
        self.assertEqual(['file that is gone: /etc/file'], self.left(before))

    def test_ignored(self):
        before = self.take()
        stack = self.directory / 'opt' / 'stack' / 'nova_rt'
        stack.mkdir(parents=True)
        self.assertEqual([], self.left(before))

    def test_packaged(self):
        info = self.directory / 'var' / 'lib' / 'dpkg' / 'info'
        info.mkdir(parents=True)
        before = self.take()
        (info / 'x.list').write_text('/.\n/etc/nova_rt\n/lib/nova_rt\n')
        for name in ('etc', 'usr', 'usr/lib'):
            (self.directory / name).mkdir()
            if name != 'usr':
                (self.directory / name / 'nova_rt').touch()
        (self.directory / 'etc' / 'other').touch()
        self.assertEqual(
            ['new file /etc/nova_rt: its name has nova_rt'], self.left(before)
        )
        self.assertEqual(
            ['etc/other'],
            picture.others(before, self.take(), self.directory),
        )

    def test_answers(self):
        before = self.take(packages=['a'], diversions=[])
        self.assertEqual(
            ['packages: nova-rt-tools', 'diversions: of anything'],
            self.left(
                before,
                packages=['a', 'mariadb', 'nova-rt-tools'],
                diversions=['of anything'],
            ),
        )

    def test_strict_questions_are_asked(self):
        self.assertLessEqual(set(picture.STRICT), set(picture.QUESTIONS))

    def test_kept_and_read(self):
        path = self.directory / 'before.json'
        with self.assertRaisesRegex(RunError, 'nobody has looked'):
            picture.read(path)
        taken = self.take(units=['x'])
        picture.write(path, taken)
        self.assertEqual(taken, picture.read(path))


class MachineTest(DirectoryTest):
    """Text that goes to the container, and text read from logs."""

    def test_quoted(self):
        text = 'it\'s "one" $HOME\nword'
        done = subprocess.run(
            ['bash', '-c', f'printf %s {machine.quoted(text)}'],
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertEqual(text, done.stdout)

    def test_last_line(self):
        log = self.directory / 'log'
        log.write_text('')
        self.assertEqual('', machine.last_line(log))
        log.write_text('x\n' * 5000 + 'the last\n \n')
        self.assertEqual('the last', machine.last_line(log))


class ServerTest(unittest.TestCase):
    """Judgement of whether a server is as its flavor says."""

    def kernel(self, **changes):
        process = {
            'name': 'init',
            'policy': 'SCHED_RR',
            'priority': 1,
            'root is': server.CONTAINER_ROOT,
        } | changes.pop('process', {})
        return {
            'runtime_us': server.RUNTIME_US,
            'period_us': server.PERIOD_US,
            'cpus': '1',
            'processes': [process],
        } | changes

    def test_good(self):
        facts = server.judge(self.kernel())
        self.assertEqual('20000/100000', facts['kernel holds'])
        self.assertEqual('1, all SCHED_RR', facts['processes'])

    def test_bad(self):
        for changes, why in (
            ({'runtime_us': 0}, 'the kernel holds'),
            ({'processes': []}, 'no process'),
            ({'process': {'policy': os.SCHED_OTHER}}, 'not real-time'),
            ({'process': {'root is': 0}}, 'its root is not'),
        ):
            with self.subTest(why), self.assertRaisesRegex(RunError, why):
                server.judge(self.kernel(**changes))

    def test_groups(self):
        text = (
            '3:cpuset:/machine/lxc-1\n2:cpu,cpuacct:/machine/lxc-1\n'
            '1:name=systemd:/system.slice\n0::/system.slice\n'
        )
        self.assertEqual(
            {
                'cpuset': '/sys/fs/cgroup/cpuset/machine/lxc-1',
                'cpu': '/sys/fs/cgroup/cpu/machine/lxc-1',
                'cpuacct': '/sys/fs/cgroup/cpuacct/machine/lxc-1',
            },
            inside.groups(text),
        )

    def test_counts(self):
        text = 'Totals\n======\nRan: 3 tests\n - Passed: 2\n - Skipped: 0\n'
        text += ' - Expected Fail: 0\n - Unexpected Success: 0\n - Failed: 1\n'
        found = steps.counts(text)
        self.assertEqual((2, 1), (found['Passed'], found['Failed']))
        self.assertEqual(5, len(found))


class ContainerTest(DirectoryTest):
    """Refusals of tools/container.sh before it does anything."""

    def run_it(self, *words):
        return subprocess.run(
            [TOOLS / 'container.sh', *words],
            env=os.environ | {'NOVA_RT_LAB': str(self.directory)},
            capture_output=True,
            text=True,
            check=False,
        )

    def test_usage(self):
        for words in ((), ('up',), ('dance', 'name')):
            done = self.run_it(*words)
            if os.geteuid() == 0 or len(words) < 2:
                self.assertEqual(2, done.returncode, done)
                self.assertIn('container.sh exec NAME', done.stderr)

    def test_names(self):
        for name in ('../x', 'X', '', '-x'):
            done = self.run_it('down', name)
            self.assertEqual(1, done.returncode)
            self.assertIn('a name has small letters', done.stderr)

    @unittest.skipIf(os.geteuid(), 'root can')
    def test_what_does_not_run(self):
        self.assertEqual(3, self.run_it('status', 'nobody').returncode)
        self.assertEqual(0, self.run_it('down', 'nobody').returncode)
        for words in (('exec', 'nobody', 'ls'), ('rt', 'nobody', '1000')):
            done = self.run_it(*words)
            self.assertIn('nobody does not run', done.stderr)
            self.assertEqual(1, done.returncode)
        done = self.run_it('up', 'nobody', str(self.directory / 'no'))
        self.assertIn('there is no tree', done.stderr)
        done = self.run_it('make', str(self.directory))
        self.assertIn('exists', done.stderr)
        self.assertEqual([], list(self.directory.iterdir()))
