# SPDX-License-Identifier: Apache-2.0
"""nova-compute runs as in production: as a user, with helpers by sudo."""

import pathlib
import resource
import stat
import subprocess

from lab import accounts, paths, services, world
from lab.tests import base

_PROC = pathlib.Path('/proc')
_AS_NOVA = ('setpriv', '--reuid=nova', '--regid=nova', '--init-groups')
_ID = 64060
# linux/capability.h
_CAPABILITIES = {
    'CAP_CHOWN': 0,
    'CAP_DAC_OVERRIDE': 1,
    'CAP_DAC_READ_SEARCH': 2,
    'CAP_FOWNER': 3,
    'CAP_SETGID': 6,
    'CAP_SETUID': 7,
    'CAP_NET_ADMIN': 12,
    'CAP_SYS_PTRACE': 19,
    'CAP_SYS_ADMIN': 21,
    'CAP_SYS_NICE': 23,
    'CAP_SYS_RESOURCE': 24,
    'CAP_AUDIT_WRITE': 29,
}


def status(pid):
    """Return the fields of /proc/PID/status."""
    lines = (_PROC / str(pid) / 'status').read_text().splitlines()
    return {
        key: value.strip()
        for key, _, value in (x.partition(':') for x in lines)
    }


def helpers():
    """Return the processes of the privileged helpers, by their context."""
    found = {}
    for directory in _PROC.iterdir():
        if not directory.name.isdigit():
            continue
        try:
            words = (directory / 'cmdline').read_text().split('\0')
        except (FileNotFoundError, ProcessLookupError):
            continue
        if f'{paths.VENV}/bin/privsep-helper' in words:
            context = words[words.index('--privsep_context') + 1]
            found[context] = int(directory.name), words
    return found


class PrivilegesTest(base.LabTestCase):
    """The processes of nova-compute, and the rights of its user."""

    on_first = True

    def test_service(self):
        running = services.table()['nova-compute'].running()
        found = status(running.pid)
        self.assertEqual([str(_ID)] * 4, found['Uid'].split())
        self.assertEqual([str(_ID)] * 4, found['Gid'].split())
        self.assertEqual(0, int(found['CapEff'], 16))
        self.assertEqual('0', found['NoNewPrivs'])
        limits = (_PROC / str(running.pid) / 'limits').read_text()
        # As many as the machine allows, if those are less.
        most = min(65535, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        self.assertRegex(limits, rf'Max open files +{most} +{most} ')
        words = (_PROC / str(running.pid) / 'cmdline').read_text().split('\0')
        self.assertEqual(2, words.count('--config-file'))

    def test_helpers(self):
        self.create('rt.tiny', network=True)
        found = helpers()
        # One for each thing that starting a server takes.
        self.assertLessEqual(
            {
                'nova_rt.privsep.rt_pctxt',
                'nova_rt.privsep.mount_pctxt',
                'nova.privsep.sys_admin_pctxt',
                'vif_plug_ovs.privsep.vif_plug',
            },
            set(found),
        )
        bounding = sum(
            1 << _CAPABILITIES[name] for name in services.UNIT.capabilities
        )
        # Without what the machine itself has not.
        bounding &= int(status('self')['CapBnd'], 16)
        for context, (pid, words) in found.items():
            with self.subTest(context):
                self.assertEqual('0', status(pid)['Uid'].split()[0])
                self.assertEqual(bounding, int(status(pid)['CapBnd'], 16))
                self.assertEqual(2, words.count('--config-file'))
        ours, _ = found['nova_rt.privsep.rt_pctxt']
        allowed = sum(
            1 << _CAPABILITIES[name]
            for name in ('CAP_CHOWN', 'CAP_DAC_OVERRIDE', 'CAP_SYS_NICE')
        )
        self.assertEqual(0, int(status(ours)['CapEff'], 16) & ~allowed)

    def _as_nova(self, *words):
        return subprocess.run(
            [*_AS_NOVA, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def test_sudo_permits_nothing_else(self):
        helper = f'{paths.VENV}/bin/privsep-helper'
        for words in (
            ('id',),
            (helper,),
            (helper, '--privsep_context', 'nova_rt.privsep.rt_pctxt'),
            (f'{paths.VENV}/bin/nova-rootwrap', '/dev/null', 'id'),
        ):
            with self.subTest(words):
                answer = self._as_nova('sudo', '-n', *words)
                self.assertNotEqual(0, answer.returncode, answer.stdout)
                self.assertIn('a password is required', answer.stderr)

    def test_files(self):
        etc = paths.ETC / 'nova'
        for name in ('nova.conf', 'nova-compute.conf'):
            found = (etc / name).stat()
            self.assertEqual((0, _ID), (found.st_uid, found.st_gid))
            self.assertEqual(0o640, stat.S_IMODE(found.st_mode))
        # Nor can it put another file in its place.
        self.assertNotEqual(0, self._as_nova('test', '-w', etc).returncode)
        for secret in (etc / 'nova-database.conf', paths.OPENRC):
            answer = self._as_nova('cat', secret)
            self.assertIn('Permission denied', answer.stderr)
        self.assertEqual(_ID, world.INSTANCES.stat().st_uid)

    def test_machine_has_no_part_in_it(self):
        # The lab's own files: what the machine has is of another mount.
        for name in ('passwd', 'group', 'sudoers'):
            self.assertTrue(
                pathlib.Path(f'/etc/{name}').samefile(paths.ETC / name)
            )
        self.assertIn(accounts.USER, pathlib.Path('/etc/passwd').read_text())
