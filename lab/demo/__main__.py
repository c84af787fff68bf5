# SPDX-License-Identifier: Apache-2.0
"""``python -m lab.demo``: bring the lab up, then tell the story in it."""

import sys

from lab import cloud, console, namespace, preflight
from lab.console import LabError


def main() -> int:
    """Run the demonstration and return the exit code."""
    try:
        preflight.require_root()
        if not namespace.inside():
            return cloud.up_and_run('lab.demo', [])
        from lab.demo import story

        story.tell()
    except LabError as error:
        console.fail(error)
        return 1
    except KeyboardInterrupt:
        print('\ndemo: interrupted; the lab is left as it is')
        return 130
    return 0


if __name__ == '__main__':
    sys.exit(main())
