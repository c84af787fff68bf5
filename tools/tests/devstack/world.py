# SPDX-License-Identifier: Apache-2.0
"""A machine that is a directory, on which the phases of the plug-in run.

standin.sh runs the phases with the functions of :mod:`names`, and has only
the programs of :mod:`program` besides some that read.
"""

import dataclasses
import os
import pathlib
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig

from tools.tests.devstack.names import Names

HERE = pathlib.Path(__file__).parent
CHECKOUT = HERE.parents[2]
STANDIN = HERE / 'standin.sh'
NAMES = Names.read()
#: Programs of this machine that a phase may run: none of them writes a file,
#: except for mktemp below TMPDIR.
READERS = (
    'awk', 'cat', 'dirname', 'grep', 'mktemp', 'paste', 'sort', 'tr',
)  # fmt: skip
#: Kinds of things that programs keep beside the root directory.
KEPT = (
    'codes', 'database', 'diverted', 'domain', 'flavor', 'image', 'limit',
    'loop', 'masked', 'module', 'package', 'packages', 'running', 'service',
    'switch',
)  # fmt: skip
_PROGRAM = """#!{python} -IS
import sys
sys.path.insert(0, '{world}')
import program
sys.exit(program.main({name!r}, sys.argv[1:]))
"""
_BUILD = """#!/bin/sh
echo image >"$1"
"""
_FUNCTION = re.compile(r'^function ([\w-]+) \{', re.MULTILINE)


@dataclasses.dataclass
class Outcome:
    """The outcome of a script.

    :ivar code: its exit code
    :ivar output: what it printed
    :ivar unknown: functions and programs that were not there
    :ivar calls: what it asked for, one a line
    """

    code: int
    output: str
    unknown: list[str]
    calls: list[str]


