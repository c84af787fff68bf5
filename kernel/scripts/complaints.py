# SPDX-License-Identifier: Apache-2.0
"""Complaints in a kernel's log, which show that something is wrong with it.

The patterns are in tests/tools/complaints, one on each line as ``grep -E -f``
takes them: guest.sh and the scripts inside the guest look for them as well.
"""

from collections.abc import Iterable
import pathlib
import re

KERNEL = pathlib.Path(__file__).resolve().parents[1]
FILE = KERNEL / 'tests/tools/complaints'
_PATTERN = re.compile('|'.join(FILE.read_text().splitlines()))


def complains(line: str) -> bool:
    """Whether the kernel complains in this line of its log."""
    return _PATTERN.search(line) is not None


def find(lines: Iterable[str]) -> list[str]:
    """The complaints in a log of the kernel.

    A call trace of the out-of-memory killer is not a complaint.
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
