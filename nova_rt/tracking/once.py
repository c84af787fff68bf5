# SPDX-License-Identifier: Apache-2.0
"""Lines of the log that would come again with each check."""

import threading


class Once:
    """The last text about each server: none is said twice in a row."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._said: dict[str, str] = {}

    def is_new(self, key: str, text: str) -> bool:
        """Note a text.

        :param key: of a server
        :returns: whether it is another one than the last of this key
        """
        with self._lock:
            new = self._said.get(key) != text
            self._said[key] = text
        return new

    def forget(self, key: str) -> None:
        """Note that all is well."""
        with self._lock:
            self._said.pop(key, None)
