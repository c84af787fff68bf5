# SPDX-License-Identifier: Apache-2.0
"""Runs the Ansible role on nodes of a cloud, more than once.

On a controller and on a compute host, each a new node:

1. check mode changes nothing;
2. variables that are wrong are refused before anything is changed;
3. the first run sets the node up, its services run, and nova.conf has the
   options of the chapter;
4. the second run and check mode change nothing, and no service is started
   anew;
5. a change of one service's configuration restarts that service alone.
"""

from collections.abc import Iterable, Mapping, Sequence
import hashlib
import json
import pathlib
import re
import shlex
import shutil
import sys
from typing import Any

from lab.console import LabError, say
from tools.gate.places import CACHE, ENVIRONMENT, ROOT
from tools.install import blocks, chapter, ini, node, standin_sched, wheel
from tools.install.commands import RUN, empty, run, version

ANSIBLE = ROOT / 'deploy' / 'ansible'
REQUIREMENTS = ANSIBLE / 'requirements.txt'
PLAYBOOK = ANSIBLE / 'playbook.yml'
LOG = RUN / 'role.log'
WHERE = RUN / 'role'
SERVICES = {
    'controller': chapter.CONTROLLER,
    'compute': ('nova-rt-exporter', 'nova-rt-sched'),
}
_VARIABLES: dict[str, Any] = {
    'nova_rt_conductor_transport_url': 'rabbit://nova:SECRET@controller:5672/',
    'nova_rt_database_connection': (
        "mysql+pymysql://nova_rt:SEC'RE%5CT@controller/nova_rt"
    ),
    'nova_rt_database_password': "SEC'RE\\T",
    'nova_rt_enabled_filters': [
        'ComputeFilter',
        'ComputeCapabilitiesFilter',
        'ImagePropertiesFilter',
    ],
    'nova_rt_weight_classes': [
        'nova.scheduler.weights.all_weighers',
        'nova.scheduler.weights.ram.RAMWeigher',
    ],
    'nova_rt_cpu_set': '1',
    'nova_rt_cpu_shared_set': '0',
    'nova_rt_compute_options': {'smt': True},
    'nova_rt_sched': 'yes',
    'nova_rt_sched_package': str(WHERE / standin_sched.PACKAGE),
    # Text, as an INI inventory and -e give it. The node's nova-compute would
    # have no bandwidth of the kernel.
    'nova_rt_restart_compute': 'false',
    'nova_rt_conductor': 'yes',
    'nova_rt_exporter': 'true',
    'nova_rt_exact_rules': 'True',
    'nova_rt_sysctl': 'true',
}
#: Above the variables of the role itself, which an inventory is not.
_KERNEL = {'_nova_rt_sys': standin_sched.USABLE}
#: Ansible's way onto a node: as ssh, of whose words the last is a line of sh.
_SSH = """\
#!/bin/sh
for line; do :; done
exec {command} sh -c "$line"
"""
#: Variables that are wrong, and a word of what the role says to each.
_REFUSED: dict[str, list[tuple[dict[str, Any], str]]] = {
    'controller': [
        ({'nova_rt_parts': ['scheduler']}, 'nova_rt_parts'),
        ({'nova_rt_wheel': '/nowhere/nova_rt.whl'}, 'must be the wheel'),
        ({'nova_rt_options': {'hints': 'maybe'}}, 'hints'),
        ({'nova_rt_options': {'min_period_us': 2_000_000}}, 'above its'),
        ({'nova_rt_options': {'min_period_us': 500}}, 'nova_rt_sysctl'),
        ({'nova_rt_enabled_filters': ['ComputeFilter']}, 'all of them'),
        ({'nova_rt_weight_classes': ['its.Weigher']}, 'all of them'),
        ({'nova_rt_weight_classes': 'its.Weigher'}, 'must be lists'),
        ({'nova_rt_database_connection': ''}, 'nova_rt_conductor to false'),
        ({'nova_rt_environment': '/opt/other'}, 'There is no pip'),
    ],
    'compute': [
        ({'nova_rt_cpu_set': ''}, 'share no CPU'),
        ({'nova_rt_cpu_set': '0-1'}, 'share no CPU'),
        ({'nova_rt_id_pool': '100000:65536'}, 'multiples of 65536'),
        ({'nova_rt_sched_package': ''}, 'needs nova_rt_sched_package'),
        ({'_nova_rt_sys': standin_sched.UNUSABLE}, 'CONFIG_EXT_GROUP_SCHED'),
    ],
}
#: For each part a change, and the services that have to be started anew.
_CHANGES: dict[str, tuple[dict[str, Any], set[str]]] = {
    'controller': (
        {'nova_rt_database_connection': (
            "mysql+pymysql://nova_rt:SEC'RE%5CT@controller/nova_rt"
            '?charset=utf8mb4'
        )},
        {'nova-rt-conductor', 'nova-rt-api'},
    ),
    'compute': (
        {'nova_rt_exporter_options': {'min_interval': 5}},
        {'nova-rt-exporter'},
    ),
}  # fmt: skip


