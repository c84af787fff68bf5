# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI 3.1 document, made of the table of operations."""

from collections.abc import Iterable
import re
from typing import Any

from nova_rt.rest import schemas

_PATH_PART = re.compile('<(?:([a-z]+):)?([a-z]+)>')
_VERSION = {
    'name': 'OpenStack-API-Version',
    'in': 'header',
    'description': 'The microversion, such as "rt 1.0".',
    'schema': {'type': 'string'},
}
_IF_MATCH = {
    'name': 'If-Match',
    'in': 'header',
    'description': 'ETag of the last answer: refuse the change with 409 if '
    'somebody else has made one.',
    'schema': {'type': 'string', 'pattern': '^("[0-9]{1,18}"|[*])$'},
}
_TITLES = {
    400: 'The request is malformed.',
    401: 'There is no valid token.',
    403: 'The policy, the flavor or a limit does not allow it.',
    404: 'There is no such server or host, or it has no reservation.',
    406: 'The microversion is not supported.',
    409: 'Somebody else has made a change, or the server is busy.',
    503: 'Nova, Placement or the database of nova_rt does not answer.',
}


def _json(schema: Any) -> dict[str, Any]:
    return {'application/json': {'schema': schema}}


def _render(operation: Any) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [
        {
            'name': name,
            'in': 'path',
            'required': True,
            'schema': {'type': 'string'}
            | ({'format': 'uuid'} if kind == 'uuid' else {}),
        }
        for kind, name in _PATH_PART.findall(operation.path)
    ]
    parameters += [
        {'name': name, 'in': 'query', 'schema': schema}
        for name, schema in operation.query.items()
    ]
    parameters.append(_VERSION)
    if operation.body is not None:
        parameters.append(_IF_MATCH)
    answer: dict[str, Any] = {
        'description': operation.summary,
        'content': _json(operation.answer),
    }
    if operation.etag:
        answer['headers'] = {
            'ETag': {
                'description': 'The generation, in quotation marks.',
                'schema': {'type': 'string'},
            }
        }
    found: dict[str, Any] = {
        'operationId': operation.name,
        'summary': operation.summary,
        'parameters': parameters,
        'responses': {
            str(operation.status): answer,
            **{
                str(status): {
                    'description': _TITLES[status],
                    'content': _json({'$ref': '#/components/schemas/Errors'}),
                }
                for status in operation.errors
            },
        },
    }
    if operation.public:
        found['security'] = []
    if operation.body is not None:
        found['requestBody'] = {
            'required': True,
            'content': _json(operation.body),
        }
    return found


def render(operations: Iterable[Any], version: str) -> dict[str, Any]:
    """Render the document.

    :param operations: the table
    :param version: the newest microversion
    :returns: the document, of plain JSON types
    """
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        path = _PATH_PART.sub(r'{\2}', each.path)
        paths.setdefault(path, {})[each.method.lower()] = _render(each)
    return {
        'openapi': '3.1.0',
        'info': {'title': 'nova_rt', 'version': version},
        'paths': paths,
        'components': {
            'schemas': {'Errors': schemas.ERRORS},
            'securitySchemes': {
                'token': {
                    'type': 'apiKey',
                    'in': 'header',
                    'name': 'X-Auth-Token',
                }
            },
        },
        'security': [{'token': []}],
    }
