# SPDX-License-Identifier: Apache-2.0
"""Builds the Debian packages, and installs, upgrades and purges them.

The source package is built from the sdist, in a tree without network that
has the build dependencies of debian/control; lintian must not warn. The
packages are then installed on a machine with systemd, beside Debian's packages
of Nova. The states of services, the files that an administrator has changed,
and the remains of a purge are compared with the manual.
"""

from collections.abc import Iterable
import dataclasses
import hashlib
import os
import pathlib
import re
import shutil
import sys
import time

from tools.install import standins, trees
from tools.install.commands import (
    ROOT,
    RUN,
    Failed,
    Word,
    copy_checkout,
    empty,
    run,
    say,
)

LOG = RUN / 'packages.log'
WHERE = RUN / 'packages'
SOURCE = 'nova-rt'
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
#: Time that a service gets to come up on a slow machine, and time that it must
#: then run without a restart.
READY_S = 120
STEADY_S = 8


@dataclasses.dataclass(frozen=True)
class File:
    """The properties of a file that are compared."""

    mode: int
    owner: tuple[int, int]
    content: str


def files(root: pathlib.Path) -> dict[str, File]:
    """Return the content of a tree, but for files that always change."""
    found = {}
    for top, directories, names in os.walk(root):
        where = pathlib.Path(top)
        directories[:] = [
            name
            for name in directories
            if not _CHURN.match(f'{(where / name).relative_to(root)}/')
        ]
        for name in (*directories, *names):
            path = where / name
            relative = str(path.relative_to(root))
            if _CHURN.match(relative):
                continue
            about = path.lstat()
            content = ''
            if path.is_symlink():
                content = os.readlink(path)
            elif path.is_file():
                content = hashlib.sha256(path.read_bytes()).hexdigest()
            found[relative] = File(
                about.st_mode, (about.st_uid, about.st_gid), content
            )
    return found


def changes(before: dict[str, File], after: dict[str, File]) -> list[str]:
    """The differences of two states of a tree, a line for each file."""
    lines = []
    for name in sorted(before.keys() | after.keys()):
        if name not in before:
            lines.append(f'left behind: /{name}')
        elif name not in after:
            lines.append(f'gone: /{name}')
        elif before[name] != after[name]:
            lines.append(f'changed: /{name}')
    return lines


def upstream_version() -> tuple[str, str]:
    """The version of the changelog: all of it, and without the revision."""
    first = (ROOT / 'debian' / 'changelog').read_text().splitlines()[0]
    match = re.match(r'\S+ \(([^)]+)\)', first)
    assert match is not None
    return match[1], match[1].rpartition('-')[0]


def _source(target: pathlib.Path) -> pathlib.Path:
    """Unpack the sdist as Debian's source tree, with its archive beside it."""
    _, version = upstream_version()
    checkout = empty(WHERE / 'checkout')
    copy_checkout(checkout)
    dist = WHERE / 'dist'
    run(
        [
            sys.executable,
            *('-m', 'build', '--no-isolation', '--sdist'),
            *('--outdir', dist, checkout),
        ],
        LOG,
        environment={'PBR_VERSION': version.replace('~rc', '.0rc')},
    )
    (sdist,) = dist.glob('*.tar.gz')
    target.mkdir(parents=True)
    words: list[Word] = ['tar', '--directory', target, '--no-same-owner']
    run([*words, '--extract', '--file', sdist], LOG)
    (unpacked,) = target.iterdir()
    tree = target / f'{SOURCE}-{version}'
    unpacked.rename(tree)
    # debian/ is no part of the archive that Debian calls the original.
    debian = (target / 'debian', tree / 'debian')
    debian[1].rename(debian[0])
    name = f'{SOURCE}_{version}.orig.tar.gz'
    words += ['--create', '--gzip', '--file', target / name]
    run([*words, tree.name], LOG)
    debian[0].rename(debian[1])
    # Files of an sdist have lost what git knows of them.
    (tree / 'debian' / 'rules').chmod(0o755)
    return tree


