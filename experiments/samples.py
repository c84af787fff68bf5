# SPDX-License-Identifier: Apache-2.0
"""Output of experiments/load, as arrays of whole nanoseconds."""

import dataclasses
import itertools
import re

import numpy
import numpy.typing

Nanoseconds = numpy.typing.NDArray[numpy.int64]


class Malformed(Exception):
    """A log that cannot be read; the text has the line."""


@dataclasses.dataclass(frozen=True)
class Run:
    """The requests of a point that were answered, in their order.

    :ivar intended_ns: instants at which each was due to be sent
    :ivar sent_ns: instants at which it was sent
    :ivar until_ns: instants until which the client was awake for it
    :ivar begun_ns: arrivals of its first datagram at the server
    :ivar arrived_ns: arrivals of its last datagram at the server
    :ivar received_ns: arrivals of its answer
    :ivar early_ns: CPU time that the server took for the datagrams before the
        last one
    :ivar service_ns: CPU time that the server took for all of it
    :ivar size_bytes: sizes with the headers
    :ivar lost: requests without an answer
    """

    intended_ns: Nanoseconds
    sent_ns: Nanoseconds
    until_ns: Nanoseconds
    begun_ns: Nanoseconds
    arrived_ns: Nanoseconds
    received_ns: Nanoseconds
    early_ns: Nanoseconds
    service_ns: Nanoseconds
    size_bytes: Nanoseconds
    lost: int

    @property
    def response_ns(self) -> Nanoseconds:
        """Response times, from the instant at which a request was due."""
        return self.received_ns - self.intended_ns

    @property
    def late_ns(self) -> Nanoseconds:
        """Lateness of the client."""
        return self.sent_ns - self.intended_ns


def requests(lines: list[str], one_clock: bool = True) -> Run:
    """Read the output of a client.

    :param one_clock: whether client and server read the same clock; if not,
        requests are taken to arrive when they are sent
    :raises Malformed: unless every line is there and makes sense
    """
    rows, lost, end = [], 0, None
    arrivals = r'\d+' if one_clock else r'-?\d+'
    pattern = rf'\d+( \d+){{3}}( {arrivals}){{2}}( \d+){{4}}'
    for line in lines:
        words = line.split()
        if end is not None:
            raise Malformed(f'after the end: {line!r}')
        if re.fullmatch(r'\d+( \d+){3} lost', line):
            lost += 1
        elif re.fullmatch(pattern, line):
            rows.append([int(word) for word in words[1:]])
        elif re.fullmatch(r'end \d+ \d+', line):
            end = int(words[1]), int(words[2])
            continue
        else:
            raise Malformed(f'not a request: {line[:80]!r}')
        if int(words[0]) != len(rows) + lost - 1:
            raise Malformed(f'out of order: {line[:80]!r}')
    if end != (len(rows), len(rows) + lost):
        raise Malformed(f'the end is {end}, and {len(rows)} came, {lost} lost')
    table = numpy.array(rows, dtype=numpy.int64).reshape(-1, 9)
    due, sent, until, begun, arrived, received, early, service, size = table.T
    if not one_clock:
        begun = arrived = sent
    _check_order(due, sent, until)
    _check_order(sent, begun, arrived, received)
    if (early > service).any():
        raise Malformed('a part of a CPU time is larger than all of it')
    return Run(
        due, sent, until, begun, arrived, received, early, service, size, lost
    )


def _check_order(*instants: Nanoseconds) -> None:
    for one, after in itertools.pairwise(instants):
        if (after < one).any():
            raise Malformed(
                'a request was sent, came or was answered too early'
            )


def parse(log: str) -> dict[str, Run]:
    """Read the log of a guest.

    :returns: runs by the names of the points
    :raises Malformed: if a point is cut short
    """
    found = {}
    for name, body, status in re.findall(
        r'^POINT (\S+)$(.*?)^END \1 (\d+)$', log, re.M | re.S
    ):
        if status != '0':
            raise Malformed(f'{name} ended with {status}')
        lines = [line for line in body.split('\n') if _is_request(line)]
        found[name] = requests(lines)
    if len(found) != len(re.findall('^POINT ', log, re.M)):
        raise Malformed('a point has no end')
    return found


def _is_request(line: str) -> bool:
    return bool(re.match(r'\d+ \d+ \d+ |end ', line))