class World:
    """A machine before DevStack.

    :ivar path: its directory
    :ivar root: where its files are
    :ivar plugin: the plug-in's own directory there
    """

    def __init__(self, path: pathlib.Path, localrc: str = '') -> None:
        self.path = path
        self.root = path / 'root'
        self.plugin = self.root / 'opt/stack/nova_rt/devstack'
        for name in (*KEPT, 'programs', 'tmp'):
            (path / name).mkdir(parents=True)
        (path / 'localrc').write_text(localrc)
        (path / 'mounts').touch()
        shutil.copy(_find_paste(), path / 'api-paste.ini')
        self._make_programs()
        self._make_functions()
        self._make_root()

    def _make_programs(self) -> None:
        programs = self.path / 'programs'
        (programs / '.mine').touch()
        # Compiled once, and not into the checkout.
        py_compile.compile(
            str(HERE / 'program.py'), str(self.path / 'program.pyc')
        )
        for name in _programs():
            file = programs / name
            file.write_text(
                _PROGRAM.format(
                    python=sys.executable, world=self.path, name=name
                )
            )
            file.chmod(0o755)
        for name in READERS:
            found = shutil.which(name, path='/usr/bin:/bin')
            assert found
            (programs / name).symlink_to(found)

    def _make_functions(self) -> None:
        for script in NAMES.sources:
            (self.path / f'functions-{script}').write_text(
                ''.join(
                    f'function {name} {{\n    _note {name} "$@"\n}}\n'
                    for name in sorted(NAMES.functions_of(script))
                )
            )

    def _make_root(self) -> None:
        checkout = self.plugin.parent
        shutil.copytree(CHECKOUT / 'devstack', self.plugin)
        shutil.copytree(CHECKOUT / 'etc', checkout / 'etc')
        for name in ('pyproject.toml', 'requirements.txt'):
            shutil.copy(CHECKOUT / name, checkout)
        build = checkout / 'lab/guest/build.sh'
        build.parent.mkdir(parents=True)
        build.write_text(_BUILD)
        build.chmod(0o755)
        for name in (
            'etc/modprobe.d', 'etc/systemd/system', 'opt/stack/data',
            'usr/share/dbus-1/system-services', 'var/lib',
        ):  # fmt: skip
            (self.root / name).mkdir(parents=True)
        bus = self.root / 'usr/share/dbus-1/system-services'
        (bus / 'org.freedesktop.machine1.service').write_text('[D-BUS]\n')
        for name in ('cpu', 'cpuacct', 'cpuset'):
            (self.root / 'sys/fs/cgroup' / name).mkdir(parents=True)
        self.cgroup('cpu/cpu.rt_runtime_us', '950000')

    def cgroup(self, name: str, text: str) -> None:
        """Write a file of the kernel."""
        file = self.root / 'sys/fs/cgroup' / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def unified(self) -> None:
        """Have the kernel of this project on cgroup v2."""
        shutil.rmtree(self.root / 'sys/fs/cgroup')
        self.cgroup('cpu.rt.max', '1000000 1000000')

    def exit_codes(self, codes: dict[str, int]) -> None:
        """Have programs of the package end with codes.

        :param codes: program and its last two words -> code
        """
        for words, code in codes.items():
            (self.path / 'codes' / words).write_text(str(code))

    def run(self, script: str, times: str = 'once') -> Outcome:
        """Run a script of DevStack.

        :param script: stack.sh, unstack.sh or clean.sh
        :param times: how often each phase of the plug-in is run
        :returns: how it ended; 1 where something was unknown
        """
        for name in ('calls', 'unknown'):
            (self.path / name).write_text('')
        done = subprocess.run(
            ['/bin/bash', STANDIN, script, times],
            env={
                'PATH': str(self.path / 'programs'),
                'STANDIN_WORLD': str(self.path),
                'TMPDIR': str(self.path / 'tmp'),
                'LC_ALL': 'C.UTF-8',
            },
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        unknown = (self.path / 'unknown').read_text().splitlines()
        calls = (self.path / 'calls').read_text().splitlines()
        return Outcome(
            done.returncode or int(bool(unknown)), done.stdout, unknown, calls
        )

    def read(self, name: str) -> str:
        """Read a file of the machine."""
        return (self.root / name).read_text()

    def option(self, file: str, section: str, option: str) -> list[str]:
        """Read an option of a configuration file.

        :returns: all its values
        """
        inside, values = False, []
        for line in self.read(file).splitlines():
            if line.startswith('['):
                inside = line == f'[{section}]'
            key, _, value = line.partition('=')
            if inside and key.strip() == option:
                values.append(value.strip())
        return values

    def variables(self) -> dict[str, str]:
        """The variables when the settings had been read.

        :returns: those on one line
        """
        lines = (self.path / 'variables').read_text().splitlines()
        found = (line.partition('=') for line in lines)
        return {name: value.strip("'$") for name, _, value in found}

    def names(self, kind: str) -> list[str]:
        """List what programs keep of a kind.

        :returns: names, sorted
        """
        return sorted(os.listdir(self.path / kind))

    def picture(self) -> dict[str, str]:
        """All that is on the machine.

        :returns: path -> text
        """
        directories = [self.root, *(self.path / kind for kind in KEPT)]
        return {
            str(file.relative_to(self.path)): (
                file.read_text() if file.is_file() else 'directory'
            )
            for directory in directories
            for file in directory.rglob('*')
        }


def overridden() -> set[str]:
    """The functions that standin.sh defines anew.

    :returns: their names
    """
    mine = {'command_not_found_handle', '_note', 'run_phase'}
    return set(_FUNCTION.findall(STANDIN.read_text())) - mine


def _programs() -> list[str]:
    """The names of what is in program.py, which needs a machine to be read."""
    text = (HERE / 'program.py').read_text()
    found = re.findall(r'^@program\ndef (\w+)\(', text, re.MULTILINE)
    return [name.replace('_', '-') for name in found]


def _find_paste() -> pathlib.Path:
    """Nova's own, from its wheel."""
    data = pathlib.Path(sysconfig.get_path('data'))
    return data / 'etc' / 'nova' / 'api-paste.ini'
