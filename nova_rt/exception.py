# SPDX-License-Identifier: Apache-2.0
"""Every error nova_rt raises, each with the numbers behind it.

The tree has four branches, by the party that can act on an error: the user
(:class:`InvalidRequest`), the scheduler and the claim
(:class:`InsufficientBandwidth`), the operator of a host (:class:`HostError`),
and the owner of a service with a question about its reservation
(:class:`Unanswerable`).

The text of an error is for administrators. It can describe hosts and other
servers, which users may not see: :func:`tell` chooses.
"""

import enum
import errno as errno_names


class RefusalDetails(enum.StrEnum):
    """Amount of an error's text that users other than administrators see."""

    MODEST = 'modest'
    FULL = 'full'


def tell(error: Exception, details: str) -> str:
    """Choose the text of an error that the user of a server may read.

    Raise the exception that carries it ``from`` the error: Nova then shows
    administrators the whole text in the details of the fault.

    :param error: one of ours, or any other
    :param details: a :class:`RefusalDetails`
    :returns: its whole text, or only the part about the request
    """
    if details == RefusalDetails.FULL:
        return str(error)
    if isinstance(error, NovaRTError):
        return error.user_message
    return NovaRTError.user_message


class NovaRTError(Exception):
    """Root of all errors of this project.

    :ivar user_message: text for any user: nothing about hosts,
        other servers or the software
    """

    user_message: str = 'the reservation is not available'


class InvalidRequest(NovaRTError):
    """A flavor or hint asks for something that has no meaning here."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        # It is about the user's own words, and the rules of this cloud.
        self.user_message = text


class InvalidReservation(InvalidRequest):
    """A text is not a reservation, or its numbers are out of range."""


class HintRefused(InvalidRequest):
    """A hint is well formed but the operator's rule does not allow it."""


class ChangeRefused(InvalidRequest):
    """The flavor does not let the owner of a server make a change."""


class InvalidRecord(NovaRTError):
    """A stored record of a server cannot be read."""

    user_message = 'the record of the reservation cannot be read'


class InsufficientBandwidth(NovaRTError):
    """The bandwidth asked for is not free.

    :ivar asked_ppm: bandwidth asked for on each CPU, in ppm of a CPU
    :ivar cpus: number of distinct CPUs asked for
    :ivar free_ppm: the largest bandwidths that are free, in ppm, largest
        first, as many as there are CPUs to look at (at most ``cpus``)
    :ivar rule: the rule that was broken, a sentence
    """

    def __init__(
        self, asked_ppm: int, cpus: int, free_ppm: tuple[int, ...], rule: str
    ) -> None:
        self.asked_ppm = asked_ppm
        self.cpus = cpus
        self.free_ppm = free_ppm
        self.rule = rule
        shown = [str(ppm) for ppm in free_ppm]
        if len(shown) > 4:
            # The last one decides, and a fault holds 255 characters.
            shown[2:-1] = ['...']
        free = ', '.join(shown) or 'none'
        asked = f'RT bandwidth: asked {asked_ppm} ppm on each of {cpus} CPU(s)'
        super().__init__(f'{asked}, free {free} ppm; {rule}')
        self.user_message = f'{asked}, which is not free'


class TooLarge(InsufficientBandwidth):
    """The bandwidth asked for is more than an empty host has."""


class GenerationConflict(NovaRTError):
    """A reservation was changed by somebody else meanwhile."""

    def __init__(self, known: int, present: int) -> None:
        super().__init__(
            f'the reservation was changed meanwhile: expected generation '
            f'{known}, found {present}'
        )


class BeingMoved(NovaRTError):
    """A server is being migrated for its last change."""

    def __init__(self) -> None:
        super().__init__('the server is being migrated for its last change')


class NoHost(NovaRTError):
    """No host can take a server, seen from the scheduler.

    :ivar user_message: the request, in words
    """

    def __init__(self, text: str, user_message: str) -> None:
        super().__init__(text)
        self.user_message = user_message


class NotAdmitted(NovaRTError):
    """Placement has not admitted the server that is to be claimed."""


class ClaimsUnknown(NovaRTError):
    """The claims of a host's servers are not known yet."""


class NotFound(NovaRTError):
    """A server or a host is unknown, or has no reservations."""


class ServerNotFound(NotFound):
    """The history has nothing of this server, or all of it was purged."""


class InvalidReport(NovaRTError):
    """A notification of a compute service cannot be read."""


class HostError(NovaRTError):
    """A host cannot hold reservations, or does not hold one it should."""

    user_message = 'the host cannot hold the reservation'


class NoRTInterface(HostError):
    """The kernel of this host offers no way to reserve RT bandwidth."""


class HostNotPrepared(HostError):
    """The host has an interface, but its set-up prevents its use."""


class WeakerPromise(HostError):
    """The kernel promises less than a server was sold."""

    user_message = (
        'the reservation is guaranteed, and cannot be guaranteed now'
    )


class NoIDRange(HostError):
    """Every range of user and group IDs for containers is taken.

    :ivar ranges: number of ranges that the host has
    """

    user_message = 'no range of user IDs is free on the host'

    def __init__(self, size: int, ranges: int, pool: str) -> None:
        self.ranges = ranges
        super().__init__(
            f'asked for {size} user IDs, free 0 of {ranges} ranges: each '
            'server that is defined on this host, running or not, has one of '
            f'its own of [nova_rt] id_pool = {pool}'
        )


class ReservationNotApplied(HostError):
    """The kernel does not hold the reservation that a container must have.

    :ivar errno: the kernel's answer, or 0 where the kernel accepted the write
        but the value read back is another one
    :ivar verdict: whether that is the kernel's verdict on this container: it
        refuses the numbers, or holds others than were written. If not, a fault
        of ours may be behind it, and the container's state is unknown
    """

    def __init__(
        self,
        what: str,
        errno: int = 0,
        advice: str | None = None,
        verdict: bool = False,
    ) -> None:
        self.errno = errno
        self.verdict = verdict
        text = what
        if errno:
            name = errno_names.errorcode.get(errno, str(errno))
            text += f' ({name})'
        if advice:
            text += f': {advice}'
        super().__init__(text)


class Unanswerable(NovaRTError):
    """The model of response times has no answer; the text has the reason."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        # It is about the question, and no cloud was asked.
        self.user_message = text


class InvalidQuantity(Unanswerable):
    """A number, or its unit, has no meaning in its place."""


class Unstable(Unanswerable):
    """Requests come at least as fast as they can be served.

    :ivar rate_per_s: requests that come, per second
    :ivar capacity_per_s: requests that can be served, per second
    """

    def __init__(self, rate_per_s: float, capacity_per_s: float) -> None:
        self.rate_per_s = rate_per_s
        self.capacity_per_s = capacity_per_s
        super().__init__(
            f'unstable: {rate_per_s:.6g} requests/s come and fewer than '
            f'{capacity_per_s:.6g} requests/s can be served'
        )


class Unreachable(Unanswerable):
    """No value of the quantity that was asked for meets the deadline.

    :ivar nearest: the nearest possible values, a clause
    """

    def __init__(self, text: str, nearest: str) -> None:
        self.nearest = nearest
        super().__init__(f'{text}; {nearest}')
