# SPDX-License-Identifier: Apache-2.0
"""Tests of the simulation: schedules by hand, right ones and wrong ones."""

import unittest

import cbs
import edf
import worlds

MS = 1_000_000
US = 1_000


def group(runtime_ms: int, period_ms: int) -> cbs.Server:
    """A reservation."""
    return cbs.Server(False, 's', runtime_ms * MS, period_ms * MS)


def task(runtime_ms: int, period_ms: int) -> cbs.Server:
    """A deadline task."""
    return cbs.Server(True, 's', runtime_ms * MS, period_ms * MS)


def play(
    servers: list[cbs.Server], events: str, end_ms: int, starving: bool = False
) -> edf.World:
    """What the simulation says of events.

    :param events: words "<us><what><server>": w wakes up, b blocks, > has the
        CPU from then on; "<us>>." for idle, "c" for a fair task
    """
    simulation = worlds.Simulation(servers, starving)
    simulation.start(0)
    simulation.switch(0, '.')
    for word in events.split():
        now, what, who = int(word[:-2]) * US, word[-2], word[-1]
        if what == 'w':
            simulation.wake(now, int(who))
        elif what == 'b':
            simulation.block(now, int(who))
        else:
            simulation.switch(now, int(who) if who.isdigit() else who)
    return simulation.finish(end_ms * MS)


class RulesTest(unittest.TestCase):
    """The rules for one server."""

    def state(self, runtime_ms: int, deadline_ms: int) -> cbs.State:
        """A state that sleeps."""
        return cbs.State(runtime_ms * MS, deadline=deadline_ms * MS)

    def test_zero_lag(self) -> None:
        server = group(3, 10)
        self.assertEqual(20 * MS, cbs.zero_lag(server, self.state(3, 30)))
        self.assertEqual(40 * MS, cbs.zero_lag(server, self.state(-3, 30)))
        self.assertEqual(30 * MS, cbs.zero_lag(server, self.state(0, 30)))

    def test_budget_that_is_too_much_for_the_time_left(self) -> None:
        state = self.state(1, 40)
        for server in (group(1, 4), task(1, 4)):
            # 1 ms needs 4 ms before the deadline.
            self.assertFalse(cbs.begins_anew(server, state, 30 * MS))
            self.assertTrue(cbs.begins_anew(server, state, 37 * MS))
        self.assertFalse(cbs.begins_anew(group(1, 4), state, 36 * MS))
        self.assertTrue(cbs.begins_anew(group(1, 4), state, 36 * MS + 1))

    def test_deadline_that_is_over(self) -> None:
        state = self.state(0, 40)
        self.assertFalse(cbs.begins_anew(group(1, 4), state, 40 * MS))
        self.assertTrue(cbs.begins_anew(group(1, 4), state, 40 * MS + 1))

    def test_what_the_clock_cannot_tell(self) -> None:
        state = self.state(1, 40)
        server = group(1, 4)
        self.assertTrue(cbs.undecided(server, state, 36 * MS + 10 * US))
        self.assertTrue(cbs.undecided(server, state, 36 * MS - 10 * US))
        self.assertFalse(cbs.undecided(server, state, 36 * MS + 100 * US))
        self.assertFalse(cbs.undecided(server, state, 36 * MS - 100 * US))


