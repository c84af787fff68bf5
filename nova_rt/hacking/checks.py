# SPDX-License-Identifier: Apache-2.0
"""The project's own style rules, as a flake8 plug-in.

Each rule has a number, a line in HACKING.rst and a unit test.
"""

import ast
from collections.abc import Iterator
import pathlib
import re
import sys

# What a layer may import of this project. A layer is named after its
# directory; the modules at the top, reservation and formats are 'pure'.
_BELOW = {
    'pure': {'pure'},
    'model': {'pure', 'model'},
    'conf': {'pure', 'conf'},
    'privsep': {'pure', 'conf', 'privsep'},
    'host': {'pure', 'privsep', 'host'},
    'db': {'pure', 'conf', 'db'},
    'metrics': {'pure', 'conf', 'metrics'},
    'conductor': {'pure', 'conf', 'db', 'metrics', 'conductor'},
    'api': {'pure', 'conf', 'api'},
    # It checks the policy of the API once more.
    'scheduler': {'pure', 'conf', 'api', 'scheduler'},
    'faults': {'pure', 'conf'},
    'tracking': {'pure', 'host', 'tracking'},
    'lxc': {'pure', 'faults', 'host', 'tracking', 'lxc'},
    'moves': {'pure', 'tracking', 'moves'},
    'cloud': {'pure', 'tracking', 'cloud'},
    'rest': {'pure', 'conf', 'db', 'conductor', 'tracking', 'cloud', 'rest'},
    'virt': {'pure', 'conf', 'faults', 'host', 'lxc', 'tracking', 'virt'},
    'compute': {
        'pure', 'conf', 'faults', 'conductor', 'host', 'lxc', 'moves',
        'tracking', 'virt', 'compute',
    },
    'exporter': {'pure', 'conf', 'host', 'exporter'},
    '_nova_virt': {'virt'},
    'hacking': {'hacking'},
}  # fmt: skip
# What these layers may import from elsewhere, beside the standard library.
_ELSEWHERE = {'pure': set[str](), 'model': {'numpy'}}
# A program puts the layers together; tests reach everywhere.
_FREE = {'cmd', 'manage', 'tests'}
_PURE_MODULES = {
    'events', 'exception', 'feedback', 'formats', 'id_pool', 'once',
    'reservation', 'revert', 'task_limit',
}  # fmt: skip
_WITH_NOVA = {
    'api', 'scheduler', 'faults', 'lxc', 'moves', 'virt', 'compute', 'cloud',
    'rest', 'cmd', 'manage', 'tests',
}  # fmt: skip
# What is the same for every kernel; the rest of the host are its back ends.
_EVERY_KERNEL = {
    '__init__', 'blockdevs', 'capability', 'cgroup', 'cpus', 'cpusets',
    'files', 'group_backend', 'helpers', 'hierarchies', 'host', 'idmaps',
    'interface', 'limits', 'lxc', 'offer', 'options', 'orphans', 'owners',
    'ownership', 'protocol', 'tasks', 'v2_backend',
}  # fmt: skip
_KNOW_KINDS = {'host.probe', 'privsep.cgroup'}
_KERNEL_WORDS = re.compile(r'cpu\\?\.rt\b|cpu\\?\.rt_|v1-throttle|v2-rt-max')
_INTEGERS_ONLY = {('reservation',)}
# Openings of a docstring that has no head.
_HEADLESS = {'What', 'Who', 'Whose', 'How', 'Where', 'Which', 'When', 'Why'}

_Finding = tuple[int, int, str, type]


def _module(filename: str) -> tuple[str, ...]:
    """The parts of the module's name below nova_rt; () for other files."""
    parts = pathlib.PurePath(filename).with_suffix('').parts
    if 'nova_rt' not in parts[:-1]:
        return ()
    last = len(parts[:-1]) - 1 - parts[:-1][::-1].index('nova_rt')
    below = parts[last + 1 :]
    return below[:-1] if below[-1] == '__init__' else below


def _layer(module: tuple[str, ...]) -> str | None:
    """The layer of a module of this project; None if it has none."""
    if not module or module[0] in _PURE_MODULES:
        return 'pure'
    if module[0] in _BELOW or module[0] in _FREE:
        return module[0]
    return None


def _is_back_end(module: str) -> bool:
    """Whether a module, or a member of one, is for one kind of kernel."""
    parts = module.split('.')
    return (
        parts[0] == 'host'
        and len(parts) > 1
        and parts[1] not in _EVERY_KERNEL | {'probe'}
    )


def _docstrings(tree: ast.AST) -> set[ast.AST]:
    """The strings that are statements: they explain, nothing reads them."""
    return {
        node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)
    }


