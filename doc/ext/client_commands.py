# SPDX-License-Identifier: Apache-2.0
"""Sphinx directive ``rt-commands``: the commands of ``client/``.

Made from their classes when the manual is built.
"""

from collections.abc import Iterator
import importlib.metadata
import inspect
import pathlib
import sys
import tomllib
from typing import Any

from docutils import nodes, statemachine
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

_CLIENT = pathlib.Path(__file__).parents[2] / 'client'
_COMMANDS = 'openstack.rt.v1'


class Commands(SphinxDirective):
    """Each command with its arguments."""

    def run(self) -> list[nodes.Node]:
        """Write the reference in reStructuredText and parse that.

        :returns: the reference
        """
        project = _CLIENT / 'pyproject.toml'
        self.env.note_dependency(str(project))
        points = tomllib.loads(project.read_text())['project']['entry-points']
        lines = statemachine.StringList(
            list(_lines(points[_COMMANDS])), str(project)
        )
        parent = nodes.Element()
        self.state.nested_parse(lines, self.content_offset, parent)
        return parent.children


def _lines(commands: dict[str, str]) -> Iterator[str]:
    for name, value in commands.items():
        kind = importlib.metadata.EntryPoint(name, value, '').load()
        yield from ('', f'``openstack {name.replace("_", " ")}``')
        for line in inspect.cleandoc(kind.__doc__).splitlines():
            yield f'   {line}'
        yield ''
        for argument, options in kind.arguments:
            shown = options.get('metavar', '')
            if argument.startswith('-'):
                shown = f'{argument} {shown}'.strip()
            yield f'   * ``{shown}``: {options["help"]}'
        yield ''


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the directive to Sphinx.

    :returns: what Sphinx may do with this extension
    """
    sys.path.append(str(_CLIENT))
    app.add_directive('rt-commands', Commands)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
