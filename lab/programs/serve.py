# SPDX-License-Identifier: Apache-2.0
"""Serve one OpenStack API with gunicorn: serve.py MODULE PORT THREADS.

A script of its own and no gunicorn command line, because the WSGI modules of
the services parse sys.argv when they are imported.
"""

import importlib
import sys
from typing import Any

from gunicorn.app.base import BaseApplication


class Application(BaseApplication):
    """One worker process with threads."""

    def __init__(self, module: str, port: int, threads: int) -> None:
        self._module = module
        self._settings = {
            'bind': f'127.0.0.1:{port}',
            'workers': 1,
            'threads': threads,
            'worker_class': 'gthread',
            'timeout': 300,
            'graceful_timeout': 3,
            'keepalive': 30,
            'worker_tmp_dir': '/dev/shm',
            'control_socket_disable': True,
        }
        super().__init__()

    def load_config(self) -> None:
        """Hand gunicorn its settings; called by the base class."""
        for name, value in self._settings.items():
            if name in self.cfg.settings:
                self.cfg.set(name, value)

    def load(self) -> Any:
        """Return the WSGI application; called in the worker."""
        return importlib.import_module(self._module).application


if __name__ == '__main__':
    module, port, threads = sys.argv[1:]
    sys.argv = [module]
    Application(module, int(port), int(threads)).run()
