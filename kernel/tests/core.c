// SPDX-License-Identifier: Apache-2.0
/* Core scheduling: version 2, 4 CPUs that are threads of 2 cores. */
#include "guest.h"
#include <sys/prctl.h>

#define CORE_SCHED		62
#define CORE_SCHED_CREATE	1
#define THREAD_GROUP		1
#define TASKS			4

struct side {
	const char *group;
	uint64_t q;
	bool cookie;		/* one of its own */
	uint64_t cpu_ns[TASKS];
};

/* Both groups want all CPUs for @len ns. */
static void run(struct side *sides, uint64_t len)
{
	uint64_t start = now_ns(CLOCK_MONOTONIC) + 50 * MS, c0;
	int s, i;

	for (s = 0; s < 2; s++) {
		if (fork())
			continue;
		if (enter(sides[s].group))
			_exit(1);
		if (sides[s].cookie &&
		    prctl(CORE_SCHED, CORE_SCHED_CREATE, 0, THREAD_GROUP, 0))
			die("cookie");
		for (i = 0; i < TASKS; i++) {
			if (fork())
				continue;
			if (set_policy(0, SCHED_FIFO, 10))
				_exit(1);
			sleep_until(start);
			c0 = now_ns(CLOCK_THREAD_CPUTIME_ID);
			busy_until(start + len);
			sides[s].cpu_ns[i] = now_ns(CLOCK_THREAD_CPUTIME_ID) - c0;
			_exit(0);
		}
		while (wait(NULL) > 0)
			;
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
}

void test_core(__attribute__((unused)) const char *arg)
{
	struct side *sides = shared();
	uint64_t len = 400 * MS, got, most;
	int cookies, s, i;

	make_group("a");
	make_group("b");
	expect(reserve("a", 4000, 10000), 0, "0.4 on each CPU");
	expect(reserve("b", 3000, 10000), 0, "0.3 on each CPU");
	for (cookies = 0; cookies <= 2; cookies++) {
		memset(sides, 0, 2 * sizeof(*sides));
		sides[0] = (struct side){ .group = "a", .q = 4000, .cookie = cookies > 0 };
		sides[1] = (struct side){ .group = "b", .q = 3000, .cookie = cookies > 1 };
		run(sides, len);
		for (s = 0; s < 2; s++) {
			got = 0;
			for (i = 0; i < TASKS; i++)
				got += sides[s].cpu_ns[i] / US;
			most = TASKS * sides[s].q * (len / (10 * MS));
			check(got < most + 4000 && got > most / 2,
			      "%d cookies, %s: %llu us, sum of the servers %llu", cookies,
			      sides[s].group, (unsigned long long)got, (unsigned long long)most);
		}
	}
}
