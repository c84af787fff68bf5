# SPDX-License-Identifier: Apache-2.0
"""The parts of the checks, in their two forms.

GATE has to pass before a change lands: 20 minutes, and nothing in it depends
on the load of the machine. FULL is everything there is. The commands of a part
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

    :ivar budget_s: the time on two quiet CPUs; the table says if it took
        longer
    :ivar inputs: the files and directories that decide its result; none if
        the gate always runs it
    :ivar in_ci: it always runs in CI
    :ivar portable: the machine is none of its inputs; kernel/tested.toml has
        its last green run
    :ivar at_least: fewer tests than that are a failure
    :ivar writes: files of the checkout that it writes, to be committed
    """

    title: str
    budget_s: int
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
    return Part(f'make {target}', 2400, [step], writes=writes)


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

_STYLE = Part(
    'style, types, spelling', 60, tox('testenv:pep8'), _EVERYTHING, True
)
_DOCS = Part(
    'manual and release notes',
    60,
    [*tox('testenv:docs'), *tox('testenv:releasenotes')],
    _EVERYTHING,
)
_UNIT = Part(
    'unit tests', 240, tox('testenv', WORKERS), _PACKAGE, True, at_least=1800
)
_TOOLS = Part(
    'files for operators, pages, client',
    75,
    [*tox('testenv:tools', '--serial'), *tox('testenv:client', '--serial')],
    _EVERYTHING,
    True,
    at_least=120,
)
_NOVA_UNIT = Part(
    "Nova's own unit tests",
    120,
    tox('testenv:nova-unit', WORKERS),
    _PACKAGE,
    at_least=1900,
)
_HOST = Part("this machine's kernel", 90, tox('testenv:host'), at_least=30)
_LAB_DOWN = Part('the lab leaves nothing behind', 60, [lab('down')])

_SOURCE = other('kernel/scripts/fetch.sh', without='no source')
_GUESTS = other('make -C kernel packages')
# In QEMU under a virtual clock, so that no other load matters. What was built
# is kept under /var/lib/nova-rt-kernel.
_MODEL = Part(
    "the papers' model on the HCBS kernel",
    600,
    [_SOURCE, _GUESTS, other('python -m experiments run check')],
    _MODELS,
    portable=True,
)
_ONE, _TWO = lab('up'), lab('up --computes 2')
#: Tests that are skipped on one compute.
_WITH_TWO = r'test_(two_computes|operations)\.'
_E2E = 'exec stestr --test-path=./lab/tests run --serial'

