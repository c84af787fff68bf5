# SPDX-License-Identifier: Apache-2.0
"""The steps of a run in the container, and their findings.

A step returns its facts, or raises LabError.
"""

import argparse
from collections.abc import Callable
import pathlib
import re
import shutil
import subprocess
from typing import Any

from lab.console import LabError, say
from tools.devstack_run import machine, mirrors, picture, places, server

Facts = dict[str, Any]

# Seconds that the long ones get.
STACK_S = 3600
UNSTACK_S = 900
TEMPEST_S = 3600
#: File with what the kernel of this machine gives away for real-time groups.
BANDWIDTH_US = pathlib.Path('/sys/fs/cgroup/cpu/cpu.rt_runtime_us')
#: DevStack wants them before it installs its own.
PACKAGES = (
    *('bash-completion', 'cgroup-tools', 'curl', 'gettext-base', 'git'),
    *('gpg', 'gpgv', 'iptables', 'net-tools', 'nftables', 'python3-dev'),
    *('python3-venv', 'strace', 'udev', 'vim-tiny', 'wget'),
)
_COUNTS = re.compile(r'^ - (Passed|Skipped|Failed|[A-Z]\w+ \w+): (\d+)$', re.M)
#: Of the command line, with the log of the step.
Options = argparse.Namespace


def prepare(options: Options) -> Facts:
    """Make the container's tree and put the repositories into it."""
    if not options.git_base:
        raise LabError(
            'GIT_BASE is not set: a directory with openstack/NAME.git, or '
            'the URL that has openstack/NAME.git'
        )
    if not places.ROOT.exists():
        places.WORK.mkdir(parents=True, exist_ok=True)
        words = ('make', places.ROOT, places.SUITE, *PACKAGES)
        machine.call(*words)
        _add_user()
        _keep_from_failing()
    facts: Facts = {'git_base': options.git_base}
    target = pathlib.Path(f'{places.ROOT}{places.GIT}')
    target.mkdir(parents=True, exist_ok=True)
    if not mirrors.is_url(options.git_base):
        for name in mirrors.NAMES:
            facts[name] = mirrors.copy(
                mirrors.find(options.git_base, name),
                target / 'openstack' / f'{name}.git',
            )[:12]
    facts['nova_rt'] = mirrors.take_checkout(
        places.CHECKOUT, target / 'nova_rt.git', places.BRANCH
    )[:12]
    if mirrors.uncommitted(places.CHECKOUT):
        say('the checkout has changes that are not committed: not taken')
    return facts


def _add_user() -> None:
    # As DevStack's own tools/create-stack-user.sh does.
    home = places.ROOT / 'opt' / 'stack'
    subprocess.run(
        [
            *('chroot', places.ROOT, 'useradd', '--create-home'),
            *('--home-dir', '/opt/stack', '--shell', '/bin/bash', places.USER),
        ],
        check=True,
    )
    home.chmod(0o755)
    rule = places.ROOT / 'etc' / 'sudoers.d' / '50_stack'
    rule.write_text(f'{places.USER} ALL=(root) NOPASSWD:ALL\n')
    rule.chmod(0o440)
    # The repositories belong to root.
    (places.ROOT / 'etc' / 'gitconfig').write_text('[safe]\n\tdirectory = *\n')


def _keep_from_failing() -> None:
    # DevStack restarts iscsid and stops if that fails. Where the kernel has
    # no iSCSI, it is a race whether systemd takes it for started.
    drop_in = places.ROOT / 'etc/systemd/system/iscsid.service.d/kernel.conf'
    drop_in.parent.mkdir(parents=True)
    drop_in.write_text(
        '[Unit]\nConditionPathIsDirectory=/sys/class/iscsi_transport\n'
    )


def up(options: Options) -> Facts:
    """Start the container, fetch DevStack, and note the content."""
    if not places.ROOT.exists():
        raise LabError('there is no tree; "prepare" makes it')
    if not machine.running():
        machine.call('up', places.NAME, places.ROOT, '--net', 'slirp')
    base = options.git_base
    base = base if mirrors.is_url(base) else places.GIT
    machine.ask(
        f'test -d {places.DEVSTACK} || '
        f'git clone -q {base}/openstack/devstack.git {places.DEVSTACK}',
        places.USER,
    )
    machine.ask(
        f'cat > {places.DEVSTACK}/local.conf',
        places.USER,
        local_conf(base, options.set),
    )
    # The plug-in's checkout of an earlier stack.sh follows this one.
    machine.ask(
        'cd /opt/stack/nova_rt 2>/dev/null || exit 0; '
        f'git fetch -q origin && git reset -q --hard origin/{places.BRANCH}',
        places.USER,
    )
    if not places.BEFORE.exists():
        picture.write(places.BEFORE, picture.take())
    return {'bandwidth_us': _take_bandwidth()}