class Runs:
    """Runs of the playbook on one node.

    :param part: ``controller`` or ``compute``
    """

    def __init__(
        self,
        part: str,
        found: node.Host,
        programs: pathlib.Path,
        built: pathlib.Path,
    ) -> None:
        self._part = part
        self._programs = programs
        self._inventory = WHERE / f'{part}.json'
        ssh = WHERE / 'ssh'
        ssh.write_text(_SSH.format(command=shlex.join(found.words)))
        ssh.chmod(0o755)
        variables = _VARIABLES | {
            'nova_rt_wheel': str(built),
            'ansible_connection': 'ssh',
            'ansible_ssh_executable': str(ssh),
            'ansible_ssh_args': '',
            'ansible_ssh_transfer_method': 'piped',
            'ansible_ssh_use_tty': False,
            'ansible_pipelining': True,
            'ansible_become': False,
            'ansible_python_interpreter': '/usr/bin/python3',
        }
        group = f'nova_rt_{part}s'
        hosts = {'hosts': {part: variables}}
        self._inventory.write_text(json.dumps({group: hosts}))

    def __call__(
        self, *words: str, variables: Mapping[str, Any] | None = None
    ) -> dict[str, int]:
        """Run the playbook; return how many tasks ended in which way.

        :raises LabError: if a task failed
        """
        stats, _ = self._play(words, variables)
        if stats['failed'] or stats['unreachable']:
            raise LabError(f'{self._part}: the playbook failed')
        return stats

    def refused(self, variables: Mapping[str, Any], word: str) -> None:
        """Check that the role refuses variables, with the reason.

        :raises LabError: if it does not, or has changed something before
        """
        stats, text = self._play((), variables)
        if not stats['failed']:
            raise LabError(f'{self._part}: {variables} is not refused')
        if stats['changed']:
            raise LabError(f'{self._part}: {variables} is refused too late')
        if word not in text:
            raise LabError(f'{self._part}: {variables}: no {word!r}')

    def _play(
        self, words: Sequence[str], variables: Mapping[str, Any] | None
    ) -> tuple[dict[str, int], str]:
        # What the recap counts, and all that was said.
        begin = LOG.stat().st_size if LOG.exists() else 0
        run(
            [
                self._programs / 'ansible-playbook',
                '--inventory',
                self._inventory,
                '--extra-vars',
                json.dumps(_KERNEL | dict(variables or {})),
                '--diff',
                *words,
                PLAYBOOK,
            ],
            LOG,
            environment=_environment(self._programs),
            codes=range(256),
        )
        with LOG.open('rb') as log:
            log.seek(begin)
            text = log.read().decode(errors='replace')
        recap = re.search(rf'^{self._part} +: (ok=.*)$', text, re.MULTILINE)
        if not recap:
            raise LabError(f'{self._part}: the playbook did not run')
        counts = (word.split('=') for word in recap[1].split())
        return {name: int(number) for name, number in counts}, text


def _environment(programs: pathlib.Path) -> dict[str, str]:
    return {
        'PATH': f'{programs}:{ENVIRONMENT["PATH"]}',
        'HOME': str(WHERE),
        'ANSIBLE_HOME': str(WHERE / 'ansible'),
        'ANSIBLE_LOCALHOST_WARNING': 'false',
        'ANSIBLE_NOCOLOR': 'true',
    }


def install_ansible() -> pathlib.Path:
    """Install Ansible and its linter at their pinned versions.

    :returns: the directory of their programs
    """
    key = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:16]
    kept = CACHE / f'ansible-{key}'
    done = kept / 'done'
    if not done.exists():
        say('installing Ansible and its linter')
        run([sys.executable, '-m', 'venv', '--clear', kept], LOG)
        python = kept / 'bin' / 'python'
        words = ('-m', 'pip', 'install', '--quiet', '--requirement')
        run([python, *words, REQUIREMENTS], LOG)
        done.touch()
    return kept / 'bin'


def lint(programs: pathlib.Path) -> None:
    """Run the linter on a copy: it keeps its own files beside its input.

    :raises LabError: if it finds something
    """
    copy = empty(WHERE / 'lint') / 'ansible'
    shutil.copytree(ANSIBLE, copy)
    words = ['--offline', '--strict', '--config-file', '.ansible-lint.yml']
    run(
        [programs / 'ansible-lint', '--nocolor', *words],
        LOG,
        copy,
        _environment(programs),
    )
    say('ansible-lint: passed')


