# SPDX-License-Identifier: Apache-2.0
"""The way back of a change that takes several steps."""

from collections.abc import Callable, Iterator
import contextlib
import logging
from typing import Any

LOG = logging.getLogger(__name__)


class Revert:
    """The steps of a change that are to be undone if a later one fails."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack

    def add(self, undo: Callable[..., Any], *args: object) -> None:
        """Add the way back of a step that was done, or is about to be.

        :param undo: has to do nothing if there is nothing to be undone. It is
            called with ``args``; an error of it is logged, and the others are
            undone nevertheless
        """

        def call() -> None:
            try:
                undo(*args)
            except Exception:
                LOG.exception('Could not undo a step: %r', undo)

        self._stack.callback(call)


@contextlib.contextmanager
def on_error() -> Iterator[Revert]:
    """Undo the steps that are added if the block fails, the last one first.

    The error of the block is raised, also if the way back fails.

    :returns: for the steps
    """
    with contextlib.ExitStack() as stack:
        yield Revert(stack)
        stack.pop_all()
