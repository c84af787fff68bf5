# SPDX-License-Identifier: Apache-2.0
"""Reads lists of CPUs as Nova and nova_rt write them."""
# The role has the name of the package, and no layer of it.
# flake8: noqa: NRT101


def cpus(text):
    """Return the CPUs of a list of ranges, such as ``2-7, 10`` or ``2-7,^4``.

    :raises ValueError: if it is no such list
    """
    found, excluded = set(), set()
    for part in map(str.strip, str(text).split(',')):
        first, _, last = part.removeprefix('^').partition('-')
        numbers = range(int(first), int(last or first) + 1)
        (excluded if part.startswith('^') else found).update(numbers)
    return sorted(found - excluded)


class FilterModule:
    """The class in which Ansible looks for filters."""

    def filters(self):
        """Name the filters."""
        return {'nova_rt_cpus': cpus}