class Checker:
    """Finds breaches of the rules in one file."""

    name = 'nova_rt'
    version = '1'

    def __init__(self, tree: ast.Module, filename: str) -> None:
        self._tree = tree
        self._prose = _docstrings(tree)
        self._path = pathlib.PurePath(filename)
        self._module = _module(filename)
        self._ours = 'nova_rt' in self._path.parts[:-1]
        self._layer = _layer(self._module)

    def run(self) -> Iterator[_Finding]:
        """Every finding: line, column, text, and this class."""
        if self._ours and self._layer is None:
            yield 1, 0, self._no_layer('.'.join(self._module)), type(self)
        for node in ast.walk(self._tree):
            for text in self._look(node):
                line = getattr(node, 'lineno', 1)
                column = getattr(node, 'col_offset', 0)
                yield line, column, text, type(self)

    @staticmethod
    def _no_layer(module: str) -> str:
        return f'NRT101 nova_rt.{module} belongs to no layer of checks.py'

    def _look(self, node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for name in self._imported(node):
                yield from self._direction(name)
            yield from self._privsep(node)
        if self._ours and self._layer not in {'hacking', 'tests'}:
            yield from self._kinds(node)
        if self._ours and self._layer not in {'conf', 'tests'}:
            yield from self._options(node)
        if self._ours and self._layer != 'tests':
            yield from self._returns(node)
        if {self._module[:1], self._module[:2]} & _INTEGERS_ONLY:
            yield from self._integers(node)

    def _imported(self, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
        """Full names of imported modules and members."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
            return
        base = node.module or ''
        if node.level and self._ours:
            package = self._package()
            above = package[: len(package) - node.level + 1]
            base = '.'.join((*above, base)).rstrip('.')
        for alias in node.names:
            yield f'{base}.{alias.name}'

    def _package(self) -> tuple[str, ...]:
        """The package that relative imports of this file start from."""
        full = ('nova_rt', *self._module)
        return full if self._path.stem == '__init__' else full[:-1]

    def _direction(self, name: str) -> Iterator[str]:
        if not self._ours or self._layer is None:
            return
        first, *rest = name.split('.')
        if first == 'nova_rt':
            yield from self._downward(tuple(rest))
        elif first == 'nova' and self._layer not in _WITH_NOVA:
            yield f'NRT101 {self._layer} does without Nova, not {name}'
        elif (
            self._layer in _ELSEWHERE
            and first not in sys.stdlib_module_names
            and first not in _ELSEWHERE[self._layer]
        ):
            yield f'NRT101 the layer {self._layer} does without {name}'

    def _downward(self, target: tuple[str, ...]) -> Iterator[str]:
        layer = _layer(target)
        allowed = _BELOW.get(self._layer or '')
        if layer is None:
            yield self._no_layer('.'.join(target))
        elif allowed is not None and layer not in allowed:
            name = '.'.join(('nova_rt', *target))
            yield f'NRT101 {self._layer} must not import {name} ({layer})'

    def _privsep(self, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
        """A reader sees at each call that it runs with privileges."""
        if self._layer in {'privsep', 'tests'}:
            return
        if isinstance(node, ast.Import):
            hidden = any(
                alias.name.startswith('nova_rt.privsep') and alias.asname
                for alias in node.names
            )
        else:
            hidden = any(
                f'{name}.'.startswith('nova_rt.privsep.')
                for name in self._imported(node)
            )
        if hidden:
            yield (
                'NRT102 import privileged modules by their full name: '
                'import nova_rt.privsep.<module>'
            )

    def _kinds(self, node: ast.AST) -> Iterator[str]:
        """Kernels are told apart in their back ends, nowhere else."""
        module = '.'.join(self._module)
        if module in _KNOW_KINDS or _is_back_end(module):
            return
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = self._imported(node)
            found = any(
                _is_back_end(name.removeprefix('nova_rt.')) for name in names
            )
        elif isinstance(node, ast.Constant):
            found = (
                isinstance(node.value, str)
                and node not in self._prose
                and bool(_KERNEL_WORDS.search(node.value))
            )
        elif isinstance(node, ast.Compare):
            found = any(
                isinstance(each, ast.Attribute) and each.attr == 'interface'
                for operand in (node.left, *node.comparators)
                for each in ast.walk(operand)
            )
        else:
            return
        if found:
            yield 'NRT107 only a back end knows what kind of kernel it is for'

    @staticmethod
    def _options(node: ast.AST) -> Iterator[str]:
        if not isinstance(node, ast.Call):
            return
        called = node.func
        if (
            isinstance(called, ast.Attribute)
            and isinstance(called.value, ast.Name)
            and called.value.id == 'cfg'
            and called.attr.endswith(('Opt', 'OptGroup'))
            # The commands of a program are no settings.
            and called.attr != 'SubCommandOpt'
        ):
            yield 'NRT104 options are declared in nova_rt/conf only'

    @staticmethod
    def _returns(node: ast.AST) -> Iterator[str]:
        """Check that the result is explained if arguments or errors are."""
        if not isinstance(node, ast.FunctionDef) or node.name[0] == '_':
            return
        result = node.returns
        if result is None or isinstance(result, ast.Constant):
            return
        text = ast.get_docstring(node) or ''
        fields = set(re.findall('^:[a-z]+', text, re.M))
        if fields and ':returns' not in fields:
            yield f'NRT109 {node.name}: say what it returns, with :returns:'

    @staticmethod
    def _integers(node: ast.AST) -> Iterator[str]:
        text = 'NRT105 admission counts in integers: '
        if isinstance(node, ast.Constant):
            if isinstance(node.value, float | complex):
                yield f'{text}no float literal'
        elif isinstance(node, ast.BinOp | ast.AugAssign):
            if isinstance(node.op, ast.Div):
                yield f'{text}no true division'
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id == 'float':
                yield f'{text}no float()'


class Prose:
    """Finds docstrings that are a clause, not a noun phrase or imperative."""

    name = 'nova_rt_prose'
    version = '1'

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree

    def run(self) -> Iterator[_Finding]:
        """One finding for each such docstring."""
        for node in ast.walk(self._tree):
            if isinstance(
                node, ast.Module | ast.ClassDef | ast.FunctionDef
            ):  # fmt: skip
                first = re.match('[A-Z][a-z]*', ast.get_docstring(node) or '')
                if first and first[0] in _HEADLESS:
                    text = f'NRT110 a docstring does not begin with {first[0]}'
                    yield node.body[0].lineno, 0, text, type(self)