def build(modules: pathlib.Path) -> list[pathlib.Path]:
    """Build the packages and have lintian read them.

    :param modules: the directory of the stand-ins
    :returns: the packages
    """
    root = trees.fresh('build', TO_BUILD, LOG)
    tree = _source(root / 'srv' / 'build')
    (standin,) = modules.glob('python3-nova_*.deb')
    shutil.copy(standin, root / 'srv')
    trees.inside(root, f'apt-get install -y /srv/{standin.name}', LOG)
    say('building the packages')
    trees.inside(
        root,
        f'cd /srv/build/{tree.name} && dpkg-buildpackage -us -uc',
        LOG,
    )
    trees.inside(
        root,
        'cd /srv/build && '
        'lintian --allow-root --info --fail-on error,warning *.changes',
        LOG,
    )
    target = empty(WHERE / 'packages')
    for file in sorted((root / 'srv' / 'build').glob('*.*')):
        if file.is_file():
            shutil.copy(file, target)
    trees.remove(root)
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
        self, machine: trees.Machine, packages: list[pathlib.Path]
    ) -> None:
        self.machine = machine
        self.packages = packages
        self.names = [package.name.partition('_')[0] for package in packages]
        self._stock_conf = ''

    def prepare(self, modules: pathlib.Path) -> None:
        """Install Nova, and give it the configuration of a small cloud."""
        root = self.machine.root
        place = root / 'srv' / 'packages'
        shutil.copytree(modules, place, dirs_exist_ok=True)
        policy = root / 'usr' / 'sbin' / 'policy-rc.d'
        policy.write_text('#!/bin/sh\nexit 101\n')
        policy.chmod(0o755)
        self._apt('install', place.glob('*.deb'))
        policy.unlink()
        (root / 'etc/nova/nova.conf').write_text(_NOVA_CONF)
        drop_in = root / 'etc/systemd/system/nova-compute.service.d/test.conf'
        drop_in.parent.mkdir()
        drop_in.write_text(_NO_WAIT)
        self.machine.run(_DATABASE, LOG)
        self.machine.run(
            'systemctl daemon-reload; systemctl restart nova-compute', LOG
        )
        self.await_steady('nova-compute')
        self.is_running('nova-compute', '/usr/bin/nova-compute')

    def _apt(self, action: str, names: Iterable[pathlib.Path | str]) -> None:
        # The packages' own files answer what is asked about changed files:
        # keep what the administrator wrote, as dpkg proposes.
        words = ' '.join(
            f'/srv/packages/{name.name}'
            if isinstance(name, pathlib.Path)
            else name
            for name in names
        )
        self.machine.run(
            'export DEBIAN_FRONTEND=noninteractive\n'
            f'apt-get {action} -y --no-install-recommends {words}',
            LOG,
        )

    def state(self, unit: str, name: str) -> str:
        """A property of a unit, as systemd has it."""
        return self.machine.read(
            f'systemctl show --value -p {name} {unit}'
        ).strip()

    def expect(self, unit: str, **wanted: str) -> None:
        """Check properties of a unit.

        :raises Failed: if one is not
        """
        for name, value in wanted.items():
            found = self.state(unit, name)
            if found != value:
                raise Failed(f'{unit}: {name} is {found}, not {value}')

    def await_steady(self, unit: str) -> None:
        """Wait until a service runs, and check that it goes on running.

        :raises Failed: if it does not
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

    def _explain(self, unit: str, why: str) -> None:
        self.machine.run(
            f'systemctl status --no-pager {unit} || true\n'
            f'journalctl --no-pager -n 40 -u {unit} || true\n'
            f'tail -n 20 /var/log/nova/*.log || true',
            LOG,
        )
        raise Failed(f'{unit} {why}', LOG)

    def runs(self, unit: str, program: str) -> None:
        """See which program systemd starts for a unit."""
        found = self.state(unit, 'ExecStart')
        if f'path={program} ' not in found:
            raise Failed(f'{unit} starts {found}, not {program}')

    def is_running(self, unit: str, program: str) -> str:
        """See which program a unit runs now.

        :returns: its process
        """
        pid = self.state(unit, 'MainPID')
        words = self.machine.read(f'tr "\\0" " " </proc/{pid}/cmdline').split()
        if program not in words:
            raise Failed(f'{unit} runs {" ".join(words)}, not {program}')
        return pid

    def install(self) -> None:
        """Install, and see which services run."""
        place = self.machine.root / 'srv' / 'packages'
        for package in self.packages:
            shutil.copy(package, place)
        before = self.state('nova-compute', 'MainPID')
        self._apt('install', self.packages)
        self.expect('nova-compute', MainPID=before)
        self.expect('nova-rt-exporter', UnitFileState='enabled')
        self.await_steady('nova-rt-exporter')
        for unit in ('nova-rt-api', 'nova-rt-conductor'):
            self.expect(unit, UnitFileState='disabled', ActiveState='inactive')
        for name in ('compute', 'scheduler'):
            self.runs(f'nova-{name}', f'/usr/bin/nova-rt-{name}')
            self.expect(f'nova-{name}', NeedDaemonReload='no')
        self.machine.run(
            'systemd-analyze verify --man=no nova-compute.service'
            ' nova-scheduler.service nova-rt-api.service'
            ' nova-rt-conductor.service nova-rt-exporter.service\n'
            'visudo --check\n'
            'test "$(stat -c %a:%U:%G /etc/sudoers.d/nova-rt)"'
            ' = 440:root:root\n'
            'test "$(stat -c %a:%U:%G /etc/nova/nova-rt-conductor.conf)"'
            ' = 640:root:nova\n'
            'test "$(stat -c %a:%U:%G /etc/nova/nova-rt-api.conf)"'
            ' = 640:root:nova\n'
            'test "$(/lib/systemd/systemd-sysctl --cat-config |'
            ' grep sched_rt_runtime_us)"'
            ' = "-kernel.sched_rt_runtime_us = 900000"\n'
            'nova-rt-manage --help >/dev/null\n'
            'openstack rt reservation set --help >/dev/null\n'
            'tempest list-plugins | grep -w nova_rt',
            LOG,
        )
        self._check()
        say('installed: exporter runs, others wait, drop-ins in force')

    def _check(self) -> None:
        # 1: there is no database of Nova, so no flavors to look at.
        said = self.machine.read(
            'code=0; nova-rt-status upgrade check || code=$?\ntest $code -le 1'
        )
        if 'Failure' in said:
            raise Failed(f'nova-rt-status upgrade check:\n{said}')

    def configure(self) -> None:
        """Follow the manual: configure and start the other services."""
        conf = self.machine.root / 'etc/nova/nova-rt-conductor.conf'
        conf.write_text(_CONDUCTOR_CONF)
        self.machine.run(
            'nova-rt-manage --config-file /etc/nova/nova-rt-conductor.conf'
            ' db sync\n'
            'systemctl enable --now nova-rt-conductor',
            LOG,
        )
        self.await_steady('nova-rt-conductor')
        conf.with_name('nova-rt-api.conf').write_text(_API_CONF)
        self.machine.run('systemctl enable --now nova-rt-api', LOG)
        self.await_steady('nova-rt-api')
        self.fetch('http://127.0.0.1:8798/v1/openapi.json', '"openapi"')
        self._stock_conf = self._compute_conf(_COMPUTE_CONF)
        self.machine.run('systemctl restart nova-compute', LOG)
        self.await_steady('nova-compute')
        self.is_running('nova-compute', '/usr/bin/nova-rt-compute')
        self.fetch('http://127.0.0.1:9839/metrics', 'nova_rt_up{')
        mode = self.machine.read('stat -c %a:%U /var/log/nova').strip()
        say(f'configured: conductor and API run; /var/log/nova is {mode}')

    def fetch(self, url: str, word: str) -> None:
        """Require that a service answers with a word.

        :raises Failed: if it does not
        """
        said = self.machine.read(
            "python3 -c 'import urllib.request as r;"
            f'print(r.urlopen("{url}").read().decode())'
            "'"
        )
        if word not in said:
            raise Failed(f'{url} answers:\n{said}')

    def _compute_conf(self, text: str) -> str:
        """Write nova-compute.conf anew, and return its old text."""
        conf = self.machine.root / 'etc/nova/nova-compute.conf'
        before = conf.read_text()
        conf.write_text(text)
        return before

    def upgrade(self, packages: list[pathlib.Path]) -> None:
        """Upgrade over a file that was changed, and one that was not."""
        place = self.machine.root / 'srv' / 'packages'
        before = {
            unit: self.state(unit, 'MainPID')
            for unit in (
                'nova-compute',
                'nova-rt-api',
                'nova-rt-conductor',
                'nova-rt-exporter',
            )
        }
        for package in packages:
            shutil.copy(package, place)
        self._apt('install', packages)
        etc = self.machine.root / 'etc'
        if (
            etc / 'nova/nova-rt-conductor.conf'
        ).read_text() != _CONDUCTOR_CONF:
            raise Failed('the upgrade replaced nova-rt-conductor.conf')
        if 'The next version' not in (etc / 'sudoers.d/nova-rt').read_text():
            raise Failed(
                'the upgrade kept sudoers.d/nova-rt, unchanged as it was'
            )
        for unit, pid in before.items():
            self.await_steady(unit)
            if self.state(unit, 'MainPID') == pid:
                raise Failed(f'the upgrade did not restart {unit}')
        say(
            'upgraded: changed files kept, others replaced, services restarted'
        )

    def remove(self) -> None:
        """Remove without purging: Nova's own programs are back."""
        self._compute_conf(self._stock_conf)
        self._apt('remove', self.names)
        for name in ('compute', 'scheduler'):
            self.runs(f'nova-{name}', f'/etc/init.d/nova-{name}')
        self.await_steady('nova-compute')
        self.is_running('nova-compute', '/usr/bin/nova-compute')
        for unit in ('nova-rt-api', 'nova-rt-conductor', 'nova-rt-exporter'):
            self.expect(unit, ActiveState='inactive')
        kept = self.machine.root / 'etc/nova/nova-rt-conductor.conf'
        if not kept.exists():
            raise Failed('removing took the configuration, too')
        say("removed: Nova's programs are back, configuration is kept")

    def purge(self) -> None:
        """Purge, and check that no unit is left."""
        # Not by apt: it does not know packages of which nothing is left.
        self.machine.run(f'dpkg --purge {" ".join(self.names)}', LOG)
        left = self.machine.read(
            "systemctl list-unit-files --no-legend 'nova-rt*' || true; "
            "systemctl list-units --all --no-legend 'nova-rt*' || true; "
            "ls /var/log/nova | grep nova-rt || true; "
            'ls -d /var/lib/nova/nova_rt 2>/dev/null || true; '
            "dpkg -l | grep nova-rt || true"
        ).strip()
        if left:
            raise Failed(f'a purge leaves behind:\n{left}')


def command() -> None:
    """Build the packages and follow their life on a machine.

    :raises Failed: if anything is not as the manual says
    """
    if os.geteuid():
        raise Failed('this needs root: run make as root or by sudo')
    empty(WHERE)
    LOG.unlink(missing_ok=True)
    modules = standins.packages(LOG)
    packages = build(modules)
    target = empty(WHERE / 'upgrade')
    upgraded = next_version(packages, target)
    root = trees.fresh('install', TO_INSTALL, LOG)
    with trees.Machine('packages', root) as machine:
        test = Test(machine, packages)
        test.prepare(modules)
        say('a machine with Nova runs')
        before = files(root)
        test.install()
        test.configure()
        test.upgrade(upgraded)
        test.remove()
        test.purge()
        lines = changes(before, files(root))
        if lines:
            raise Failed('\n'.join(['a purge leaves traces:', *lines]))
        say(f'purged: {len(before)} files as before')
    trees.remove(root)
