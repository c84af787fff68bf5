# SPDX-License-Identifier: Apache-2.0
"""Functions that each return a check of whether a service answers."""

from collections.abc import Callable
import http.client
import pathlib
import socket
import subprocess


def at_port(number: int, address: str = '127.0.0.1') -> Callable[[], bool]:
    """Something accepts connections at a TCP port."""

    def answers() -> bool:
        try:
            socket.create_connection((address, number), 2).close()
        except OSError:
            return False
        return True

    return answers


def by_http(number: int, address: str = '127.0.0.1') -> Callable[[], bool]:
    """An application answers a request, in any way.

    Its port is open before it is loaded.
    """

    def answers() -> bool:
        connection = http.client.HTTPConnection(address, number, timeout=10)
        try:
            connection.request('GET', '/')
            connection.getresponse()
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
        return True

    return answers


def at_socket(path: pathlib.Path) -> Callable[[], bool]:
    """Something accepts connections at a Unix socket."""

    def answers() -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(str(path))
            except OSError:
                return False
        return True

    return answers


def to(*command: str) -> Callable[[], bool]:
    """A command succeeds."""

    def answers() -> bool:
        answer = subprocess.run(
            command, capture_output=True, check=False, timeout=30
        )
        return answer.returncode == 0

    return answers
