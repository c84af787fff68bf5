# SPDX-License-Identifier: Apache-2.0
"""No module of nova_rt imports itself, by whatever way round."""

import ast
import graphlib
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


class CirclesTest(base.BaseTestCase):
    def test_none(self):
        graph = read_graph()
        self.assertIn('nova_rt.host.probe', graph['nova_rt.host.host'])
        # It raises an error that names the circle.
        graphlib.TopologicalSorter(graph).prepare()
