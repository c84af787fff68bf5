# SPDX-License-Identifier: Apache-2.0
"""Calls that go on in threads of their own."""

from collections.abc import Callable
from concurrent import futures
import threading
from typing import Any


def begin(call: Callable[..., Any], *args: Any) -> futures.Future[Any]:
    """Begin a call in a thread of its own.

    :returns: its result, or its error
    """
    future: futures.Future[Any] = futures.Future()

    def run() -> None:
        try:
            future.set_result(call(*args))
        except BaseException as err:
            # Also one that ends a green thread: somebody may wait.
            future.set_exception(err)

    try:
        threading.Thread(target=run, daemon=True).start()
    except RuntimeError as err:
        # The host has no more threads to give.
        future.set_exception(err)
    return future
