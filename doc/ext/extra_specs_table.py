# SPDX-License-Identifier: Apache-2.0
"""Sphinx directive ``rt-extra-specs``: the table of extra specs.

Made from ``nova_rt.reservation.extra_specs.SPECS`` when the manual is built.
"""

from collections.abc import Iterator
import dataclasses
from typing import Any

from docutils import nodes, statemachine
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from nova_rt.reservation import extra_specs


class ExtraSpecsTable(SphinxDirective):
    """A row for each extra spec: key, values, default and meaning."""

    def run(self) -> list[nodes.Node]:
        """Write the table in reStructuredText and parse that.

        :returns: the table
        """
        self.env.note_dependency(extra_specs.__file__)
        lines = statemachine.StringList(list(_lines()), extra_specs.__file__)
        parent = nodes.Element()
        self.state.nested_parse(lines, self.content_offset, parent)
        return parent.children


def _lines() -> Iterator[str]:
    yield '.. list-table::'
    yield '   :header-rows: 1'
    yield '   :widths: 20 20 15 45'
    yield ''
    yield from _row('Extra spec', 'Value', 'Default', 'Meaning')
    for spec in extra_specs.SPECS.values():
        required = spec.default is dataclasses.MISSING
        default = '(required)' if required else '(none)'
        if spec.default_text is not None:
            default = f'``{spec.default_text}``'
        yield from _row(
            f'``{spec.key}``',
            spec.values.form,
            default,
            spec.text,
        )


def _row(first: str, *others: str) -> Iterator[str]:
    yield f'   * - {first}'
    for cell in others:
        yield f'     - {cell}'


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the directive to Sphinx.

    :returns: what Sphinx may do with this extension
    """
    app.add_directive('rt-extra-specs', ExtraSpecsTable)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
