# SPDX-License-Identifier: Apache-2.0
"""Configurations that cannot be used, in one line for an operator."""

from collections.abc import Iterator
import contextlib
import os
import re
import traceback

from oslo_config import cfg

# The words of oslo.config, which names neither the group nor the value.
_BAD_VALUE = re.compile(
    r"Value for option (?P<name>\S+) from .*detail='(?P<file>.*)'\) "
    r'is not valid: (?P<reason>.*)'
)


# It has the database and the credentials for moves.
_CONDUCTOR = 'nova-rt-conductor'


class Unusable(Exception):
    """A file or a value of a configuration, and its fault."""


def find_files(prog: str) -> list[str]:
    """Find the files that an administrator's program reads by default.

    Only root and group nova can read that of nova-rt-conductor: others do
    without.

    :param prog: the program's name
    :returns: Nova's and its own, then that of nova-rt-conductor
    """
    found = cfg.find_config_files('nova', prog)
    found += [
        path
        for path in cfg.find_config_files('nova', _CONDUCTOR)
        if path not in found and os.access(path, os.R_OK)
    ]
    return found


@contextlib.contextmanager
def errors(conf: cfg.ConfigOpts) -> Iterator[None]:
    """Turn errors of a configuration into one of ours.

    :param conf: the configuration that is read within
    :returns: nothing, once
    :raises Unusable: instead
    """
    try:
        yield
    except (cfg.Error, cfg.ConfigSourceValueError) as err:
        raise Unusable(_describe(conf, err)) from err
    except UnicodeDecodeError as err:
        raise Unusable(f'{_find_file(err)}: no text in UTF-8: {err}') from err


def check(conf: cfg.ConfigOpts, *groups: str) -> None:
    """Require permitted values of all options of some groups.

    oslo.config looks at a value only when somebody asks for it, which may be
    much later and in another process.

    :raises Unusable: if one has not
    """
    with errors(conf):
        for group in groups:
            for name in conf[group]:
                conf[group][name]


def _find_file(error: Exception) -> str:
    """Look for the file that oslo.config was reading."""
    names = [
        getattr(frame.f_locals.get('self'), 'filename', None)
        for frame, _ in traceback.walk_tb(error.__traceback__)
    ]
    return next((str(name) for name in names if name), 'configuration')


def _describe(conf: cfg.ConfigOpts, error: Exception) -> str:
    text = ' '.join(str(error).split())
    match = _BAD_VALUE.fullmatch(text)
    if match is None:
        return text
    name, file = match['name'], match['file']
    found = _find(conf, name, file, str(error))
    if found is None:
        return f'{file}: {name}: {match["reason"]}'
    group, value = found
    return f'{file}: [{group}] {name} = {value}: {match["reason"]}'


def _find(
    conf: cfg.ConfigOpts, name: str, file: str, error: str
) -> tuple[str, str] | None:
    """Look for the value of an option that has just been refused.

    :param error: the text of the refusal
    :returns: its group and the value; None if it cannot be told which it is
    """
    sections: dict[str, dict[str, list[str]]] = {}
    with contextlib.suppress(cfg.ParseError, OSError, UnicodeError):
        cfg.ConfigParser(file, sections).parse()
    for group, options in sections.items():
        try:
            conf[group][name]
        except cfg.ConfigSourceValueError as err:
            if str(err) == error and name in options:
                return group, ' '.join(options[name][-1].split())
        except (cfg.Error, KeyError, TypeError):
            continue  # Of another program, or no group.
    return None
