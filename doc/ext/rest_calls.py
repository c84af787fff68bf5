# SPDX-License-Identifier: Apache-2.0
"""Sphinx directive ``rt-calls``: the calls of nova-rt-api.

Made from its OpenAPI document when the manual is built.
"""

from collections.abc import Iterator
from typing import Any

from docutils import nodes, statemachine
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from nova_rt.rest import openapi, operations


class Calls(SphinxDirective):
    """Each call: parameters, fields of the answer, and statuses."""

    def run(self) -> list[nodes.Node]:
        """Write the reference in reStructuredText and parse that.

        :returns: the reference
        """
        self.env.note_dependency(operations.__file__)
        document = openapi.render(
            operations.OPERATIONS, operations.VERSIONS[-1]
        )
        lines = statemachine.StringList(
            list(_lines(document)), operations.__file__
        )
        parent = nodes.Element()
        self.state.nested_parse(lines, self.content_offset, parent)
        return parent.children


def _lines(document: dict[str, Any]) -> Iterator[str]:
    for path, methods in document['paths'].items():
        for method, call in methods.items():
            yield from ('', f'``{method.upper()} {path}``')
            yield f'   {call["summary"]}'
            yield ''
            for each in call['parameters']:
                if each['in'] == 'query':
                    yield f'   * ``{each["name"]}``: a parameter of the query'
            if 'requestBody' in call:
                schema = call['requestBody']['content']['application/json']
                yield from _fields(schema['schema'], 'in the body')
            for status, answer in call['responses'].items():
                if status < '300':
                    schema = answer['content']['application/json']['schema']
                    yield from _fields(schema, 'in the answer')
            yield f'   * Statuses: {", ".join(call["responses"])}'
            yield ''


def _fields(schema: dict[str, Any], where: str) -> Iterator[str]:
    for name, part in schema.get('properties', {}).items():
        inner = part.get('items', part).get('properties')
        if inner is not None and not name.endswith('_links'):
            fields = ', '.join(f'``{field}``' for field in inner)
            yield f'   * ``{name}`` {where}: {fields}'


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the directive to Sphinx.

    :returns: what Sphinx may do with this extension
    """
    app.add_directive('rt-calls', Calls)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
