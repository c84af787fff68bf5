# SPDX-License-Identifier: Apache-2.0
"""Follows the installation chapter to the letter, on a node of a cloud.

Only the chapter's own blocks are run and written; nothing here knows a step.
First the controller's blocks are followed, then those of a compute host on the
same node, then "Removing it": the configuration is then as before.

Lines that an operator has to adapt are adapted here too: :func:`adapted` names
each of them, and a line that the chapter no longer has is an error. Blocks
that need a cloud are for ``make chapter-cloud``. The host's check is followed,
and nova-compute started, if the kernel's bandwidth is free; its unit is
Debian's, by which systemd kills a service that does not say that it serves.
"""

from collections.abc import Iterable, Mapping
import re
import shlex
import time

from lab.console import LabError, say
from tools.gate.places import ROOT
from tools.install import ini, node, wheel
from tools.install.blocks import Block, Command, Wrong, read
from tools.install.commands import RUN, run, version

CHAPTER = ROOT / 'doc' / 'source' / 'install' / 'index.rst'
LOG = RUN / 'chapter.log'
#: Services of the node, and those that each part of the chapter starts.
CLOUD = ('mariadb', 'rabbitmq-server', 'nova-conductor', 'placement')
CONTROLLER = ('nova-api', 'nova-scheduler', 'nova-rt-conductor', 'nova-rt-api')
COMPUTE = ('nova-rt-exporter',)
#: Commands that succeed once a service serves, which takes a while where CPUs
#: are busy. A service that systemd starts again and again is active most of
#: the time, too.
SERVES = {
    'nova-api': 'curl --silent --fail http://127.0.0.1:8774/',
    'nova-scheduler': 'rabbitmqctl --quiet list_queues name consumers'
    r" | grep -P '^scheduler\t[1-9]'",
    'nova-rt-conductor': 'rabbitmqctl --quiet list_queues name consumers'
    r" | grep -P '^nova_rt_history[.]info\t[1-9]'",
    'nova-rt-api': 'curl --silent --fail http://127.0.0.1:8798/',
    'nova-compute': 'rabbitmqctl --quiet list_queues name consumers'
    r" | grep -P '^compute\t[1-9]'",
    'nova-rt-exporter': 'curl --silent --fail http://127.0.0.1:9839/metrics',
    'nova-rt-sched': 'test -S /run/nova-rt-sched/socket',
}
SERVES_S = 120
#: More than a service takes to end in order, and less than Nova waits for one
#: that does not.
STOPS_S = 120
#: Bandwidth for the node, of a second: no server has to run.
RT_RUNTIME_US = 100_000
#: File that keeps a shell's variables and directory between two blocks.
STATE = '/root/.chapter'
_ASSIGNED = re.compile(r'^([a-z_]+)=', re.MULTILINE)
_MARK = '+@'


def adapted(release: str) -> dict[str, str]:
    """The lines that an operator adapts, and how this node needs them."""
    return {
        'version=1.0.0': f'version={release}',
        # A small machine has two CPUs.
        'cpu_shared_set = 0-1,8-9': 'cpu_shared_set = 0',
        'cpu_set = 2-7,10-15': 'cpu_set = 1\nsmt = true',
    }


def select(
    blocks: Iterable[Block],
    place: str,
    remove: bool = False,
    kernel: bool = False,
) -> list[Block]:
    """The blocks that are followed at one place, in the chapter's order."""
    return [
        block
        for block in blocks
        if place in block.places
        and not block.words & {'example', 'stock'}
        and ('remove' in block.words) == remove
        and (kernel or 'kernel' not in block.words)
    ]


class Follower:
    """Follows blocks on one host, each of them once.

    :param changes: lines of the chapter -> lines in their place
    :param state: a file of the host, for variables of a shell
    """

    def __init__(
        self,
        host: node.Host,
        changes: Mapping[str, str],
        state: str = STATE,
    ) -> None:
        self._state = shlex.quote(state)
        self._host = host
        self._changes = changes
        self._used: set[str] = set()
        self._followed: set[int] = set()
        self.commands = 0
        self.files = 0

    def follow(self, blocks: Iterable[Block]) -> None:
        """Follow blocks in their order; skip those that were followed.

        :raises Wrong: if one of them cannot be followed
        """
        for block in blocks:
            if block.line in self._followed:
                continue
            self._followed.add(block.line)
            if block.language == 'console':
                self._type(block)
            else:
                self._write(block)

    def finish(self) -> None:
        """Check that every line was there that an operator is to adapt.

        :raises Wrong: if the chapter has lost one
        """
        lost = sorted(set(self._changes) - self._used)
        if lost:
            raise Wrong(f'the chapter no longer has the line {lost[0]!r}')

    def _adapt(self, text: str) -> str:
        lines = []
        for line in text.splitlines():
            if line in self._changes:
                self._used.add(line)
            lines.append(self._changes.get(line, line))
        return '\n'.join(lines) + '\n'

    def _type(self, block: Block) -> None:
        commands = block.commands()
        log = self._host.log
        begin = log.stat().st_size if log.exists() else 0
        code = self._host.run(self._script(commands))
        with log.open('rb') as file:
            file.seek(begin)
            said = _said(file.read().decode(errors='replace'))
        self.commands += len(said)
        if code:
            failed = commands[max(len(said) - 1, 0)]
            raise Wrong(
                f'line {failed.line}: {failed.text!r} ended with {code}'
                f' {said[-1][-500:] if said else ""}'
            )
        for command, output in zip(commands, said, strict=True):
            printed = [line.strip() for line in output.splitlines()]
            for line in command.output:
                if line not in printed:
                    raise Wrong(
                        f'line {command.line}: {command.text!r} did not print'
                        f' {line!r} but {output.strip()!r}'
                    )

    def _script(self, commands: list[Command]) -> str:
        # One shell for a block; the variables and the directory of the shell
        # are kept for the next block.
        texts = [self._adapt(command.text) for command in commands]
        names = sorted(set(_ASSIGNED.findall('\n'.join(texts))))
        lines = [
            'set -euo pipefail',
            'exec 2>&1',
            f'if [ -e {self._state} ]; then . {self._state}; fi',
        ]
        for command, text in zip(commands, texts, strict=True):
            lines.append(f'echo; echo {shlex.quote("# " + command.text)}')
            lines.append(f'echo {_MARK}')
            lines.append(text)
        if names:
            lines.append(f'declare -p {" ".join(names)} >>{self._state}')
        lines.append(f'printf "cd %q\\n" "$PWD" >>{self._state}')
        return '\n'.join(lines)

    def _write(self, block: Block) -> None:
        file = self._host.path(block.file)
        text = self._adapt(block.text)
        if 'edit' in block.words:
            if not file.exists():
                raise Wrong(f'line {block.line}: there is no {block.file}')
            try:
                text = ini.edit(file.read_text(), text)
            except ini.Missing as error:
                raise Wrong(f'line {block.line}: {error}') from error
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        self.files += 1


