# SPDX-License-Identifier: Apache-2.0
"""The JSON schemas of requests and answers.

Requests are validated by them, and the OpenAPI document has them.
"""

from typing import Any

import jsonschema

from nova_rt import exception
from nova_rt.formats.changes import Condition, OnNoRoom
from nova_rt.reservation import extra_specs, reservation, spec_values

Schema = dict[str, Any]

#: Entries of a page, and of a history.
MAX_LIMIT = 1000

_UUID = {'type': 'string', 'format': 'uuid'}
_TEXT = {'type': 'string'}
_COUNT = {'type': 'integer', 'minimum': 0}
_TIME = {'type': 'string', 'format': 'date-time'}


def _object(properties: Schema, optional: tuple[str, ...] = ()) -> Schema:
    return {
        'type': 'object',
        'properties': properties,
        'required': [name for name in properties if name not in optional],
        'additionalProperties': False,
    }


def _nullable(schema: Schema, text: str) -> Schema:
    found = schema | {'type': [schema['type'], 'null'], 'description': text}
    if 'enum' in found:
        found['enum'] = [*found['enum'], None]
    return found


def _words(words: Any) -> Schema:
    return {'type': 'string', 'enum': [str(word) for word in words]}


def _list_of(schema: Schema) -> Schema:
    return {'type': 'array', 'items': schema}


_RUNTIME = _object(
    {
        'runtime_us': {
            'type': 'integer',
            'minimum': reservation.MIN_RUNTIME_US,
            'maximum': reservation.MAX_PERIOD_US,
            'description': 'CPU time in each period, microseconds.',
        },
        'period_us': {
            'type': 'integer',
            'minimum': reservation.MIN_PERIOD_US,
            'maximum': reservation.MAX_PERIOD_US,
            'description': 'The period, microseconds.',
        },
    }
)
_BOOST = _object(
    _RUNTIME['properties']
    | {'until': _TIME | {'description': 'Its end, unless it ends before.'}}
)
_ON_NO_ROOM = _words(OnNoRoom) | {
    'description': 'The fate of a change for which the host has no room: to '
    'fail, to be tried again when there is room, or to be made on another '
    'host, to which the server is migrated.',
}

CHANGE = _object(
    {
        'reservation': _object(
            _RUNTIME['properties'] | {'on_no_room': _ON_NO_ROOM},
            optional=('on_no_room',),
        )
    }
)

_CONDITION = _object(
    {
        'type': _words(Condition),
        'since': _nullable(_TIME, 'Null if nothing was ever changed.'),
        'reason': _TEXT,
        'asked_ppm': _nullable(_COUNT, 'Asked for on each CPU, if refused.'),
        'free_ppm': _nullable(_COUNT, 'Free instead; for operators.'),
        'rule': _nullable(_TEXT, 'The broken rule; for operators.'),
    }
)
_STATE = _object(
    {
        'server_id': _UUID,
        'project_id': _TEXT,
        'state': _words(('held', 'busy', 'released', 'unreadable')),
        'host': _nullable(_TEXT, 'For operators.'),
        'cpus': _nullable(_TEXT, 'A list such as "1-2,7"; for operators.'),
        'vcpus': _nullable(_COUNT, 'The number of CPUs.'),
        'generation': _COUNT
        | {'description': 'The number of changes; the ETag.'},
        'desired': _nullable(_RUNTIME, 'As asked for.'),
        'allocated': _nullable(_RUNTIME, 'As claimed on the host.'),
        'actual': _nullable(_RUNTIME, 'As read back by the last change.'),
        'boost': _nullable(
            _BOOST, 'While it starts; as reported by the host.'
        ),
        'on_no_room': _nullable(_ON_NO_ROOM, 'Of the last change.'),
        'condition': _CONDITION,
        **{
            field: _nullable(
                _COUNT
                if isinstance(spec.values, spec_values.Number)
                else _TEXT,
                f'{spec.key} of the flavor.',
            )
            for field, spec in extra_specs.SPECS.items()
            if field != 'reservation'
        },
    }
)
STATE = _object({'reservation': _STATE})

