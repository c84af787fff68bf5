# SPDX-License-Identifier: Apache-2.0
"""The event counts of a compute service, as text in a file.

nova-rt-compute writes it, nova-rt-exporter reads it. Beside the counts it has
the options that decide the offer of the host.
"""

from collections.abc import Mapping
import dataclasses
import enum
import json
from typing import Any, Self

from nova_rt import events

_VERSION = 1
_LARGEST = 2**53  # What every reader of JSON has.


class Adaptation(enum.StrEnum):
    """The result of a decision to move the runtime of a server."""

    GROWN = 'grown'
    SHRUNK = 'shrunk'
    #: It got what it may have while it starts.
    BOOSTED = 'boosted'
    #: It got less than it should, since its CPUs have no more.
    LIMITED = 'limited'
    #: Another server needed what it had while it started.
    YIELDED = 'yielded'
    #: The kernel, or libvirt, did not take it.
    REFUSED = 'refused'
    #: Placement had no room, so that it was given back.
    RETURNED = 'returned'


#: Names of all types of events, of all that can be refused, and of results.
KINDS = tuple(map(events.name_of, events.TYPES))
ACTIONS = tuple(action.value for action in events.Action)
ADAPTATIONS = tuple(each.value for each in Adaptation)


@dataclasses.dataclass(frozen=True)
class Counts:
    """Event counts, kept across restarts.

    :ivar by_kind: name of a type of event -> number
    :ivar by_action: refused action -> number
    :ivar verified_at: when all servers were verified last, seconds since
        1970; 0 if they are not
    :ivar dropped: events that are missing in the history, because they could
        not be sent
    :ivar by_adaptation: result of an adaptation -> number
    :ivar frozen: servers that do not follow their load now, since their use
        cannot be read
    :ivar host: the options, from :meth:`nova_rt.host.options.Options.to_dict`;
        None if the file has none
    """

    by_kind: Mapping[str, int] = dataclasses.field(default_factory=dict)
    by_action: Mapping[str, int] = dataclasses.field(default_factory=dict)
    verified_at: int = 0
    dropped: int = 0
    by_adaptation: Mapping[str, int] = dataclasses.field(default_factory=dict)
    frozen: int = 0
    host: Mapping[str, Any] | None = None

    def add(self, event: events.Event) -> Self:
        """Count an event.

        :returns: a copy
        """
        actions = {}
        if isinstance(event, events.Refused):
            actions[event.action.value] = 1
        return dataclasses.replace(
            self,
            by_kind=_add(self.by_kind, {event.kind: 1}),
            by_action=_add(self.by_action, actions),
        )

    def add_adaptation(self, result: Adaptation) -> Self:
        """Count an adaptation.

        :returns: a copy
        """
        return dataclasses.replace(
            self, by_adaptation=_add(self.by_adaptation, {result.value: 1})
        )

    def plus(self, other: Self) -> Self:
        """Add up.

        :param other: later ones
        :returns: the sums, with all other values of the later ones
        """
        return dataclasses.replace(
            self,
            by_kind=_add(self.by_kind, other.by_kind),
            by_action=_add(self.by_action, other.by_action),
            verified_at=max(self.verified_at, other.verified_at),
            dropped=self.dropped + other.dropped,
            by_adaptation=_add(self.by_adaptation, other.by_adaptation),
            frozen=other.frozen,
            host=self.host if other.host is None else other.host,
        )

    def encode(self) -> str:
        """Write it as text.

        :returns: one line
        """
        what: dict[str, Any] = {
            'v': _VERSION,
            'events': dict(self.by_kind),
            'refused': dict(self.by_action),
            'verified_at': self.verified_at,
            'dropped': self.dropped,
            'adapted': dict(self.by_adaptation),
            'frozen': self.frozen,
        }
        if self.host is not None:
            what['host'] = dict(self.host)
        return json.dumps(what, sort_keys=True) + '\n'

    @classmethod
    def decode(cls, text: str) -> Self:
        """Read the output of :meth:`encode` of this or another version wrote.

        :returns: all names that this version knows; missing ones are 0
        :raises ValueError: if it is anything else
        """
        try:
            found = json.loads(text)
        except RecursionError as err:
            raise ValueError('nested too deep') from err
        if not isinstance(found, dict) or found.get('v') != _VERSION:
            raise ValueError(f'no counters of version {_VERSION}')
        host = found.get('host')
        if not isinstance(host, dict | None):
            raise ValueError('the options of the host are of another type')
        return cls(
            _pick(found.get('events'), KINDS),
            _pick(found.get('refused'), ACTIONS),
            **_pick(found, ('verified_at', 'dropped', 'frozen')),
            by_adaptation=_pick(found.get('adapted', {}), ADAPTATIONS),
            host=host,
        )


def _add(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {
        name: one.get(name, 0) + other.get(name, 0)
        for name in [*one, *(name for name in other if name not in one)]
    }


def _pick(found: object, names: tuple[str, ...]) -> dict[str, int]:
    if not isinstance(found, dict):
        raise ValueError('counters are missing')
    picked = {}
    for name in names:
        number = found.get(name, 0)
        if type(number) is not int or not 0 <= number <= _LARGEST:
            raise ValueError(f'{name} is not a count')
        picked[name] = number
    return picked
