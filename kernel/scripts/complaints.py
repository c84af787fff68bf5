# SPDX-License-Identifier: Apache-2.0
"""What a kernel says in its log when something is wrong with it.

The patterns are in tests/tools/complaints, one on each line as ``grep -E -f``
takes them: guest.sh and the scripts inside the guest look for them as well.
"""

from collections.abc import Iterable
import pathlib
import re

FILE = pathlib.Path(__file__).resolve().parents[1] / 'tests/tools/complaints'
_PATTERN = re.compile('|'.join(FILE.read_text().splitlines()))


def complains(line: str) -> bool:
    """Whether the kernel complains in this line of its log."""
    return _PATTERN.search(line) is not None


def find(lines: Iterable[str]) -> list[str]:
    """The complaints in a log of the kernel.

    The out-of-memory killer shows a call trace each time, which is none.
    """
    found = []
    reports = 0
    for line in lines:
        if 'invoked oom-killer' in line:
            reports += 1
        elif reports and 'Call Trace' in line:
            reports -= 1
        elif complains(line):
            found.append(line)
    return found
