# SPDX-License-Identifier: Apache-2.0
"""The entry of an extra spec in the table of :mod:`.extra_specs`."""

from collections.abc import Callable
import dataclasses
from typing import Any

from nova_rt.reservation import spec_values


@dataclasses.dataclass(frozen=True)
class Hint:
    """A scheduler hint that replaces an extra spec for one server.

    :ivar name: name of the hint
    :ivar excess: compares the value of a hint with that of the flavor, in
        this order; returns the excess as a clause for the message, or None if
        the hint does not ask for more
    """

    name: str
    excess: Callable[[Any, Any], str | None]


@dataclasses.dataclass(frozen=True)
class Spec:
    """One extra spec.

    :ivar key: its name in a flavor
    :ivar values: its permitted values
    :ivar default: its value in a flavor without it; None for no value;
        ``dataclasses.MISSING`` if it is mandatory in a real-time flavor
    :ivar text: its meaning, in reStructuredText, for users
    :ivar letter: its key in a record; None if the record has a special form
        for the value
    :ivar hint: the hint that may replace it; None if none may
    """

    key: str
    values: spec_values.Values
    default: Any
    text: str
    letter: str | None = None
    hint: Hint | None = None

    @property
    def default_text(self) -> str | None:
        """The default in the spelling of a flavor; None if it has none."""
        if self.default is None or self.default is dataclasses.MISSING:
            return None
        return str(self.default)

    def parse(self, text: str) -> Any:
        """Read a value.

        :param text: the value as it stands in a flavor
        :returns: the value, of the type of its field
        :raises InvalidRequest: if the extra spec does not take it
        """
        return self.values.parse(self.key, text)
