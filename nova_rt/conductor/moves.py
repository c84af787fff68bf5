# SPDX-License-Identifier: Apache-2.0
"""Moves of servers to hosts with room for a change: ``on_no_room = migrate``.

Nova's own cold migration moves them. The host of a server has noted the wish
by now, so that the scheduler looks for room for it (:mod:`.wish`) and the next
host claims it. Each look takes one step, and finds out from Nova which: a
conductor that dies loses nothing.

A change moves its server once at most. The last action of the server is stored
before its move is asked for; so a later ``migrate`` of the same user is that
move, even if the answer to the request was lost. A change whose move Nova does
not list any more, such as after a purge of its database, ends. Moves by others
are neither confirmed nor undone.
"""

from collections.abc import Callable
import dataclasses

from nova_rt.conductor.nova_api import (
    Action,
    Gone,
    NoAnswer,
    NotNow,
    NovaAPI,
    Refused,
)
from nova_rt.conf import nova_api
from nova_rt.db import changes as db
from nova_rt.formats.changes import Answer, Change, Condition, OnNoRoom

#: Actions after which a server waits for a confirmation.
_MOVES = ('migrate', 'resize')


class Superseded(Exception):
    """There is a newer change of the server, or somebody else has this one."""


class Moves:
    """The moves that one worker takes care of.

    :param ask: asks a host, as :meth:`.changes.Hosts.ask`
    :param nova: None without credentials
    """

    def __init__(
        self, ask: Callable[[Change], Answer], nova: NovaAPI | None
    ) -> None:
        self._ask = ask
        self._nova = nova

    def follow(self, change: Change, answer: Answer) -> Answer:
        """Take the next step of a move, if there is one to be taken.

        :param answer: of the host
        :returns: the answer to store
        """
        if change.on_no_room is not OnNoRoom.MIGRATE:
            return answer
        if answer.condition is Condition.IN_PROGRESS:
            if change.moved_after is None:
                return answer
        elif answer.condition is not Condition.DEFERRED:
            return answer
        if self._nova is None:
            return self._give_up(change, nova_api.NO_CREDENTIALS)
        try:
            return self._step(self._nova, change, answer)
        except Refused as err:
            if (
                isinstance(err, Gone)
                and answer.condition is Condition.IN_PROGRESS
            ):
                # Its host may never answer.
                return Answer(Condition.INFEASIBLE, str(err), gone=True)
            return self._give_up(change, str(err))
        except NoAnswer as err:
            return dataclasses.replace(
                answer, condition=Condition.IN_PROGRESS, reason=str(err)
            )
        except Superseded:
            return answer

    def _step(self, nova: NovaAPI, change: Change, answer: Answer) -> Answer:
        actions = nova.list_actions(change.server)
        if change.moved_after is None:
            latest = actions[0].request if actions else ''
            change = self._store(change, latest, '')
        move = self._find(nova, change, actions)
        # After the actions: one that is there has its task by now.
        server = nova.find_server(change.server)
        if move is None:
            return self._begin(nova, change, answer)
        if server.waiting and move == _find_last_move(actions):
            return self._confirm(nova, change, answer)
        if not server.idle:
            return _go_on(answer, f'migrating, now on {server.host}')
        if answer.condition is not Condition.DEFERRED:
            return answer
        # It is over, and the server is where it has no room.
        reason = 'it was migrated once already'
        if any(
            each.name == 'revertResize'
            for each in actions[: actions.index(move)]
        ):
            reason = 'the migration was reverted'
        elif move.failed:
            reason = nova.find_reason(change.server, move.request)
        return self._give_up(change, reason)

    @staticmethod
    def _confirm(nova: NovaAPI, change: Change, answer: Answer) -> Answer:
        try:
            nova.confirm(change.server)
        except Refused as err:
            # It may have been confirmed just now.
            return _go_on(answer, f'the move is not confirmed: {err}')
        return _go_on(answer, 'confirming the move')

    def _begin(self, nova: NovaAPI, change: Change, answer: Answer) -> Answer:
        if answer.condition is not Condition.DEFERRED:
            # Its host may not have the wish yet, or others move it.
            return answer
        # Somebody else may have taken it, and ask for the move just now.
        self._store(change, change.moved_after, change.moved_by)
        refusal = None
        try:
            nova.migrate(change.server)
        except NotNow as err:
            refusal = err
        # Another conductor may have been faster.
        move = self._find(nova, change, nova.list_actions(change.server))
        if move is None and refusal is not None:
            # Such as a locked server: the change may be withdrawn.
            self._store(change, None, '')
            raise refusal
        return _go_on(answer, f'migrating from {change.host}')

    def _find(
        self, nova: NovaAPI, change: Change, actions: list[Action]
    ) -> Action | None:
        """Find the move of a server for its change, and store it.

        :param actions: of the server
        :returns: None if it was not asked for
        :raises Refused: if Nova does not list it any more
        """
        move = _find_move(actions, change, nova.user)
        if move is None and change.moved_by:
            # Asking once more could move the server a second time.
            raise Refused(
                f'Nova lists {len(actions)} actions of server '
                f'{change.server}, and not its migration any more, request '
                f'{change.moved_by}: the outcome is unknown'
            )
        if move is not None and move.request != change.moved_by:
            self._store(change, change.moved_after, move.request)
        return move

    @staticmethod
    def _store(
        change: Change, moved_after: str | None, moved_by: str
    ) -> Change:
        if not db.note_move(change, moved_after, moved_by):
            raise Superseded
        return dataclasses.replace(
            change, moved_after=moved_after, moved_by=moved_by
        )

    def _give_up(self, change: Change, reason: str) -> Answer:
        """End a change that no move can help.

        Its host forgets the wish, or has room by now.

        :returns: the answer to store
        """
        answer = self._ask(
            dataclasses.replace(change, on_no_room=OnNoRoom.FAIL)
        )
        if not answer.asked_ppm:
            return answer
        said = (each for each in (reason, answer.reason) if each)
        return dataclasses.replace(
            answer, condition=Condition.INFEASIBLE, reason='; '.join(said)
        )


def _find_move(
    actions: list[Action], change: Change, user: str | None
) -> Action | None:
    """Find the move of a server that was asked for by its change.

    :param actions: the latest first
    :returns: None if it was not asked for, or is not listed
    """
    for each in actions:
        if each.request == change.moved_by:
            return each
        if each.request == change.moved_after:
            return None
        if (
            not change.moved_by
            and each.name == 'migrate'
            and each.user == user
        ):  # fmt: skip
            return each
    return None


def _find_last_move(actions: list[Action]) -> Action | None:
    return next((each for each in actions if each.name in _MOVES), None)


def _go_on(answer: Answer, reason: str) -> Answer:
    return dataclasses.replace(
        answer, condition=Condition.IN_PROGRESS, reason=reason
    )