def local_conf(git_base: str, settings: list[str]) -> str:
    """Return DevStack's configuration."""
    lines = places.LOCAL_CONF.read_text()
    filled = {
        'GIT_BASE': git_base,
        'PLUGIN': f'{places.GIT}/nova_rt.git',
        'BRANCH': places.BRANCH,
        'SETTINGS': '\n'.join(settings),
    }
    for name, value in filled.items():
        lines = lines.replace(f'@{name}@', value)
    return lines


def _take_bandwidth() -> int:
    """Take the kernel's free bandwidth; 0 while a lab holds all of it."""
    given = int(BANDWIDTH_US.read_text())
    taken = sum(
        int((group / 'cpu.rt_runtime_us').read_text())
        for group in BANDWIDTH_US.parent.iterdir()
        if group.is_dir() and group.name != f'nova-rt-{places.NAME}'
    )
    if given > taken:
        machine.call('rt', places.NAME, str(given - taken))
    else:
        say('another holds all real-time bandwidth of this machine')
    return given - taken


def stack(options: Options) -> Facts:
    """Run stack.sh and look at the result."""
    facts: Facts = {'bandwidth_us': _take_bandwidth()}
    _devstack('./stack.sh', options, STACK_S)
    return facts | _versions()


def unstack(options: Options) -> Facts:
    """Run unstack.sh."""
    _devstack('./unstack.sh', options, UNSTACK_S)
    return {}


def clean(options: Options) -> Facts:
    """Run clean.sh."""
    _devstack('./clean.sh', options, UNSTACK_S)
    return {}


def _devstack(script: str, options: Options, limit_s: int) -> None:
    code = machine.run(
        f'cd {places.DEVSTACK} && {script}', options.log, limit_s, places.USER
    )
    if code:
        raise LabError(f'{script} ended with {code}', options.log)


def _versions() -> Facts:
    text = machine.ask(
        """
        . /etc/os-release; echo "system=$PRETTY_NAME"
        echo "kernel=$(uname -r)"
        /opt/stack/data/venv/bin/python3 -c '
import importlib.metadata as m, platform
print("python=" + platform.python_version())
for name in ("nova", "neutron", "nova_rt"):
    print(name + "=" + m.version(name))'
        for name in libvirt-daemon openvswitch-switch ovn-central \
            mariadb-server rabbitmq-server prometheus; do
            version=$(dpkg-query -W -f '${Version}' $name 2>/dev/null)
            echo "$name=${version:-none}"
        done
        """
    )
    return dict(line.split('=', 1) for line in text.splitlines())


def tempest(options: Options) -> Facts:
    """Run the Tempest plug-in in DevStack's tempest."""
    _take_bandwidth()
    code = machine.run(
        'cd /opt/stack/tempest && '
        'export PATH=/opt/stack/data/venv/bin:$PATH && '
        f'.tox/tempest/bin/tempest run --regex {options.regex} '
        f'--concurrency {options.workers}',
        options.log,
        TEMPEST_S,
        places.USER,
    )
    facts = counts(options.log.read_text(errors='replace'))
    if code or not facts.get('Passed'):
        raise LabError(f'tempest ended with {code}: {facts}', options.log)
    return dict(facts)


def counts(text: str) -> dict[str, int]:
    """Return the counts that Tempest prints."""
    return {word: int(number) for word, number in _COUNTS.findall(text)}


def leftovers(options: Options) -> Facts:
    """Compare the container with its state before the first stack.sh."""
    before = picture.read(places.BEFORE)
    now = picture.take()
    others = picture.others(before, now)
    found = picture.left(before, now)
    lines = ['In /etc, by others:', *others, '', 'Ours:', *found]
    options.log.write_text(''.join(f'{line}\n' for line in lines))
    if found:
        raise LabError(f'{len(found)} things are left', options.log)
    packages = {*now.answers['packages']} - {*before.answers['packages']}
    return {'left': 'nothing', 'packages that stay': len(packages)}


def down(options: Options) -> Facts:
    """Stop the container; its tree stays."""
    machine.call('down', places.NAME)
    return {}


def discard(options: Options) -> Facts:
    """Stop the container and remove its tree."""
    machine.call('down', places.NAME)
    if places.ROOT.exists():
        shutil.rmtree(places.ROOT)
    places.BEFORE.unlink(missing_ok=True)
    return {}


def boot_server(options: Options) -> Facts:
    """Boot a real-time server, look at it from all sides, delete it."""
    if not _take_bandwidth():
        raise LabError('no real-time bandwidth is free: is a lab up?')
    return server.check(options.log)


STEPS: dict[str, Callable[[Options], Facts]] = {
    'prepare': prepare,
    'up': up,
    'stack': stack,
    'server': boot_server,
    'tempest': tempest,
    'unstack': unstack,
    'clean': clean,
    'leftovers': leftovers,
    'down': down,
    'discard': discard,
}
ALL = (
    *('discard', 'prepare', 'up', 'stack', 'server', 'tempest', 'unstack'),
    *('clean', 'leftovers', 'stack', 'server', 'down'),
)
#: Steps without which those after them make no sense.
NEEDED = {'discard', 'prepare', 'up', 'stack'}
