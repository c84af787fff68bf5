# SPDX-License-Identifier: Apache-2.0
"""Progress bars, for people only."""

from collections.abc import Iterable, Iterator
from typing import TextIO, TypeVar

_T = TypeVar('_T')


def track(items: Iterable[_T], text: str, stream: TextIO) -> Iterator[_T]:
    """Show how far an iteration has come, if a person is watching.

    :param text: a word for the items
    :param stream: where to show it; nothing is written unless it is a terminal
    :returns: the items
    """
    if not stream.isatty():
        yield from items
        return
    # Here, because it takes a while to load.
    from rich import console, progress

    yield from progress.track(
        items, text, transient=True, console=console.Console(file=stream)
    )
