#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Try again and again to open files of containers' groups for writing.

    poll.py DIRECTORY GROUP FILE...

DIRECTORY is searched for groups whose names contain GROUP, and the groups in
them. Prints a line when it begins, runs until its standard input has data,
then prints as JSON how often each file was tried and opened.
"""

import collections
import json
import os
import pathlib
import select
import sys


def main() -> None:
    """Poll, and print the counts."""
    top, wanted, *files = sys.argv[1:]
    tried: collections.Counter[str] = collections.Counter()
    opened: collections.Counter[str] = collections.Counter()
    print('ready', flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        for group in pathlib.Path(top).glob(f'*{wanted}*'):
            for where in (group, *group.glob('*/')):
                for name in files:
                    try:
                        os.close(os.open(where / name, os.O_WRONLY))
                    except PermissionError:
                        tried[name] += 1
                    except OSError:
                        # It was removed meanwhile, or has no such file.
                        continue
                    else:
                        tried[name] += 1
                        opened[name] += 1
    print(json.dumps({'tried': tried, 'opened': opened}))


if __name__ == '__main__':
    main()
