# SPDX-License-Identifier: Apache-2.0
"""Builds the Debian packages, and installs, upgrades and purges them.

The source package is built from the sdist, in a tree without network that
has the build dependencies of debian/control; lintian must not warn. The
packages are then installed on a machine with systemd, beside Debian's packages
of Nova. The states of services, the files that an administrator has changed,
and the remains of a purge are compared with the manual.
"""

from collections.abc import Iterable
import os
import pathlib
import platform
import re
import shutil
import time

from lab.console import LabError, say
from tools.gate.places import ROOT
from tools.install import node, standins, wheel
from tools.install.commands import RUN, Word, empty, run

LOG = RUN / 'packages.log'
WHERE = RUN / 'packages'
#: The stand-ins for Nova are modules of this machine's Python.
SUITE = platform.freedesktop_os_release()['VERSION_CODENAME']
#: Debian's packages to build with, beside those of python3-nova.
TO_BUILD = (
    'build-essential',
    'debhelper',
    'dh-python',
    'fakeroot',
    'lintian',
    'pybuild-plugin-pyproject',
    'python3-all',
    'python3-libvirt',
)
#: Dependencies of Nova's and our packages, and the servers of the conductor.
TO_INSTALL = (
    'dbconfig-common',
    'dbconfig-sqlite3',
    'libnss-systemd',
    'libvirt-daemon-driver-lxc',
    'libvirt-daemon-system',
    'logrotate',
    'lsb-base',
    'mariadb-server',
    'python3-libvirt',
    'rabbitmq-server',
    'sqlite3',
    'uwsgi-core',
    'uwsgi-plugin-python3',
)
#: Files that the servers of the machine write all the time, and the records of
#: dpkg, apt and systemd of what was installed when. Byte code of other modules
#: than ours: Debian's packages write it when they are installed, the stand-ins
#: do not. The cache of stevedore.
_CHURN = re.compile(
    r'(dev|proc|run|sys|tmp|var/tmp|var/cache/(apt|ldconfig|man)'
    r'|var/lib/(apt|dpkg|mysql|rabbitmq|systemd/(timers|catalog)|private)'
    r'|var/lib/logrotate|var/lib/libvirt|var/lib/nova'
    r'|var/log/(apt|journal|rabbitmq|mysql|libvirt|nova)'
    r'|etc/(ld\.so\.cache|mailcap|resolv\.conf))(/|$)'
    r'|var/log/[^/]+\.log$|srv/|root/\.cache/'
    r'|usr/lib/python3/dist-packages/(?!nova_rt)(.*/)?__pycache__/'
)
_NOVA_CONF = """\
[DEFAULT]
transport_url = rabbit://guest:guest@127.0.0.1:5672/
my_ip = 127.0.0.1
state_path = /var/lib/nova
[oslo_concurrency]
lock_path = /var/lib/nova/tmp
[nova_rt]
report = true
"""
_CONDUCTOR_CONF = """\
[DEFAULT]
transport_url = rabbit://guest:guest@127.0.0.1:5672/
[nova_rt_database]
connection = mysql+pymysql://nova_rt:secret@127.0.0.1/nova_rt
"""
_API_CONF = """\
[DEFAULT]
log_file = /var/log/nova/nova-rt-api.log
[api_database]
connection = sqlite:////var/lib/nova/nova_api.sqlite
[keystone_authtoken]
auth_type = password
auth_url = http://127.0.0.1:5000/
[nova_rt_database]
connection = mysql+pymysql://nova_rt:secret@127.0.0.1/nova_rt
"""
#: As the manual says, on a machine that has no kernel for it.
_COMPUTE_CONF = """\
[DEFAULT]
compute_driver = nova_rt.RTLibvirtDriver
[libvirt]
virt_type = lxc
"""
#: nova-compute is ready when a nova-conductor has answered. There is none
#: here, so systemd must not wait for it.
_NO_WAIT = """\
[Service]
Type=exec
"""
_DATABASE = """
mariadb -e "CREATE DATABASE nova_rt"
mariadb -e "CREATE USER nova_rt@localhost IDENTIFIED BY 'secret'"
mariadb -e "GRANT ALL ON nova_rt.* TO nova_rt@localhost"
"""
#: Checked once the packages are installed.
_INSTALLED = """
systemd-analyze verify --man=no nova-compute.service nova-scheduler.service \\
    nova-rt-api.service nova-rt-conductor.service nova-rt-exporter.service
visudo --check
test "$(stat -c %a:%U:%G /etc/sudoers.d/nova-rt)" = 440:root:root
test "$(stat -c %a:%U:%G /etc/nova/nova-rt-conductor.conf)" = 640:root:nova
test "$(stat -c %a:%U:%G /etc/nova/nova-rt-api.conf)" = 640:root:nova
/lib/systemd/systemd-sysctl --cat-config | grep sched_rt_runtime_us >/tmp/set
grep -x -- '-kernel.sched_rt_runtime_us = 900000' /tmp/set
test "$(wc -l </tmp/set)" = 1
nova-rt-manage --help >/dev/null
openstack rt reservation set --help >/dev/null
tempest list-plugins | grep -w nova_rt
"""
#: Nothing of it may print a line after a purge.
_LEFT = """
systemctl list-unit-files --no-legend 'nova-rt*' || true
systemctl list-units --all --no-legend 'nova-rt*' || true
ls /var/log/nova | grep nova-rt || true
ls -d /var/lib/nova/nova_rt 2>/dev/null || true
dpkg -l | grep nova-rt || true
"""
OURS = ('nova-rt-api', 'nova-rt-conductor', 'nova-rt-exporter')
#: Time that a service gets to come up on a slow machine, and time that it must
#: then run without a restart.
READY_S = 120
STEADY_S = 8