_LINKS = _list_of(_object({'rel': _words(('next',)), 'href': _TEXT}))
STATES = _object(
    {'reservations': _list_of(_STATE), 'reservations_links': _LINKS},
    optional=('reservations_links',),
)

HISTORY = _object(
    {
        'events': _list_of(
            _object(
                {
                    'at': _TIME,
                    'event': _TEXT,
                    'runtime_us': _nullable(_COUNT, 'If the event names it.'),
                    'period_us': _nullable(_COUNT, 'If the event names it.'),
                    'host': _nullable(_TEXT, 'For operators.'),
                    'cpus': _nullable(_TEXT, 'For operators.'),
                    'details': _nullable(_TEXT, 'For operators.'),
                    'request_id': _TEXT,
                    'user_id': _TEXT,
                    'project_id': _TEXT,
                }
            )
        )
    }
)

_HOST = {
    'name': _TEXT,
    'interface': _nullable(_TEXT, 'Of the kernel.'),
    'enforcement': _nullable(_TEXT, 'guarantee or limit.'),
    'capacity_ppm': _nullable(_COUNT, 'The inventory in Placement.'),
    'reserved_ppm': _COUNT | {'description': 'Allocated in Placement.'},
    'free_ppm': _nullable(_COUNT, 'As published by the host.'),
    'servers': _COUNT,
    'seen_at': _nullable(_TIME, 'The last sign of life of nova-rt-compute.'),
}
HOSTS = _object(
    {'hosts': _list_of(_object(_HOST)), 'hosts_links': _LINKS},
    optional=('hosts_links',),
)
HOST = _object(
    {
        'host': _object(
            _HOST
            | {
                'cpus': _list_of(
                    _object(
                        {
                            'cpu': _COUNT,
                            'capacity_ppm': _nullable(
                                _COUNT, 'Null for a CPU that is not offered.'
                            ),
                            'reserved_ppm': _COUNT,
                            'free_ppm': _nullable(_COUNT, 'Likewise.'),
                            'servers': _list_of(_UUID),
                        }
                    )
                )
            }
        )
    }
)

ERRORS = _object(
    {
        'errors': _list_of(
            _object(
                {
                    'request_id': _TEXT,
                    'code': _TEXT,
                    'status': {'type': 'integer'},
                    'title': _TEXT,
                    'detail': _TEXT,
                    'links': _list_of(_object({'rel': _TEXT, 'href': _TEXT})),
                }
            )
        )
    }
)

_LIMIT = {'type': 'integer', 'minimum': 1, 'maximum': MAX_LIMIT}
PAGE = {'limit': _LIMIT, 'marker': _TEXT}
# A database of Nova may refuse to compare other characters with its own.
_NAME = {'type': 'string', 'pattern': '^[!-~]+$', 'maxLength': 255}
LISTED = PAGE | {
    'marker': _UUID,
    'host': _NAME,
    'project_id': _NAME,
    'all_projects': {'type': 'boolean'},
}
LATEST = {'limit': _LIMIT}


def validate(instance: Any, schema: Schema, name: str) -> None:
    """Validate a part of a request.

    :param name: of the part, for the message
    :raises InvalidRequest: if it does not match
    """
    validator = jsonschema.Draft202012Validator(
        schema,
        format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER,
    )
    for error in validator.iter_errors(instance):
        raise exception.InvalidRequest(
            f'{".".join((name, *map(str, error.path)))}: {error.message}'
        )


def parse_query(given: dict[str, str], properties: Schema) -> dict[str, Any]:
    """Parse the parameters of a query.

    :param properties: schema of each
    :returns: the values, of the types of their schemas
    :raises InvalidRequest: if one is unknown or has another type
    """
    found: dict[str, Any] = dict(given)
    for name, text in given.items():
        kind = properties.get(name, {}).get('type')
        if kind == 'integer' and text.isascii() and text.isdecimal():
            found[name] = int(text[:9])
        elif kind == 'boolean' and text in ('true', 'false'):
            found[name] = text == 'true'
    schema = _object(properties, tuple(properties))
    validate(found, schema, 'query')
    return found
