# SPDX-License-Identifier: Apache-2.0
"""The functions and variables of DevStack that a plug-in finds.

names.txt holds them, with the commit that they were read from. To read them
from another checkout, in this directory::

    python names.py CHECKOUT >names.txt

DevStack's scripts source different files: what stack.sh has may be missing in
unstack.sh. So the functions are kept by file, and the files by script.
"""

import dataclasses
import pathlib
import re
import subprocess
import sys
import textwrap
from typing import Self

FILE = pathlib.Path(__file__).with_name('names.txt')
SCRIPTS = ('stack.sh', 'unstack.sh', 'clean.sh')
# Names of files with a variable in them, as a cloud with libvirt and OVN has
# them.
_CHOICES = {
    '$CINDER_BACKENDS/${be_type}': 'lib/cinder_backends/lvm',
    '$NOVA_PLUGINS/hypervisor-$VIRT_DRIVER': (
        'lib/nova_plugins/hypervisor-libvirt'
    ),
    'lib/neutron_plugins/$Q_PLUGIN': 'lib/neutron_plugins/ml2',
    'lib/neutron_plugins/${Q_AGENT}_agent': 'lib/neutron_plugins/ovn_agent',
}
# Sourced in ways that no expression finds: the back ends of the database, and
# Tempest by extras.d.
_HIDDEN = {
    'lib/database': ('lib/databases/mysql', 'lib/databases/postgresql'),
    'stack.sh': ('lib/tempest',),
    'unstack.sh': ('lib/tempest',),
    'clean.sh': ('lib/tempest',),
}
_SOURCE = re.compile(
    r'^\s*(?:\[.*\] && )?source '
    r'(?:\$\{?(?:TOP_DIR|FUNC_DIR|RC_DIR)\}?/)?(\S+?);?(?:\s|$)',
    re.MULTILINE,
)
_FUNCTION = re.compile(r'^\s*function ([\w-]+)', re.MULTILINE)
_VARIABLE = re.compile(
    r'^\s*(?:export |declare -\S+ )?([A-Z][A-Z0-9_]+)(?:\[\S+\])?\+?=',
    re.MULTILINE,
)
_HEADER = """\
# Functions (file) and variables (file, "variables") of DevStack, and which
# files its scripts source. Written by names.py; do not edit.
"""


@dataclasses.dataclass
class Names:
    """The files, functions and variables that a version of DevStack has.

    :ivar commit: where it was read
    :ivar date: of the commit
    :ivar sources: script -> the files that it sources, itself first
    :ivar functions: file -> its functions
    :ivar variables: file -> the variables that it sets
    """

    commit: str
    date: str
    sources: dict[str, list[str]]
    functions: dict[str, list[str]]
    variables: dict[str, list[str]]

    @classmethod
    def from_checkout(cls, checkout: pathlib.Path) -> Self:
        """Read the scripts of a checkout.

        :param checkout: a work tree of DevStack
        :returns: what they define
        """
        commit, date = subprocess.run(
            ['git', '-C', checkout, 'log', '-1', '--format=%H %cI'],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        names = cls(commit, date, {}, {}, {})
        for script in SCRIPTS:
            found: dict[str, None] = {}
            _follow(checkout, script, found)
            names.sources[script] = list(found)
            for file in found:
                text = (checkout / file).read_text()
                names.functions[file] = sorted(set(_FUNCTION.findall(text)))
                names.variables[file] = sorted(set(_VARIABLE.findall(text)))
        return names

    @classmethod
    def read(cls, file: pathlib.Path = FILE) -> Self:
        """Read what :meth:`render` wrote.

        :returns: the same
        """
        names = cls('', '', {}, {}, {})
        for section in re.split(r'^\[', file.read_text(), flags=re.M)[1:]:
            title, _, text = section.partition(']\n')
            kind, _, name = title.partition(' ')
            if kind == 'devstack':
                names.commit, names.date = text.split()
            else:
                getattr(names, kind)[name] = text.split()
        return names

    def render(self) -> str:
        """Write it down.

        :returns: the text of the file
        """
        parts = [_HEADER, f'[devstack]\n{self.commit}\n{self.date}\n']
        for kind in ('sources', 'functions', 'variables'):
            for name, words in getattr(self, kind).items():
                if words:
                    text = textwrap.fill(
                        ' '.join(words),
                        79,
                        break_long_words=False,
                        break_on_hyphens=False,
                    )
                    parts.append(f'[{kind} {name}]\n{text}\n')
        return '\n'.join(parts)

    def functions_of(self, script: str) -> set[str]:
        """The functions that a script has when it calls plug-ins.

        :returns: their names
        """
        return {
            name
            for file in self.sources[script]
            for name in self.functions.get(file, ())
        }

    def variables_of(self, script: str) -> set[str]:
        """The variables that a script may have set by then.

        :returns: their names
        """
        return {
            name
            for file in self.sources[script]
            for name in self.variables.get(file, ())
        }


def _follow(checkout: pathlib.Path, file: str, found: dict[str, None]) -> None:
    if file in found:
        return
    found[file] = None
    text = (checkout / file).read_text()
    for name in [*_SOURCE.findall(text), *_HIDDEN.get(file, ())]:
        name = _CHOICES.get(name, name)
        # Not: the user's files, the system's, and tools that it runs.
        own = not name.startswith(('/', 'tools/'))
        if own and (checkout / name).is_file():
            _follow(checkout, name, found)


if __name__ == '__main__':
    print(Names.from_checkout(pathlib.Path(sys.argv[1])).render(), end='')
