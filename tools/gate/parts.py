# SPDX-License-Identifier: Apache-2.0
"""The parts of the checks, in their two forms.

GATE has to pass before a change lands, and nothing in it depends on the load
of the machine. FULL is everything there is. The commands of a part
are elsewhere: the tests and the manual in tox.ini, the kernel in
kernel/Makefile, the cloud in lab/. Which tests only the long form has, and
why, stands in lists/.
"""

import configparser
import dataclasses
import re
import shlex
import sys

from tools.gate import places

LISTS = 'tools/gate/lists'
WORKERS = '--concurrency=2'


@dataclasses.dataclass(frozen=True)
class Step:
    """One command.

    :ivar environment: added to that of all commands
    :ivar tests: its output counts tests, as stestr's does
    :ivar checkout: it runs in the checkout, not beside it
    :ivar without: the missing source if it ends with EX_UNAVAILABLE; the part
        is skipped then
    """

    command: list[str]
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    tests: bool = False
    checkout: bool = False
    without: str = ''


@dataclasses.dataclass(frozen=True)
class Part:
    """A named piece of the checks.

    :ivar inputs: the files and directories that decide its result; none if
        the gate always runs it
    :ivar in_ci: it always runs in CI
    :ivar portable: the machine is none of its inputs; kernel/tested.toml has
        its last green run
    :ivar at_least: fewer tests than that are a failure
    :ivar writes: files of the checkout that it writes, to be committed
    """

    title: str
    steps: list[Step]
    inputs: tuple[str, ...] = ()
    in_ci: bool = False
    portable: bool = False
    at_least: int = 0
    writes: tuple[str, ...] = ()


TOX = configparser.ConfigParser(interpolation=None)
TOX.read(places.ROOT / 'tox.ini')


def tox(section: str, arguments: str = '', **environment: str) -> list[Step]:
    """Return the commands of a section of tox.ini, with its variables.

    tox itself would build a Python environment of its own for each, and test
    the checkout.

    :param arguments: in place of {posargs}
    :param environment: more variables
    """
    wanted = TOX[next(s for s in TOX if s.partition('{')[0] == section)]

    def value(key: str) -> list[str]:
        text = wanted.get(key) or TOX['testenv'][key]
        text = re.sub(
            r'\{\[(\w+)\](\w+)\}', lambda found: TOX[found[1]][found[2]], text
        )
        text = re.sub(
            r'\{env:(\w+):([^}]*)\}',
            lambda found: places.ENVIRONMENT.get(found[1], found[2]),
            text,
        )
        text = text.replace('{posargs}', arguments)
        return [line for line in text.splitlines() if line]

    variables = dict(line.split('=', 1) for line in value('setenv'))
    variables |= environment
    return [
        Step(command, variables, tests=test, checkout=not test)
        for command in map(shlex.split, value('commands'))
        for test in [command[0] == 'stestr']
    ]


def other(command: str, tests: bool = False, without: str = '') -> Step:
    """Return a command of the checkout."""
    return Step(command.split(), {}, tests, True, without)


def lab(words: str, tests: bool = False) -> Step:
    """Return a command of the lab."""
    command = [sys.executable, '-m', 'lab', *words.split()]
    return Step(command, {}, tests)


def make(target: str, *writes: str) -> Part:
    """Return a part that is a target of the Makefile.

    :param writes: files of the checkout
    """
    step = other(f'make {target}')
    return Part(f'make {target}', [step], writes=writes)


_PYTHON = (
    'constraints.txt', 'requirements.txt', 'test-requirements.txt',
    'bindep.txt', 'pyproject.toml', 'tox.ini', '.stestr.conf',
)  # fmt: skip
_PACKAGE = ('nova_rt', 'etc', 'tools/gate/lists', *_PYTHON)
_CLOUD = ('lab', 'tempest_plugin', 'tools/bootstrap.sh', *_PACKAGE)
_KERNEL = ('kernel/base', 'kernel/config', 'kernel/patches',
           'kernel/scripts', 'kernel/tests', 'kernel/Makefile')  # fmt: skip
