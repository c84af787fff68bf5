# SPDX-License-Identifier: Apache-2.0
"""Asks compute services for the changes of reservations that are due.

The database has the desired state, and the host does everything else: a
conductor that dies loses nothing, and a request may be sent twice. The changes
of one host are sent one after another, the oldest first. A worker has one
thread for a host at most, so that a host that does not answer delays only its
own changes.
"""

from collections.abc import Callable
import datetime
import functools
import itertools
import threading
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging
import oslo_messaging

from nova_rt.conductor import metrics
from nova_rt.conductor.moves import Moves
from nova_rt.conductor.nova_api import NovaAPI
from nova_rt.db import api
from nova_rt.db import changes as db
from nova_rt.formats.changes import (
    NAMESPACE,
    OLDER_VERSION,
    TOPIC,
    VERSION,
    Answer,
    Change,
    Condition,
    OnNoRoom,
)

LOG = logging.getLogger(__name__)

#: Seconds that a host has for an answer: a kernel returns bandwidth within
#: 5 s, and so does the end of the longest period.
TIMEOUT_S = 60
#: Seconds after which another conductor takes over.
LEASE_S = TIMEOUT_S + 30
#: Seconds between two attempts at a change in progress, and at a deferred one
#: unless bandwidth comes free before.
AGAIN_S = 10
DEFERRED_S = 60
#: A change that stays in progress is tried less and less often: after a tenth
#: of the time that it has been so, and at least so often.
MOST_AGAIN_S = 600
#: Time after which a change in progress ends without the answer of its host.
#: A host that is replaced, or is away with a deleted server, never gives one,
#: and nobody else could end the change. A day is longer than a repair in which
#: the user still waits for the change.
PATIENCE = datetime.timedelta(days=1)
#: Seconds between two looks at the database.
PAUSE_S = 5.0
#: Hosts that a worker asks at once.
THREADS = 8

#: Kinds of events after which a host has more room, and after which a server
#: is known to be on a host.
FREEING = frozenset({'released', 'dropped', 'changed', 'adapted'})
ARRIVING = frozenset({'claimed', 'applied'})


class Silence(Answer):
    """The answer for a host that gave none in time."""


