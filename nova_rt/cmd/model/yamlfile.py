# SPDX-License-Identifier: Apache-2.0
"""Reads YAML that anybody may have written: plain values, and few of them."""

from typing import Any

import yaml

from nova_rt import exception
from nova_rt.cmd.model import values

_MAX_BYTES = 4 << 20
_MAX_DEPTH = 8

_Loader: Any = getattr(yaml, 'CSafeLoader', yaml.SafeLoader)


class _Strict(_Loader):
    """Loads plain values, and no key twice."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f'{key.value[:40]!r} is there twice',
                    key.start_mark,
                )  # fmt: skip
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def load(path: str) -> Any:
    """Load plain values from a file.

    :returns: the values
    :raises InvalidQuantity: if it cannot be read; says the place
    """
    try:
        with open(values.check_path(path), 'rb') as file:
            text = file.read(_MAX_BYTES + 1)
    except OSError as err:
        raise exception.InvalidQuantity(
            f'{values.show_path(path)} cannot be read: {err.strerror}'
        ) from err
    if len(text) > _MAX_BYTES:
        raise exception.InvalidQuantity(
            f'{path} is longer than {_MAX_BYTES} bytes'
        )
    try:
        _check_depth(path, text)
        # A loader of plain values, as in yaml.safe_load.
        return yaml.load(text, _Strict)  # noqa: S506
    except yaml.MarkedYAMLError as err:
        mark = err.problem_mark
        place = f'line {mark.line + 1}: ' if mark else ''
        raise exception.InvalidQuantity(
            f'{path} is not YAML: {place}{err.problem}'
        ) from err
    except (
        yaml.YAMLError, ValueError, TypeError, RecursionError,
        # Of values that are not what their tag says, such as !!bool maybe.
        LookupError, AttributeError,
    ) as err:  # fmt: skip
        raise exception.InvalidQuantity(
            f'{path} is not YAML: {str(err).splitlines()[0][:200]}'
        ) from err


def _check_depth(path: str, text: bytes) -> None:
    """Refuse text that would fill the stack of the loader, or memory.

    :raises InvalidQuantity: for deep nesting and for aliases
    """
    depth = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.AliasEvent):
            problem = 'has an alias: write out what it stands for'
        elif depth > _MAX_DEPTH:
            problem = 'is nested too deeply'
        else:
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            continue
        line = event.start_mark.line + 1
        raise exception.InvalidQuantity(f'{path}, line {line} {problem}')
