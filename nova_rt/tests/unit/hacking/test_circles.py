# SPDX-License-Identifier: Apache-2.0
"""No module of nova_rt imports itself, by whatever way round."""

import ast
import pathlib

from oslotest import base

import nova_rt

ROOT = pathlib.Path(nova_rt.__file__).parent


def name_of(path, root):
    parts = ('nova_rt', *path.relative_to(root).with_suffix('').parts)
    return '.'.join(parts).removesuffix('.__init__')


def imports_of(tree, modules):
    """The modules that a file imports, at its top or in a function."""
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            members = [f'{node.module}.{alias.name}' for alias in node.names]
            names = [
                name if name in modules else node.module for name in members
            ]
        yield from (name for name in names if name in modules)


def read_graph(root=ROOT):
    """Module -> the modules of nova_rt that it imports."""
    files = {
        name_of(path, root): path
        for path in root.rglob('*.py')
        if 'tests' not in path.relative_to(root).parts
    }
    return {
        name: set(imports_of(ast.parse(path.read_text()), files))
        for name, path in files.items()
    }


def find_circle(graph):
    """The modules of a circle, in order; none if there is none."""
    done = set()

    def visit(name, way):
        if name in way:
            return [*way[way.index(name) :], name]
        if name in done:
            return []
        for target in sorted(graph[name]):
            circle = visit(target, [*way, name])
            if circle:
                return circle
        done.add(name)
        return []

    for name in sorted(graph):
        circle = visit(name, [])
        if circle:
            return circle
    return []


class CirclesTest(base.BaseTestCase):
    def test_none(self):
        graph = read_graph()
        self.assertIn('nova_rt.host.probe', graph['nova_rt.host.host'])
        self.assertEqual([], find_circle(graph))

    def test_found(self):
        graph = {'a': {'b'}, 'b': {'c', 'd'}, 'c': set(), 'd': {'b'}}
        self.assertEqual(['b', 'd', 'b'], find_circle(graph))
