# SPDX-License-Identifier: Apache-2.0
"""Presentation of the demonstration: headings, commands, their output."""

from collections.abc import Sequence
import os
import shlex
import subprocess
import sys
import textwrap

from lab import config
from lab.console import LabError

_WIDTH = 79
_COLOURED = sys.stdout.isatty()
_ENVIRONMENT = {
    **{k: v for k, v in os.environ.items() if not k.startswith('OS_')},
    **config.user_environment(),
    'CLIFF_MAX_TERM_WIDTH': str(_WIDTH - 4),
    'PYTHONWARNINGS': 'ignore',
}


def heading(number: int, text: str) -> None:
    """Begin a part."""
    line = f'{number}. {text}'
    print(f'\n{_style(line, "1;36")}\n{"-" * len(line)}', flush=True)


def say(text: str) -> None:
    """Explain something in a paragraph."""
    print(textwrap.fill(text, _WIDTH), flush=True)


def show(text: str) -> None:
    """Show something as it is, a step to the right."""
    print(textwrap.indent(text, '    '), flush=True)


def warn(text: str) -> None:
    """Print a warning that the user should not overlook."""
    filled = textwrap.fill(f'WARNING: {text}', _WIDTH)
    print(_style(filled, '1;33'), flush=True)


def openstack(*words: str, fails: bool = False) -> str:
    """Run the OpenStack client as a user does, and show the command.

    :param fails: the command is expected to be refused.
    :returns: its output.
    :raises LabError: when it ends otherwise than expected.
    """
    print(_style(_typed(words), '1'), flush=True)
    done = subprocess.run(
        ['openstack', *words],
        env=_ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    text = done.stdout.strip()
    if text:
        show(text)
    print(flush=True)
    if fails == (done.returncode == 0):
        ended = 'was accepted' if fails else 'failed'
        raise LabError(f'"openstack {" ".join(words[:3])} ..." {ended}')
    return text


def _typed(words: Sequence[str]) -> str:
    # Lines are broken before an option, as in a manual.
    lines = ['$ openstack']
    for word in map(shlex.quote, words):
        if len(lines[-1]) + len(word) + 3 > _WIDTH and word.startswith('-'):
            lines[-1] += ' \\'
            lines.append('   ')
        lines[-1] += f' {word}'
    return '\n'.join(lines)


def _style(text: str, code: str) -> str:
    return f'\033[{code}m{text}\033[0m' if _COLOURED else text
