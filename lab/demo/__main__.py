# SPDX-License-Identifier: Apache-2.0
"""``python -m lab.demo``: bring the lab up, then tell the story in it."""

import os
import sys

from lab import cloud, console, namespace, paths, preflight
from lab.console import LabError


def main() -> int:
    """Run the demonstration and return the exit code."""
    try:
        preflight.require_root()
        if not namespace.inside():
            return _go_inside()
        from lab.demo import story

        story.tell()
    except LabError as error:
        console.fail(error)
        return 1
    except KeyboardInterrupt:
        print('\ndemo: interrupted; the lab is left as it is')
        return 130
    return 0


def _go_inside() -> int:
    code = cloud.up([])
    kept = namespace.holder()
    if code or not kept:
        return code or 1
    command = namespace.enter_command(kept)
    command += ['env', f'--chdir={paths.CHECKOUT}']
    command += [sys.executable, '-m', 'lab.demo']
    sys.stdout.flush()
    os.execvp(command[0], command)


if __name__ == '__main__':
    sys.exit(main())
