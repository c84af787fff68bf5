// SPDX-License-Identifier: Apache-2.0
/*
 * What a reservation owes, and whether it kept that: the one place with these
 * numbers. scripts/table.py reads the verdict from the log, and
 * scripts/test_bounds.py tries the bounds.
 */
#include "guest.h"

/* A gap may be longer than the sum of the waits by this, and a period shorter. */
#define MARGIN_NS (15 * US)
#define ACCT_PPM 1000

/* On this CPU of one instruction per ns, charged to who is interrupted. */
#define SWITCH_NS 4500
#define TASK_SWITCH_NS 3000
#define FEW 6

/*
 * What a period may lack: 15 us, or 3 us and what it costs that others interrupt it
 * a few times, or 1.5 %. If that is more often than every 0.25 ms, 2.5 %: beside two
 * reservations of 0.1 ms in 0.5 ms, it costs 1.4 to 2.1 %.
 */
uint64_t tolerance(int q_us, int p_us, int interruptions)
{
	uint64_t share = q_us * US * (interruptions * 250 > p_us ? 25 : 15) / 1000;
	int few = interruptions < FEW ? interruptions : FEW;
	uint64_t floor = 3 * US + few * SWITCH_NS;

	if (floor < MARGIN_NS)
		floor = MARGIN_NS;
	return share > floor ? share : floor;
}

/* The same of a deadline task, which groups may interrupt at any time. */
uint64_t task_tolerance(int q_us, int p_us, int interruptions)
{
	uint64_t cost = interruptions * TASK_SWITCH_NS;
	uint64_t few = tolerance(q_us, p_us, interruptions);

	return cost > few ? cost : few;
}

/*
 * No period with less work or more than it is owed, no gap above two waits, the
 * accounted time right: but for @paid_ns that may have moved in a period, to a group
 * from those that preempt it, or from it.
 */
bool kept(int q_us, int p_us, int paid_ns, const struct verdict *v)
{
	int64_t bound = ACCT_PPM + (int64_t)paid_ns * 1000 / q_us;

	return v->periods > 0 && !v->shorts && !v->overs &&
	       v->gap <= 2 * (p_us - q_us) * US + MARGIN_NS &&
	       v->acct_ppm > -bound && v->acct_ppm < bound;
}