def upstream_version() -> tuple[str, str]:
    """The version of the changelog: all of it, and without the revision."""
    first = (ROOT / 'debian' / 'changelog').read_text().splitlines()[0]
    match = re.match(r'\S+ \(([^)]+)\)', first)
    assert match is not None
    return match[1], match[1].rpartition('-')[0]


def _source(target: pathlib.Path) -> pathlib.Path:
    """Unpack the sdist as Debian's source tree, with its archive beside it."""
    _, version = upstream_version()
    _, sdist = wheel.build(version.replace('~rc', '.0rc'))
    target.mkdir(parents=True)
    words: list[Word] = ['tar', '--directory', target, '--no-same-owner']
    run([*words, '--extract', '--file', sdist], LOG)
    (unpacked,) = target.iterdir()
    tree = target / f'nova-rt-{version}'
    unpacked.rename(tree)
    # debian/ is no part of the archive that Debian calls the original.
    words += ['--exclude', f'{tree.name}/debian', '--create', '--gzip']
    original = target / f'nova-rt_{version}.orig.tar.gz'
    run([*words, '--file', original, tree.name], LOG)
    # Files of an sdist have lost what git knows of them.
    (tree / 'debian' / 'rules').chmod(0o755)
    return tree


def build(modules: pathlib.Path) -> list[pathlib.Path]:
    """Build the packages and have lintian read them.

    :param modules: the directory of the stand-ins
    :returns: the packages
    """
    target = empty(WHERE / 'packages')
    (standin,) = modules.glob('python3-nova_*.deb')
    with node.machine('build', SUITE, TO_BUILD, LOG) as machine:
        place = machine.path('/srv/build')
        tree = _source(place)
        shutil.copy(standin, machine.path('/srv'))
        say('building the packages')
        machine.do(
            f'apt-get install -y /srv/{standin.name}\n'
            f'cd /srv/build/{tree.name}\n'
            'dpkg-buildpackage -us -uc\n'
            'cd ..\n'
            'lintian --allow-root --info --fail-on error,warning *.changes'
        )
        for file in filter(pathlib.Path.is_file, place.iterdir()):
            shutil.copy(file, target)
    found = sorted(target.glob('*.deb'))
    say(f'{len(found)} packages; lintian warns of nothing')
    return found


def next_version(
    packages: Iterable[pathlib.Path], target: pathlib.Path
) -> list[pathlib.Path]:
    """The same packages with a higher version and other configuration files.

    To dpkg that is an upgrade, without another build.
    """
    version, _ = upstream_version()
    for package in packages:
        tree = empty(WHERE / 'next' / package.name)
        run(['dpkg-deb', '--raw-extract', package, tree], LOG)
        control = tree / 'DEBIAN' / 'control'
        control.write_text(
            control.read_text().replace(version, f'{version}+next')
        )
        listed = tree / 'DEBIAN' / 'conffiles'
        names = listed.read_text().split() if listed.exists() else []
        for name in names:
            file = tree / name.lstrip('/')
            mode = file.stat().st_mode
            file.chmod(0o600)
            file.write_text(f'{file.read_text()}# The next version.\n')
            file.chmod(mode)
        words = ['dpkg-deb', '--root-owner-group', '-Zgzip', '--build']
        run([*words, tree, target], LOG)
    shutil.rmtree(WHERE / 'next')
    return sorted(target.glob('*+next_*.deb'))