def started_at(found: node.Host, services: Iterable[str]) -> dict[str, str]:
    """Return when systemd last started each service."""
    show = 'systemctl show --value -p ActiveEnterTimestampMonotonic'
    return {name: found.read(f'{show} {name}') for name in services}


def try_part(part: str, programs: pathlib.Path, built: pathlib.Path) -> None:
    """Run the role on a new node, in all the ways that must work.

    :raises LabError: if one does not
    """
    with node.fresh(LOG) as found:
        services = SERVICES[part]
        found.do(f'systemctl start {" ".join(chapter.CLOUD)} libvirtd')
        standin_sched.add_kernels(found.path('/'))
        play = Runs(part, found, programs, built)
        before = node.snapshot(found.path('/etc'))

        stats = play('--check')
        _same(part, before, found)
        say(f'{part}: check mode would change {stats["changed"]}, did nothing')
        _refuse(part, play, found)
        _same(part, before, found)
        say(f'{part}: {len(_REFUSED[part])} wrong variables were refused')

        stats = play()
        say(f'{part}: the first run changed {stats["changed"]}')
        chapter.await_services(found, services)
        _as_the_chapter(part, found)
        if part == 'compute':
            _at_boot(found)
            # Its first run has removed the rules of the distribution.
            play.refused({'nova_rt_exact_rules': 'no'}, 'nova-common')
        if part == 'controller':
            found.do(f'{node.NOVA}/bin/nova-rt-status upgrade check')

        since = started_at(found, services)
        for words in ((), ('--check',)):
            stats = play(*words)
            if stats['changed']:
                raise LabError(f'{part}: it changes something again')
            say(f'{part}: {" ".join(("again", *words))}: changed=0')
        if started_at(found, services) != since:
            raise LabError(f'{part}: a service was started again')

        variables, wanted = _CHANGES[part]
        play(variables=variables)
        now = started_at(found, services)
        restarted = {name for name in services if now[name] != since[name]}
        if restarted != wanted:
            raise LabError(f'{part}: {restarted} were started again')
        say(f'{part}: {variables} restarts {", ".join(restarted)} alone')
        chapter.await_services(found, services)


def _refuse(part: str, play: Runs, found: node.Host) -> None:
    for variables, word in _REFUSED[part]:
        play.refused(variables, word)
    if part != 'compute':
        return
    # Some hosts have all of it in nova.conf.
    file = found.path('/etc/nova/nova-compute.conf')
    away = file.with_suffix('.away')
    file.rename(away)
    try:
        play.refused({}, 'There is no /etc/nova/nova-compute.conf')
    finally:
        away.rename(file)


def _at_boot(found: node.Host) -> None:
    # nova-compute looks for the socket of nova-rt-sched when it starts.
    show = 'systemctl show --value nova-rt-sched -p'
    before = found.read(f'{show} Before').split()
    state = found.read(f'{show} UnitFileState')
    if state != 'enabled' or 'nova-compute.service' not in before:
        raise LabError(f'nova-rt-sched is {state}, before {before}')


def _same(part: str, before: Mapping[str, str], found: node.Host) -> None:
    changed = node.differences(before, node.snapshot(found.path('/etc')))
    if changed:
        raise LabError('\n'.join([f'{part}: it has changed:', *changed]))


def _as_the_chapter(part: str, found: node.Host) -> None:
    # What the chapter sets is in force: of an option that is there more than
    # once, the last counts.
    for block in chapter.select(blocks.read(chapter.CHAPTER), part):
        if 'edit' not in block.words:
            continue
        have = ini.parse(found.path(block.file).read_text())
        changes = chapter.adapted('')
        lines = [changes.get(line, line) for line in block.text.splitlines()]
        for option, values in ini.parse('\n'.join(lines)).items():
            last = have.get(option, [''])[-1]
            wanted = values[-1].replace(ini.KEPT, '')
            if not last.lower().endswith(wanted.lower()):
                raise LabError(
                    f'{block.file}: {option} is {last!r}; the chapter has'
                    f' {values[-1]!r}'
                )
    say(f'{part}: its files have what the chapter sets')


def command() -> None:
    """Run the linter and the role.

    :raises LabError: if something is wrong with it
    """
    empty(WHERE)
    programs = install_ansible()
    lint(programs)
    standin_sched.build(WHERE, LOG)
    built, _ = wheel.build(version())
    for part in SERVICES:
        try_part(part, programs, built)
