# SPDX-License-Identifier: Apache-2.0
"""Suppression of log lines that each check would repeat."""

from collections.abc import Collection
import threading


class Once:
    """The last logged text of each key, to skip repetitions of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._said: dict[str, str] = {}

    def is_new(self, key: str, text: str) -> bool:
        """Record a text.

        :param key: names a subject, such as one of a server
        :returns: whether it differs from the last text of this key
        """
        with self._lock:
            new = self._said.get(key) != text
            self._said[key] = text
        return new

    def forget_all_but(self, keys: Collection[str]) -> None:
        """Forget the last texts of all other keys."""
        with self._lock:
            for key in self._said.keys() - set(keys):
                del self._said[key]

    def forget(self, key: str) -> bool:
        """Forget the last text of a key, once its cause is gone.

        :returns: whether there was one
        """
        with self._lock:
            return self._said.pop(key, None) is not None