def _said(text: str) -> list[str]:
    # The output of each command that was begun.
    return re.split(rf'^{re.escape(_MARK)}\n', text, flags=re.MULTILINE)[1:]


def await_services(found: node.Host, names: tuple[str, ...]) -> None:
    """Check that services serve, and none of them was started again.

    :raises LabError: if one does not, or systemd had to start it again
    """
    deadline = time.monotonic() + SERVES_S
    for name in names:
        test = f'{SERVES[name]} >/dev/null 2>&1'
        while found.run(test):
            _look_at(found, name)
            if time.monotonic() > deadline:
                raise LabError(f'{name} does not serve')
            time.sleep(1)
    for name in names:
        _look_at(found, name)
    say(f'{", ".join(names)}: serving')


def _look_at(found: node.Host, name: str) -> None:
    said = found.read(f'systemctl show -p ActiveState,NRestarts {name}')
    if sorted(said.split()) != ['ActiveState=active', 'NRestarts=0']:
        found.run(
            f'systemctl status --no-pager {name}; tail -n 30 /var/log/nova/*'
        )
        raise LabError(f'{name} does not run: {said.split()}')


def _put_release(found: node.Host) -> str:
    """Build the release and put it where the chapter expects it.

    :returns: its version
    """
    release = version()
    built, archive = wheel.build(release)
    root = found.path('/root')
    run(['cp', built, root], LOG)
    run(['tar', '-x', '--no-same-owner', '-f', archive, '-C', root], LOG)
    if not (root / f'nova_rt-{release}').is_dir():
        raise LabError(f'{archive.name} is not of version {release}')
    return release


def command() -> None:
    """Follow the chapter on one node: controller, compute host, and back.

    :raises LabError: if a block cannot be followed, or a service does not run
    """
    blocks = read(CHAPTER)
    with node.fresh(LOG) as found:
        _follow(found, blocks)


def _follow(found: node.Host, blocks: list[Block]) -> None:
    release = _put_release(found)
    say(f'the node is up, with nova_rt {release} to install')
    start = (*CLOUD, 'nova-api', 'nova-scheduler', 'libvirtd')
    found.do(f'systemctl start {" ".join(start)}')
    before = node.snapshot(found.path('/etc'))
    follower = Follower(found, adapted(release))
    kernel = _take_bandwidth()
    compute = (*COMPUTE, *(('nova-compute',) if kernel else ()))
    for place, services in (('controller', CONTROLLER), ('compute', compute)):
        follower.follow(select(blocks, place, kernel=kernel))
        say(
            f'{place}: followed; {follower.commands} commands and'
            f' {follower.files} files so far'
        )
        await_services(found, services)
    follower.finish()
    if kernel:
        # It ends by itself, before systemd kills it.
        found.do(f'timeout {STOPS_S} systemctl stop nova-compute')
        said = found.read('systemctl show -p Result nova-compute')
        if said != 'Result=success':
            raise LabError(f'nova-compute does not stop: {said}')
        say('nova-compute: started, and stopped in order')
    found.do(f'{node.NOVA}/bin/nova-rt-status upgrade check')
    say('nova-rt-status upgrade check: 0')
    for place in ('compute', 'controller'):
        follower.follow(select(blocks, place, remove=True, kernel=kernel))
    left = node.differences(before, node.snapshot(found.path('/etc')))
    if left:
        raise LabError('\n'.join(['"Removing it" does not:', *left]))
    say('removed: /etc is what it was before')
    await_services(found, ('nova-api', 'nova-scheduler'))


def _take_bandwidth() -> bool:
    """Give the node bandwidth of the kernel for real-time tasks.

    :returns: whether it has it; a lab that is up may have all of it
    """
    words = ['rt', node.NAME, str(RT_RUNTIME_US)]
    if run([node.CONTAINER, *words], LOG, codes=(0, 1)):
        say("a lab has the kernel's bandwidth: without the host's check")
        return False
    return True