_MODELS = (
    'kernel/base', 'kernel/config', 'kernel/patches', 'kernel/scripts',
    'kernel/tests/tools', 'kernel/Makefile', 'experiments', 'lab/paths.py',
    'lab/measure/distribution.py', 'nova_rt/model', 'nova_rt/exception.py',
    'nova_rt/reservation/reservation.py', 'constraints.txt',
)  # fmt: skip
_EVERYTHING = ('.',)

_SOURCE = other('kernel/scripts/fetch.sh', without='no source')
# In QEMU under a virtual clock, so that no other load matters. What was built
# is kept under /var/lib/nova-rt-kernel.
_GUESTS = other('make -C kernel packages')
_ONE, _TWO = lab('up'), lab('up --computes 2')
#: Tests that are skipped on one compute.
_WITH_TWO = r'test_(two_computes|operations)\.'
_E2E = 'exec stestr --test-path=./lab/tests run --serial'
_TEMPEST = 'tempest-plugin --workers=2'

GATE = {
    'style': Part(
        'style, types, spelling', tox('testenv:pep8'), _EVERYTHING, in_ci=True
    ),
    'docs': Part(
        'manual and release notes',
        [*tox('testenv:docs'), *tox('testenv:releasenotes')],
        _EVERYTHING,
    ),
    'unit': Part(
        'unit tests',
        tox('testenv', WORKERS),
        _PACKAGE,
        in_ci=True,
        at_least=1800,
    ),
    'tools': Part(
        'files for operators, pages, client',
        [
            *tox('testenv:tools', '--serial'),
            *tox('testenv:client', '--serial'),
        ],
        _EVERYTHING,
        in_ci=True,
        at_least=120,
    ),
    'functional-threading': Part(
        'Nova in one process, threads',
        tox(
            'testenv:functional-threading',
            f'{WORKERS} --exclude-list={LISTS}/functional-threading.long',
        ),
        _PACKAGE,
        at_least=200,
    ),
    'functional-eventlet': Part(
        'Nova in one process, eventlet',
        tox(
            'testenv:functional',
            f'{WORKERS} --include-list={LISTS}/functional-eventlet.gate',
            NOVA_RT_CONCURRENCY_ROUNDS='3',
        ),
        _PACKAGE,
        at_least=25,
    ),
    'nova-unit': Part(
        "Nova's own unit tests",
        tox('testenv:nova-unit', WORKERS),
        _PACKAGE,
        at_least=1900,
    ),
    'host': Part(
        "this machine's kernel",
        tox('testenv:host', f'--exclude-list={LISTS}/host.long'),
        at_least=30,
    ),
    'kernel': Part(
        'the HCBS kernel',
        [_SOURCE, _GUESTS, other('make -C kernel check', tests=True)],
        _KERNEL,
        portable=True,
        at_least=30,
    ),
    'model': Part(
        "the papers' model on the HCBS kernel",
        [_SOURCE, _GUESTS, other('python -m experiments run check')],
        _MODELS,
        portable=True,
    ),
    'e2e': Part(
        'the whole cloud',
        [_ONE, lab(f'{_E2E} --exclude-list={LISTS}/e2e.long', True)],
        _CLOUD,
        in_ci=True,
        at_least=20,
    ),
    'tempest-plugin': Part(
        'real-time servers, by Tempest',
        [
            _ONE,
            lab(
                f'{_TEMPEST} --include-list={LISTS}/tempest-plugin.gate', True
            ),
        ],
        _CLOUD,
        at_least=15,
    ),
    'lab-down': Part('the lab leaves nothing behind', [lab('down')]),
}
#: Groups of the kernel's tests, in pieces of less than an hour.
KERNEL_PIECES = {
    'kernel': (
        'harness', 'supply', 'refusals', 'percpu', 'migration', 'inheritance',
        'random', 'regression', 'traces', 'suspend', 'attacks', 'spare',
    ),
    'kernel-selftests': ('selftests', 'hcbs-suite'),
    'kernel-stress': ('stress', 'kunit'),
    'kernel-endurance': ('endurance',),
    'kernel-flavours': ('races', 'preempt-rt'),
    'kernel-server': ('server',),
    'kernel-series': ('series',),
    'kernel-faults': ('faults',),
}  # fmt: skip


