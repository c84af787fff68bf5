# SPDX-License-Identifier: Apache-2.0
"""Sets options in a configuration file, as an operator does in an editor.

Comments, order and all other options stay. oslo.config and Paste read such
files; configparser would lose options that are there more than once.
"""

import re

_SECTION = re.compile(r'\[([^\]]+)\]\s*')
_OPTION = re.compile(r'([^\s=:#;\[][^=]*?)\s*=\s*(.*)')
#: In a value: what the file had there.
KEPT = '...'

#: Section, option and its values, in their order.
Options = dict[tuple[str, str], list[str]]


class Missing(Exception):
    """There is nothing that the new value could keep."""


def parse(text: str) -> Options:
    """Read the options of a file, or of a part of it."""
    found: Options = {}
    section = 'DEFAULT'
    for line in text.splitlines():
        if header := _SECTION.fullmatch(line):
            section = header[1]
        elif option := _OPTION.fullmatch(line):
            found.setdefault((section, option[1]), []).append(option[2])
    return found


def edit(text: str, wanted: str) -> str:
    """Set in a file the options of a text, which is such a file itself.

    An option that is there is replaced where it is; a new one comes to the end
    of its section, a new section to the end of the file.

    :raises Missing: if the file has no value to keep
    """
    present = parse(text)
    left = {
        option: [_with_kept(option, value, present) for value in values]
        for option, values in parse(wanted).items()
    }
    lines: list[str] = []
    section = 'DEFAULT'
    done: set[tuple[str, str]] = set()
    for line in text.splitlines():
        if header := _SECTION.fullmatch(line):
            _append(lines, section, left)
            section = header[1]
        found = _OPTION.fullmatch(line)
        option = (section, found[1] if found else '')
        if option in left:
            values = left.pop(option)
            lines += [f'{option[1]} = {value}' for value in values]
            done.add(option)
        elif option not in done:
            lines.append(line)
    _append(lines, section, left)
    for section in dict.fromkeys(name for name, _ in left):
        lines += ['', f'[{section}]']
        _append(lines, section, left)
    return '\n'.join(lines).lstrip('\n') + '\n'


def _append(lines: list[str], section: str, left: Options) -> None:
    # The options that a section lacks, before the empty lines at its end.
    names = [option for option in left if option[0] == section]
    if not names or not any(_SECTION.fullmatch(line) for line in lines):
        return
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    lines[end:end] = [
        f'{option[1]} = {value}'
        for option in names
        for value in left.pop(option)
    ]


def _with_kept(option: tuple[str, str], value: str, present: Options) -> str:
    if KEPT not in value:
        return value
    if option not in present:
        section, name = option
        raise Missing(f'[{section}] {name} has nothing to keep')
    return value.replace(KEPT, present[option][-1])
