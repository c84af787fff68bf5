// SPDX-License-Identifier: Apache-2.0
/* A second task of a group wakes up in the last moment of the group's budget. */
#include "guest.h"

#define STEP 100	/* ns */
#define STEPS 300
#define LATEST (20 * US)	/* the server starts a little later than the hog is due */

/*
 * It has a higher priority than the hog of its group. Whenever it comes, what is
 * left of the budget is all that it may have until the next period: nothing if it
 * comes first 20 us late, and some 10 us when it comes that much early at last.
 */
void test_edge(__attribute__((unused)) const char *arg)
{
	uint64_t *out = shared();
	uint64_t start, due, used = 0, c0, *first = out + 2, *last = out + 3;
	pid_t hog, guest;
	int i;

	make_group("g");
	expect(reserve("g", 3000, 10000), 0, "3 of 10 ms");
	start = now_ns(CLOCK_MONOTONIC) + 50 * MS;
	hog = fork();
	if (!hog) {
		if (enter("g") || set_policy(0, SCHED_FIFO, 10))
			_exit(1);
		/* The server's periods begin here. */
		sleep_until(start);
		for (;;)
			;
	}
	guest = fork();
	if (!guest) {
		if (enter("g") || set_policy(0, SCHED_FIFO, 20))
			_exit(1);
		for (i = 0; i < STEPS; i++) {
			due = start + (i + 1) * 20 * MS + 3 * MS + LATEST - i * STEP;
			sleep_until(due);
			c0 = now_ns(CLOCK_THREAD_CPUTIME_ID);
			busy_until(due + 5 * MS);
			used = now_ns(CLOCK_THREAD_CPUTIME_ID) - c0;
			if (used > out[0]) {
				out[0] = used;
				out[1] = i;
			}
			if (!i)
				*first = used;
		}
		*last = used;
		_exit(0);
	}
	waitpid(guest, NULL, 0);
	kill(hog, SIGKILL);
	waitpid(hog, NULL, 0);
	check(*last > *first + 5 * US, "after the end of a budget it has %llu us, before it %llu us",
	      (unsigned long long)*first / US, (unsigned long long)*last / US);
	check(out[0] < tolerance(3000, 10000, 0),
	      "%d times at the end of a budget: at most %llu us, at number %llu", STEPS,
	      (unsigned long long)out[0] / US, (unsigned long long)out[1]);
	expect(remove_group("g"), 0, "rmdir");
}