def _kernel_groups(groups: tuple[str, ...]) -> Step:
    command = ['make', '-C', 'kernel', 'check-full']
    return Step(
        [*command, f'GROUPS={" ".join(groups)}'], tests=True, checkout=True
    )


def _longer(name: str, steps: list[Step], at_least: int = 0) -> Part:
    """Return a part of the gate with all its tests."""
    part = GATE[name]
    return dataclasses.replace(
        part, steps=steps, at_least=at_least or part.at_least
    )


#: Longest last. The lab's parts with one compute come before those with two.
FULL = {
    **{name: GATE[name] for name in ('style', 'docs')},
    'unit': _longer('unit', tox('testenv', WORKERS, NOVA_RT_RANDOM='1')),
    **{name: GATE[name] for name in ('tools', 'nova-unit')},
    'host': _longer('host', tox('testenv:host')),
    'functional-threading': _longer(
        'functional-threading',
        tox('testenv:functional-threading', WORKERS),
        300,
    ),
    'functional-eventlet': _longer(
        'functional-eventlet', tox('testenv:functional', WORKERS), 250
    ),
    'e2e': _longer('e2e', [_ONE, lab(_E2E, True)], 35),
    'tempest-plugin': _longer(
        'tempest-plugin', [_ONE, lab(_TEMPEST, True)], 60
    ),
    'tempest': Part(
        'ordinary servers, by Tempest', [_ONE, lab('tempest')], _CLOUD
    ),
    'lab-down': GATE['lab-down'],
    **{
        name: make(name)
        for name in (
            'chapter-cloud',
            'runbooks',
            'packages',
            'chapter',
            'role',
        )
    },
    'faults': make(
        'faults', 'doc/source/admin/faults.json', 'doc/source/admin/faults.rst'
    ),
    'lab-down-again': GATE['lab-down'],
    'e2e-two': Part(
        'the whole cloud with two computes',
        [_TWO, lab(f'{_E2E} {_WITH_TWO}', True)],
        _CLOUD,
        at_least=5,
    ),
    'tempest-plugin-two': Part(
        'moves of real-time servers, by Tempest',
        [_TWO, lab('tempest-plugin --workers=1', True), lab(_TEMPEST, True)],
        _CLOUD,
        at_least=120,
    ),
    'tempest-two': Part(
        'ordinary and real-time servers with moves, by Tempest',
        # In turns: two computes share this machine's real-time bandwidth, and
        # a move needs its server's on both.
        [_TWO, lab('tempest'), lab('tempest --rt --workers=1')],
        _CLOUD,
    ),
    'lab-down-two': GATE['lab-down'],
    # Also where this machine's own kernel holds no reservations.
    'e2e-node': Part(
        'a node on the HCBS kernel',
        [
            _SOURCE,
            _GUESTS,
            lab('up --node hcbs --computes 0'),
            lab(f'{_E2E} test_node', True),
        ],
        _CLOUD,
        at_least=4,
    ),
    'lab-down-node': GATE['lab-down'],
    **{
        name: Part(
            f'the HCBS kernel: {", ".join(groups)}',
            [_SOURCE, _GUESTS, _kernel_groups(groups)],
            _KERNEL,
        )
        for name, groups in KERNEL_PIECES.items()
    },
    'layer': Part(
        'the host layer on the HCBS kernel',
        [_SOURCE, _GUESTS, other('make -C kernel layer')],
    ),
    'model': GATE['model'],
    **{
        f'property-{seed}': Part(
            'random operations',
            tox(
                'testenv:property',
                WORKERS,
                NOVA_RT_PROPERTY_STEPS='2500',
                NOVA_RT_PROPERTY_SEED=str(seed),
            ),
            _PACKAGE,
            at_least=2,
        )
        for seed in range(1, 5)
    },
}
#: They need the lab and leave it up.
ON_THE_LAB = {
    name for name, part in FULL.items() if part.steps[0] in (_ONE, _TWO)
}
#: The logs of the lab's services are kept if one of them fails.
USES_THE_LAB = ON_THE_LAB | {
    'chapter-cloud', 'runbooks', 'faults', 'e2e-node'
}  # fmt: skip