GATE = {
    'style': _STYLE,
    'docs': _DOCS,
    'unit': _UNIT,
    'tools': _TOOLS,
    'functional-threading': Part(
        'Nova in one process, threads',
        300,
        tox(
            'testenv:functional-threading',
            f'{WORKERS} --exclude-list={LISTS}/functional-threading.long',
        ),
        _PACKAGE,
        at_least=200,
    ),
    'functional-eventlet': Part(
        'Nova in one process, eventlet',
        90,
        tox(
            'testenv:functional',
            f'{WORKERS} --include-list={LISTS}/functional-eventlet.gate',
            NOVA_RT_CONCURRENCY_ROUNDS='3',
        ),
        _PACKAGE,
        at_least=30,
    ),
    'nova-unit': _NOVA_UNIT,
    'host': dataclasses.replace(
        _HOST,
        budget_s=60,
        steps=tox('testenv:host', f'--exclude-list={LISTS}/host.long'),
    ),
    'kernel': Part(
        'the HCBS kernel',
        900,
        [_SOURCE, _GUESTS, other('make -C kernel check', tests=True)],
        _KERNEL,
        portable=True,
        at_least=30,
    ),
    'model': _MODEL,
    'e2e': Part(
        'the whole cloud',
        350,
        [
            _ONE,
            lab(f'{_E2E} --exclude-list={LISTS}/e2e.long', True),
        ],
        _CLOUD,
        True,
        at_least=20,
    ),
    'tempest-plugin': Part(
        'real-time servers, by Tempest',
        160,
        [
            _ONE,
            lab(
                'tempest-plugin --workers=2'
                f' --include-list={LISTS}/tempest-plugin.gate',
                True,
            ),
        ],
        _CLOUD,
        at_least=15,
    ),
    'lab-down': _LAB_DOWN,
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


#: Longest last. The lab's parts with one compute come before those with two.
FULL = {
    'style': _STYLE,
    'docs': _DOCS,
    'unit': dataclasses.replace(
        _UNIT, steps=tox('testenv', WORKERS, NOVA_RT_RANDOM='1')
    ),
    'tools': _TOOLS,
    'nova-unit': _NOVA_UNIT,
    'host': _HOST,
    'functional-threading': Part(
        'Nova in one process, threads',
        2400,
        tox('testenv:functional-threading', WORKERS),
        _PACKAGE,
        at_least=300,
    ),
    'functional-eventlet': Part(
        'Nova in one process, eventlet',
        1800,
        tox('testenv:functional', WORKERS),
        _PACKAGE,
        at_least=250,
    ),
    'e2e': Part(
        'the whole cloud',
        1200,
        [_ONE, lab(_E2E, True)],
        _CLOUD,
        at_least=35,
    ),
    'tempest-plugin': Part(
        'real-time servers, by Tempest',
        1200,
        [
            _ONE,
            lab('tempest-plugin --workers=2', True),
        ],
        _CLOUD,
        at_least=60,
    ),
    'tempest': Part(
        'ordinary servers, by Tempest',
        1200,
        [_ONE, lab('tempest')],
        _CLOUD,
    ),
    'lab-down': _LAB_DOWN,
    **{
        name: make(name)
        for name in (
            'chapter-cloud', 'runbooks', 'packages', 'chapter', 'role',
        )
    },
    'faults': make(
        'faults', 'doc/source/admin/faults.json', 'doc/source/admin/faults.rst'
    ),
    'lab-down-again': _LAB_DOWN,
    'e2e-two': Part(
        'the whole cloud with two computes',
        1800,
        [_TWO, lab(f'{_E2E} {_WITH_TWO}', True)],
        _CLOUD,
        at_least=5,
    ),
    'tempest-plugin-two': Part(
        'moves of real-time servers, by Tempest',
        2400,
        [
            _TWO,
            *(
                lab(f'tempest-plugin --workers={number}', True)
                for number in (1, 2)
            ),
        ],
        _CLOUD,
        at_least=120,
    ),
    'tempest-two': Part(
        'ordinary and real-time servers with moves, by Tempest',
        2400,
        # In turns: two computes share this machine's real-time bandwidth, and
        # a move needs its server's on both.
        [_TWO, lab('tempest'), lab('tempest --rt --workers=1')],
        _CLOUD,
    ),
    'lab-down-two': _LAB_DOWN,
    # Also where this machine's own kernel holds no reservations.
    'e2e-node': Part(
        'a node on the HCBS kernel',
        3600,
        [
            _SOURCE,
            _GUESTS,
            lab('up --node hcbs --computes 0'),
            lab(f'{_E2E} test_node', True),
        ],
        _CLOUD,
        at_least=4,
    ),
    'lab-down-node': _LAB_DOWN,
    **{
        name: Part(
            f'the HCBS kernel: {", ".join(groups)}',
            3600,
            [_SOURCE, _GUESTS, _kernel_groups(groups)],
            _KERNEL,
        )
        for name, groups in KERNEL_PIECES.items()
    },
    'layer': Part(
        'the host layer on the HCBS kernel',
        1200,
        [_SOURCE, _GUESTS, other('make -C kernel layer')],
    ),
    'model': _MODEL,
    **{
        f'property-{seed}': Part(
            'random operations',
            3600,
            tox(
                'testenv:property',
                WORKERS,
                NOVA_RT_PROPERTY_STEPS='2500',
                NOVA_RT_PROPERTY_SEED=str(seed),
            ),
            _PACKAGE,
            at_least=2,
        )
        for seed in (1, 2, 3, 4)
    },
}  # fmt: skip
#: They need the lab and leave it up.
ON_THE_LAB = {
    name for name, part in FULL.items() if part.steps[0] in (_ONE, _TWO)
}
#: The logs of the lab's services are kept if one of them fails.
USES_THE_LAB = ON_THE_LAB | {
    'chapter-cloud', 'runbooks', 'faults', 'e2e-node',
}  # fmt: skip