class Hosts:
    """The RPC of the compute services.

    :param conf: the configuration
    :param find_bus: finds the URL of the message bus of a host; None if all of
        them are on ``[DEFAULT] transport_url``
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        find_bus: Callable[[str], str] | None = None,
    ) -> None:
        # Nova's own default of an option that it shares with others.
        oslo_messaging.set_transport_defaults('nova')
        self._conf = conf
        self._find_bus: Callable[[str], str | None]
        self._find_bus = find_bus or (lambda host: None)
        self._make_client = functools.cache(self._connect)

    def _connect(self, url: str | None) -> Any:
        return oslo_messaging.get_rpc_client(
            oslo_messaging.get_rpc_transport(self._conf, url=url),
            oslo_messaging.Target(
                topic=TOPIC, namespace=NAMESPACE, version=VERSION
            ),
            timeout=TIMEOUT_S,
            # Not for ever while the message bus is away.
            retry=1,
        )

    def ask(self, change: Change) -> Answer:
        """Ask the host of a server for its change.

        :returns: the answer; ``InProgress`` if it cannot be read or is an
            error, a :class:`Silence` if there was none
        """
        moves = change.on_no_room is OnNoRoom.MIGRATE
        found = None
        try:
            client = self._make_client(self._find_bus(change.host)).prepare(
                server=change.host, version=VERSION if moves else OLDER_VERSION
            )
            found = client.call(
                {}, 'change_reservation',
                server=change.server, generation=change.generation,
                flavor=change.flavor, reservation=str(change.desired),
                **({'migrate': True} if moves else {}),
            )  # fmt: skip
            return Answer.read(found)
        except Exception as err:
            # Of the driver, which has many, of Nova's database, or of an
            # answer that is none.
            said = str(err).partition('\n')[0] or type(err).__name__
            spoke = found is not None or isinstance(
                err, oslo_messaging.RemoteError
            )
            return (Answer if spoke else Silence)(
                Condition.IN_PROGRESS,
                f'no answer of nova-rt-compute on {change.host}: {said}',
            )


def _lease() -> datetime.timedelta:
    return datetime.timedelta(seconds=LEASE_S)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class Changes:
    """The changes that one worker takes care of.

    :param ask: asks a host, as :meth:`Hosts.ask`
    :param clock: says the time
    :param nova: moves servers; None without credentials
    """

    def __init__(
        self,
        ask: Callable[[Change], Answer],
        clock: Callable[[], datetime.datetime] = _now,
        nova: NovaAPI | None = None,
    ) -> None:
        self._ask = ask
        self._moves = Moves(ask, nova)
        self._clock = clock
        self._changed = threading.Condition()
        self._awake = self._stopping = self._failing = False
        self._freed: set[str] = set()
        #: Hosts that a thread of this worker asks.
        self._busy: set[str] = set()

    def wake(self, host: str | None = None) -> None:
        """Have the thread read the open changes at once.

        :param host: one on which bandwidth came free
        """
        with self._changed:
            self._awake = True
            if host is not None:
                self._freed.add(host)
            self._changed.notify()

    def note(self, kind: str, server: str, host: str) -> None:
        """Take the consequences of an event of the history.

        :raises api.ERRORS: one of them, if the database does not take them
        """
        if kind in FREEING:
            self.wake(host)
        elif kind in ARRIVING:
            db.note_host(server, host)

    def stop(self) -> None:
        """Begin no other change; others take over what has no answer."""
        with self._changed:
            self._stopping = True
            self._changed.notify()

    def run(self) -> None:
        """Take care of changes until stopped."""
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._awake or self._stopping, PAUSE_S
                )
                if self._stopping:
                    return
                self._awake = False
                freed, self._freed = self._freed, set()
            try:
                self.take(freed)
            except Exception:
                LOG.exception('Could not take changes of reservations')

    def take(self, freed: set[str]) -> list[threading.Thread]:
        """Take the changes that are due, each host in a thread of its own.

        Never waits for one: a change without a free thread is left in the
        database, for the next look or for another worker.

        :param freed: hosts on which bandwidth came free
        :returns: the threads
        """
        with self._changed:
            busy = set(self._busy)
        free = THREADS - len(busy)
        if not free:
            with self._changed:
                self._freed |= freed
            return []
        try:
            found = db.take_due(self._clock(), _lease(), freed, busy, free)
        except api.ERRORS as err:
            self._report(err)
            with self._changed:
                self._freed |= freed
            return []
        self._failing = False
        threads = []
        # Sorting is stable: the oldest of each host comes first.
        found.sort(key=lambda each: each.host)
        for host, changes in itertools.groupby(found, lambda each: each.host):
            thread = threading.Thread(
                target=self._work, args=(host, list(changes)), daemon=True
            )
            with self._changed:
                thread.start()
                self._busy.add(host)
            threads.append(thread)
        taken = {each.host for each in found}
        with self._changed:
            # Their changes may be deferred, and not due by themselves.
            self._freed |= freed & busy
            if len(taken) == free:
                self._freed |= freed - taken
        return threads

    def _report(self, err: Exception) -> None:
        if not self._failing:
            LOG.error(
                'Changes of reservations wait: the database %s',
                api.describe(err),
            )
        self._failing = True

    def _work(self, host: str, changes: list[Change]) -> None:
        silence = None
        try:
            for number, change in enumerate(changes):
                if self._stopping:
                    return
                # Those before it may have taken longer than the lease.
                held = (
                    db.renew(change, self._clock() + _lease())
                    if number
                    else change
                )
                if held is None:
                    continue
                answer = silence or self._ask(held)
                if isinstance(answer, Silence):
                    # It would not answer the others either.
                    silence = answer
                if self._is_hopeless(held, answer):
                    answer = _give_up(answer)
                self._finish(held, self._moves.follow(held, answer))
        except api.ERRORS as err:
            # The host does the same again, and answers the same.
            self._report(err)
        except Exception:
            # The others are due again when their lease has ended.
            LOG.exception('Could not finish changes of reservations')
        finally:
            with self._changed:
                self._busy.discard(host)
            # Changes that came meanwhile were left.
            self.wake()

    def _is_hopeless(self, change: Change, answer: Answer) -> bool:
        """Look whether a change has been in progress for too long.

        Not one that moves its server: nobody else would confirm that.
        """
        return (
            answer.condition is Condition.IN_PROGRESS
            and answer.host in ('', change.host)
            and change.moved_after is None
            and self._get_age(change) > PATIENCE
        )

    def _get_age(self, change: Change) -> datetime.timedelta:
        """Tell for how long attempts at a change have brought no progress."""
        if (
            change.answer.condition is not Condition.IN_PROGRESS
            # It was not tried yet, such as without a conductor.
            or not change.answer.reason
        ):
            return datetime.timedelta()
        return self._clock() - change.since

    def _choose_pause(
        self, change: Change, answer: Answer
    ) -> datetime.timedelta | None:
        """Choose the time until the next attempt.

        :returns: None if there is to be none
        """
        least = _AGAIN.get(answer.condition)
        moving = change.moved_after is not None
        if (
            least is None
            or answer.condition is not Condition.IN_PROGRESS
            # A move goes on step by step.
            or (moving and not isinstance(answer, Silence))
        ):
            return least
        longest = datetime.timedelta(seconds=MOST_AGAIN_S)
        return max(least, min(self._get_age(change) / 10, longest))

    def _finish(self, change: Change, answer: Answer) -> None:
        if (
            answer.condition is Condition.DEFERRED
            and change.on_no_room is OnNoRoom.FAIL
        ):
            answer = _give_up(answer)
        now = self._clock()
        again = self._choose_pause(change, answer)
        if answer.host not in ('', change.host):
            # It has moved: its new host knows nothing yet.
            again = datetime.timedelta()
            self.wake()
        if not db.note(change, answer, now, again):
            # Somebody else has asked meanwhile.
            return
        if again is None:
            metrics.CHANGES.labels(answer.condition).inc()
            metrics.CHANGE_SECONDS.observe(
                (now - change.asked_at).total_seconds()
            )
        LOG.info(
            'Change %d of reservation to %s is %s%s', change.generation,
            change.desired, answer.condition,
            f': {answer.reason}' if answer.reason else '',
            instance_uuid=change.server,
        )  # fmt: skip


_AGAIN = {
    Condition.IN_PROGRESS: datetime.timedelta(seconds=AGAIN_S),
    Condition.DEFERRED: datetime.timedelta(seconds=DEFERRED_S),
}


def _give_up(answer: Answer) -> Answer:
    return Answer(
        Condition.INFEASIBLE, answer.reason, answer.asked_ppm,
        answer.free_ppm, answer.rule, answer.host,
    )  # fmt: skip
