# SPDX-License-Identifier: Apache-2.0
"""Description of the machine on which something was measured."""

import os
import pathlib
import platform
import re


def describe() -> str:
    """Return its CPU, how many it has, and its kernel."""
    text = pathlib.Path('/proc/cpuinfo').read_text()
    found = re.search(r'^model name\s*:\s*(.+)$', text, re.MULTILINE)
    name = found[1] if found else platform.machine()
    virtual = ' (virtual machine)' if 'hypervisor' in text else ''
    return (
        f'{name}, {os.cpu_count()} CPUs{virtual}, Linux {platform.release()}'
    )