class OneServerTest(unittest.TestCase):
    """A reservation of (3, 10) ms alone."""

    def good(self, events: str, end_ms: int = 30) -> edf.World:
        """A schedule that is right."""
        return play([group(3, 10)], events, end_ms)

    def bad(self, events: str, text: str, end_ms: int = 30) -> None:
        """A schedule that is wrong."""
        with self.assertRaisesRegex(edf.Fault, text):
            self.good(events, end_ms)

    def test_budget_in_every_period(self) -> None:
        last = self.good('1000w0 1002>0 4004>. 11002>0 14003>. 21001>0', 24)
        self.assertLessEqual(last.worst, 5 * US)
        self.assertEqual(0, last.late)

    def test_budget_overrun(self) -> None:
        self.bad('1000w0 1002>0 4050>.', 'instead of none')

    def test_budget_not_all_given(self) -> None:
        self.bad('1000w0 1002>0 3900>.', 'idle has the CPU')

    def test_replenished_early(self) -> None:
        self.bad('1000w0 1002>0 4003>. 10000>0', 'throttled')

    def test_replenished_late(self) -> None:
        self.bad('1000w0 1002>0 4003>. 11040>0', 'idle has the CPU')

    def test_begins_late(self) -> None:
        self.bad('1000w0 1040>0', 'idle has the CPU')

    def test_overrun_is_taken_from_the_next_budget(self) -> None:
        # 20 us too long, three times, and nothing is taken: as time goes on,
        # the debt cannot be an error of the clock.
        late = '1000w0 1000>0 4020>. 11000>0 14020>. 21000>0 24020>.'
        self.bad(late + ' 31000>0', 'instead of none', 40)
        self.good('1000w0 1000>0 4020>. 11000>0 14003>. 21000>0 24003>.', 30)

        # An overrun that happens once may be an error of the clock. What is
        # above a piece's error is taken all the same.
        last = self.good('1000w0 1000>0 4020>. 11000>0', 12)
        self.assertEqual(
            2 * MS - 20 * US + cbs.PIECE_NS, last.states[0].runtime
        )

    def test_wakes_up_with_what_is_left(self) -> None:
        # 1 ms of 3 at 1 ms; at 3 ms, 2 ms in 7 are no more than 3 in 10.
        last = self.good(
            '0w0 0>0 1000b0 1000>. 3000w0 3002>0 5003>. 10001>0', 12
        )
        self.assertEqual(0, last.chosen)
        self.bad('0w0 0>0 1000b0 1000>. 3000w0 3002>0 6003>.', 'none')

    def test_wakes_up_with_too_much_left(self) -> None:
        # At 8 ms, 2 ms in 2 are too much: a new period, (3, 18).
        last = self.good(
            '0w0 0>0 1000b0 1000>. 8000w0 8002>0 11003>. 18001>0', 20
        )
        self.assertEqual(0, last.chosen)
        self.bad('0w0 0>0 1000b0 1000>. 8000w0 8002>0 10003>.', 'idle has')
        # The budget is new, and the deadline is not: 3 ms more at 10 ms.
        self.bad('0w0 0>0 1000b0 1000>. 8000w0 8002>0 13003>.', 'none')
        self.bad('0w0 0>0 1000b0 1000>. 8000w0 8002>0 11003>. 11010>0', 'none')

    def test_wakes_up_while_throttled(self) -> None:
        self.good('0w0 0>0 3001b0 3001>. 5000w0 10001>0', 12)
        self.bad('0w0 0>0 3001b0 3001>. 5000w0 5002>0', 'instead of none')

    def test_both_outcomes_until_one_is_contradicted(self) -> None:
        # 2 ms are left for 7.333 ms of the 10: the last us decides.
        wakes = '0w0 0>0 1000b0 1000>. 3333w0 3335>0 '
        keeps = self.good(wakes + '5336>. 10001>0', 12)
        begins = self.good(wakes + '6336>. 13335>0', 14)
        self.assertEqual(1, keeps.chosen + begins.chosen)
        self.bad(wakes + '5800>.', 'idle has')

    def test_left_in_the_queue(self) -> None:
        # Throttled and then asleep, while nobody or a fair task runs. It is
        # replenished at 10 ms, and has (3, 20) at 18 ms if it was left. When
        # that is used up, the deadline is over, and the next budget comes.
        asleep = '0w0 0>0 3001b0 3001>c 18000w0 18002>0 '
        rule = self.good(asleep + '21003>c 28001>0', 29)
        left = self.good(asleep + '24004>c 30001>0', 31)
        self.assertEqual(0, rule.stales)
        self.assertEqual(1, left.stales)
        # Later, so is the deadline after that, and a period begins.
        later = asleep.replace('18', '35')
        last = self.good(later + '41004>c 48001>0', 49)
        self.assertEqual(1, last.stales)
        # Beside a FIFO task, schedule() looks.
        asleep = asleep.replace('c', 'f')
        self.good(asleep + '21003>f 28001>0', 29)
        self.bad(asleep + '24004>f 30001>0', 'none', 31)

    def test_overrun_within_the_group(self) -> None:
        # Another task of the group wakes up as the budget ends.
        last = self.good('0w0 0>0 3001w0 3003>0 3500>.', 9)
        self.assertEqual(1, last.overruns)
        self.assertEqual(500, last.overrun // US)
        self.bad('0w0 0>0 2500w0 2502>0 3500>.', 'instead of none')


class SeveralServersTest(unittest.TestCase):
    """Servers beside each other."""

    def test_earliest_deadline_first(self) -> None:
        servers = [group(3, 10), task(40, 100)]
        play(servers, '0w1 0>1 5000w0 5002>0 8003>1 15001>0 18003>1', 20)
        with self.assertRaisesRegex(edf.Fault, 'server 1 .* instead of serv'):
            play(servers, '0w1 0>1 5000w0 8003>1', 20)
        with self.assertRaisesRegex(edf.Fault, 'server 1 .* instead of serv'):
            play(servers, '0w1 0>1 5000w0 5002>0 7000>1', 20)

    def test_later_deadline_does_not_preempt(self) -> None:
        servers = [group(3, 10), group(40, 100)]
        with self.assertRaisesRegex(edf.Fault, 'server 1 .* instead of serv'):
            play(servers, '0w0 0>0 1000w1 1002>1', 20)

    def test_first_in_the_queue_of_equal_deadlines(self) -> None:
        servers = [group(3, 10), group(3, 10)]
        last = play(servers, '0w1 0w0 0>1 3002>0 6003>.', 9)
        self.assertEqual(0, last.ties)

    def test_deadlines_that_the_clock_cannot_tell_apart(self) -> None:
        servers = [group(3, 10), group(3, 10)]
        last = play(servers, '0w1 2w0 2>0 3002>1 6003>.', 9)
        self.assertGreater(last.ties, 0)
        with self.assertRaises(edf.Fault):
            play(servers, '0w1 9w0 9>0 3010>1 6013>.', 9)

    def test_budget_left_at_the_deadline(self) -> None:
        # 0.6 and 0.6: the second one is late, and no decision is wrong.
        servers = [group(6, 10), group(60, 101)]
        rounds = ' '.join(f'{n}0001>0 {n}6002>1' for n in range(1, 10))
        with self.assertRaisesRegex(edf.Fault, 'after its deadline'):
            play(servers, f'0w0 0w1 0>0 6001>1 {rounds}', 104)

    def test_fair_server_only_if_fifo_starves(self) -> None:
        servers = [group(3, 10)]
        events = '0w0 0>0 1000>c 1200>0 3203>.'
        last = play(servers, events, 9, starving=True)
        self.assertEqual(200, last.fair // US)
        with self.assertRaisesRegex(edf.Fault, 'a fair task has'):
            play(servers, events, 9)

    def test_who_preempts_is_charged_from_the_wakeup(self) -> None:
        servers = [group(3, 10), group(40, 100)]
        last = play(servers, '0w1 0>1 1000w0 1003>0 2000b0 2000>1', 3)
        self.assertEqual(3 * MS - 1000 * US, last.states[0].runtime)
        self.assertEqual(40 * MS - 2000 * US, last.states[1].runtime)


if __name__ == '__main__':
    unittest.main()
