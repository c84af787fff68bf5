# SPDX-License-Identifier: Apache-2.0
"""``python -m lab.demo``: bring the lab up, then tell the story in it."""

import argparse
import sys

from lab import cloud, console, namespace, node, preflight, second
from lab.console import LabError


def main() -> int:
    """Run the demonstration and return the exit code."""
    try:
        preflight.require_root()
        if not namespace.inside():
            return cloud.up_and_run('lab.demo', [], *_choice())
        from lab.demo import node_story, story

        (node_story if node.nodes() else story).tell()
    except LabError as error:
        console.fail(error)
        return 1
    except KeyboardInterrupt:
        print('\ndemo: interrupted; the lab is left as it is')
        return 130
    return 0


def _choice() -> tuple[int | None, str | None]:
    """Return the computes and nodes for the demonstration.

    A new lab has a node if the user says so, or if this machine's kernel
    cannot hold reservations, and no other compute then.
    """
    parser = argparse.ArgumentParser(prog='python -m lab demo')
    parser.add_argument('--node', type=node.parse, metavar='hcbs')
    wanted = parser.parse_args().node
    if second.computes() is not None:
        return None, wanted
    if wanted is None and not preflight.has_interface():
        wanted = node.parse('hcbs')
    return (0, wanted) if wanted else (None, None)


if __name__ == '__main__':
    sys.exit(main())
