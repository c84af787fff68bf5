// SPDX-License-Identifier: Apache-2.0
/*
 * A task that wakes up as the budget of its group ends: it goes before another
 * task of the group, and must not have the CPU without a budget.
 */
#include "guest.h"

#define Q_US 4000
#define P_US 10000
#define LENGTH SEC

/* Wakes up around the end of the budget, at another moment in each period. */
static void late_task(uint64_t start)
{
	uint64_t k, wake;

	for (k = 0; k * P_US * US < LENGTH; k++) {
		wake = start + k * P_US * US + Q_US * US - 20 * US + k % 64 * 250;
		sleep_until(wake);
		/*
		 * The other task goes on with less than 10 us of the budget. The
		 * timer for its end takes 10 us, and this one comes before it.
		 */
		sleep_until(now_ns(CLOCK_MONOTONIC) + 4 * US);
		while (now_ns(CLOCK_MONOTONIC) < wake + (P_US - Q_US) * US)
			;
	}
}

static void task_main(int prio, uint64_t start)
{
	if (enter("t") || set_policy(0, SCHED_FIFO, prio))
		_exit(1);
	sleep_until(start);
	if (prio > 1)
		late_task(start);
	while (now_ns(CLOCK_MONOTONIC) < start + LENGTH)
		;
	_exit(0);
}

/* Beside a neighbour (5, 10). */
void test_overrun(__attribute__((unused)) const char *arg)
{
	uint64_t start;
	struct verdict v;

	make_group("t");
	make_group("v");
	expect(reserve("t", Q_US, P_US), 0, "0.4");
	expect(reserve("v", 5000, P_US), 0, "0.5");
	/* run_hogs() begins in 20 ms; 1 ms before that, t has the first deadline. */
	start = now_ns(CLOCK_MONOTONIC) + 19 * MS;
	if (!fork())
		task_main(1, start);
	if (!fork())
		task_main(2, start);
	hogs[0] = (struct hog){ .group = "v", .policy = SCHED_FIFO, .prio = 1,
				.q = 5000, .p = P_US };
	run_hogs(1, LENGTH - 20 * MS);
	judge(&hogs[0], LENGTH - 20 * MS, &v);
	check(kept(5000, P_US, &v), "(5, 10) beside it: %llu us at least, %d of %d periods short",
	      (unsigned long long)v.min / US, v.shorts, v.periods);
	remove_group("t");
	remove_group("v");
}