class Test:
    """The life of the packages on one machine."""

    def __init__(
        self, machine: node.Host, packages: list[pathlib.Path]
    ) -> None:
        self.machine = machine
        self.etc = machine.path('/etc')
        self.packages = packages
        self.names = [package.name.partition('_')[0] for package in packages]
        self._stock_conf = ''

    def prepare(self, modules: pathlib.Path) -> None:
        """Install Nova, and give it the configuration of a small cloud."""
        policy = self.machine.path('/usr/sbin/policy-rc.d')
        policy.write_text('#!/bin/sh\nexit 101\n')
        policy.chmod(0o755)
        self._install(sorted(modules.glob('*.deb')))
        policy.unlink()
        (self.etc / 'nova/nova.conf').write_text(_NOVA_CONF)
        drop_in = self.etc / 'systemd/system/nova-compute.service.d/test.conf'
        drop_in.parent.mkdir()
        drop_in.write_text(_NO_WAIT)
        self.machine.do(
            f'{_DATABASE}\n'
            'systemctl daemon-reload; systemctl restart nova-compute'
        )
        self.await_steady('nova-compute', '/usr/bin/nova-compute')

    def _install(self, packages: list[pathlib.Path]) -> None:
        # The packages' own files answer what is asked about changed files:
        # keep what the administrator wrote, as dpkg proposes.
        place = self.machine.path('/srv/packages')
        place.mkdir(exist_ok=True)
        for package in packages:
            shutil.copy(package, place)
        self._apt('install', (f'/srv/packages/{p.name}' for p in packages))

    def _apt(self, action: str, names: Iterable[str]) -> None:
        self.machine.do(
            'export DEBIAN_FRONTEND=noninteractive\n'
            f'apt-get {action} -y --no-install-recommends {" ".join(names)}'
        )

    def state(self, unit: str, name: str) -> str:
        """A property of a unit, as systemd has it."""
        return self.machine.read(f'systemctl show --value -p {name} {unit}')

    def expect(self, unit: str, **wanted: str) -> None:
        """Check properties of a unit.

        :raises LabError: if one is not
        """
        for name, value in wanted.items():
            found = self.state(unit, name)
            if found != value:
                raise LabError(f'{unit}: {name} is {found}, not {value}')

    def await_steady(self, unit: str, program: str = '') -> None:
        """Wait until a service runs, and check that it goes on running.

        :param program: that it must run then
        :raises LabError: if it does not
        """
        deadline = time.monotonic() + READY_S
        while self.state(unit, 'ActiveState') != 'active':
            if time.monotonic() > deadline:
                self._explain(unit, 'does not come up')
            time.sleep(1)
        before = self.state(unit, 'MainPID')
        time.sleep(STEADY_S)
        if self.state(unit, 'ActiveState') != 'active':
            self._explain(unit, 'has stopped')
        if self.state(unit, 'MainPID') != before:
            self._explain(unit, 'was started anew')
        words = self.machine.read(f'tr "\\0" " " </proc/{before}/cmdline')
        if program and program not in words.split():
            raise LabError(f'{unit} runs {words}, not {program}')

    def _explain(self, unit: str, why: str) -> None:
        self.machine.run(
            f'systemctl status --no-pager {unit}\n'
            f'journalctl --no-pager -n 40 -u {unit}\n'
            'tail -n 20 /var/log/nova/*.log'
        )
        raise LabError(f'{unit} {why}')

    def starts(self, unit: str, program: str) -> None:
        """Check which program systemd starts for a unit."""
        found = self.state(unit, 'ExecStart')
        if f'path={program} ' not in found:
            raise LabError(f'{unit} starts {found}, not {program}')

    def install(self) -> None:
        """Install, and see which services run."""
        before = self.state('nova-compute', 'MainPID')
        self._install(self.packages)
        self.expect('nova-compute', MainPID=before)
        self.expect('nova-rt-exporter', UnitFileState='enabled')
        self.await_steady('nova-rt-exporter')
        for unit in ('nova-rt-api', 'nova-rt-conductor'):
            self.expect(unit, UnitFileState='disabled', ActiveState='inactive')
        for name in ('compute', 'scheduler'):
            self.starts(f'nova-{name}', f'/usr/bin/nova-rt-{name}')
            self.expect(f'nova-{name}', NeedDaemonReload='no')
        self.machine.do(_INSTALLED)
        # 1: there is no database of Nova, so no flavors to look at.
        said = self.machine.read(
            'code=0; nova-rt-status upgrade check || code=$?\ntest $code -le 1'
        )
        if 'Failure' in said:
            raise LabError(f'nova-rt-status upgrade check:\n{said}')
        say('installed: exporter runs, others wait, drop-ins in force')

    def configure(self) -> None:
        """Follow the manual: configure and start the other services."""
        nova = self.etc / 'nova'
        (nova / 'nova-rt-conductor.conf').write_text(_CONDUCTOR_CONF)
        (nova / 'nova-rt-api.conf').write_text(_API_CONF)
        self._stock_conf = (nova / 'nova-compute.conf').read_text()
        (nova / 'nova-compute.conf').write_text(_COMPUTE_CONF)
        self.machine.do(
            'nova-rt-manage --config-file /etc/nova/nova-rt-conductor.conf'
            ' db sync\n'
            'systemctl enable --now nova-rt-conductor nova-rt-api\n'
            'systemctl restart nova-compute'
        )
        for unit in ('nova-rt-conductor', 'nova-rt-api'):
            self.await_steady(unit)
        self.await_steady('nova-compute', '/usr/bin/nova-rt-compute')
        self.fetch('http://127.0.0.1:8798/v1/openapi.json', '"openapi"')
        self.fetch('http://127.0.0.1:9839/metrics', 'nova_rt_up{')
        mode = self.machine.read('stat -c %a:%U /var/log/nova')
        say(f'configured: conductor and API run; /var/log/nova is {mode}')

    def fetch(self, url: str, word: str) -> None:
        """Require that a service answers with a word.

        :raises LabError: if it does not
        """
        said = self.machine.read(
            "python3 -c 'import urllib.request as r;"
            f'print(r.urlopen("{url}").read().decode())'
            "'"
        )
        if word not in said:
            raise LabError(f'{url} answers:\n{said}')

    def upgrade(self, packages: list[pathlib.Path]) -> None:
        """Upgrade over a file that was changed, and one that was not."""
        before = {
            unit: self.state(unit, 'MainPID')
            for unit in ('nova-compute', *OURS)
        }
        self._install(packages)
        kept = self.etc / 'nova/nova-rt-conductor.conf'
        if kept.read_text() != _CONDUCTOR_CONF:
            raise LabError(f'the upgrade replaced {kept.name}')
        rules = self.etc / 'sudoers.d/nova-rt'
        if 'The next version' not in rules.read_text():
            raise LabError(f'the upgrade kept {rules}, unchanged as it was')
        for unit, pid in before.items():
            self.await_steady(unit)
            if self.state(unit, 'MainPID') == pid:
                raise LabError(f'the upgrade did not restart {unit}')
        say(
            'upgraded: changed files kept, others replaced, services restarted'
        )

    def remove(self) -> None:
        """Remove without purging: Nova's own programs are back."""
        (self.etc / 'nova/nova-compute.conf').write_text(self._stock_conf)
        self._apt('remove', self.names)
        for name in ('compute', 'scheduler'):
            self.starts(f'nova-{name}', f'/etc/init.d/nova-{name}')
        self.await_steady('nova-compute', '/usr/bin/nova-compute')
        for unit in OURS:
            self.expect(unit, ActiveState='inactive')
        if not (self.etc / 'nova/nova-rt-conductor.conf').exists():
            raise LabError('removing took the configuration, too')
        say("removed: Nova's programs are back, configuration is kept")

    def purge(self) -> None:
        """Purge, and check that no unit is left."""
        # Not by apt: it does not know packages of which nothing is left.
        self.machine.do(f'dpkg --purge {" ".join(self.names)}')
        if left := self.machine.read(_LEFT):
            raise LabError(f'a purge leaves behind:\n{left}')


def command() -> None:
    """Build the packages and follow their life on a machine.

    :raises LabError: if anything is not as the manual says
    """
    if os.geteuid():
        raise LabError('this needs root: run make as root or by sudo')
    empty(WHERE)
    modules = standins.packages(LOG)
    packages = build(modules)
    upgraded = next_version(packages, empty(WHERE / 'upgrade'))
    with node.machine('packages', SUITE, TO_INSTALL, LOG) as machine:
        test = Test(machine, packages)
        test.prepare(modules)
        say('a machine with Nova runs')
        top = machine.path('/')
        before = node.snapshot(top, _CHURN)
        test.install()
        test.configure()
        test.upgrade(upgraded)
        test.remove()
        test.purge()
        lines = node.differences(before, node.snapshot(top, _CHURN))
        if lines:
            raise LabError('\n'.join(['a purge leaves traces:', *lines]))
        say(f'purged: {len(before)} files as before')
