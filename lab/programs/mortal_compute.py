# SPDX-License-Identifier: Apache-2.0
"""nova-rt-compute that kills itself at a step, as power that fails would.

``mortal_compute.py FILE METHOD... -- [OPTION OF NOVA-COMPUTE...]``

METHOD is ``module:Class.method`` or ``module:function``. Where it dies is
said later: FILE then has a method and ``before`` or ``after``. The next call
of that method is the last thing that this process does. FILE is emptied first,
so that the process that comes next lives. nova_rt itself knows nothing of it.
"""

# First: it prepares the process for native threads.
from nova_rt.cmd import compute, hooks  # isort: skip

from collections.abc import Callable
import functools
import importlib
import os
import pathlib
import signal
import sys
from typing import Any

SEPARATOR = '--'
BEFORE, AFTER = 'before', 'after'


class Step:
    """One method that may be the last one.

    :param file: says which is
    """

    def __init__(self, file: pathlib.Path, name: str) -> None:
        self._file = file
        self._name = name

    def wrap(self) -> None:
        """Put it around the method, of its class or a base."""
        module, _, path = self._name.partition(':')
        *owners, method = path.split('.')
        found: Any = importlib.import_module(module)
        for owner in owners:
            found = getattr(found, owner)
        setattr(found, method, self._around(getattr(found, method)))

    def _around(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            self._end(BEFORE)
            result = method(*args, **kwargs)
            self._end(AFTER)
            return result

        return call

    def _end(self, when: str) -> None:
        if self._file.read_text() == f'{self._name} {when}':
            self._file.write_text('')
            os.kill(os.getpid(), signal.SIGKILL)


def main(words: list[str]) -> None:
    """Wrap the methods, then be nova-rt-compute."""
    middle = words.index(SEPARATOR)
    file, *names = words[:middle]
    hooks.extend_nova_virt()
    for name in names:
        Step(pathlib.Path(file), name).wrap()
    sys.argv = ['nova-compute', *words[middle + 1 :]]
    compute.main()


if __name__ == '__main__':
    main(sys.argv[1:])
