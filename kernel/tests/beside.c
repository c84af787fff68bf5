// SPDX-License-Identifier: Apache-2.0
/* The root's tasks beside a reservation, and changes of its parameters. */
#include "guest.h"

/*
 * While the group's hog runs for 1 s, change its parameters all the time. With
 * a bandwidth that never exceeds 0.5 it must not get more than that.
 */
static void run_resize(void)
{
	uint64_t *out = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0), end, c0;
	int i = 0;
	pid_t pid;

	pid = fork();
	if (!pid) {
		if (enter("r") || set_policy(0, SCHED_FIFO, 10))
			_exit(1);
		c0 = now_ns(CLOCK_THREAD_CPUTIME_ID);
		end = now_ns(CLOCK_MONOTONIC) + SEC;
		while (now_ns(CLOCK_MONOTONIC) < end)
			;
		*out = now_ns(CLOCK_THREAD_CPUTIME_ID) - c0;
		_exit(0);
	}
	end = now_ns(CLOCK_MONOTONIC) + SEC;
	while (now_ns(CLOCK_MONOTONIC) < end) {
		int p = 4000 + 1000 * (i++ % 7);

		if (put(cg("r", "cpu.rt.max"), "%d %d", p / 2, p))
			failures++;
		usleep(700);
	}
	waitpid(pid, NULL, 0);
	check(*out < 510 * MS && *out > 300 * MS,
	      "%d changes of (Q, P) at 0.5 in 1 s: %llu us", i, (unsigned long long)*out / US);
	munmap(out, 4096);
}

/* The root's FIFO and fair tasks beside a reservation of 0.5. */
void test_beside(__attribute__((unused)) const char *arg)
{
	make_group("r");
	expect(reserve("r", 5000, 10000), 0, "0.5");
	hogs[0] = (struct hog){ .policy = SCHED_FIFO, .prio = 99, .q = 1, .p = 1000 };
	hogs[1] = (struct hog){ .policy = SCHED_OTHER, .q = 1, .p = 1000 };
	hogs[2] = (struct hog){ .group = "r", .policy = SCHED_FIFO, .prio = 1,
				.q = 5000, .p = 10000 };
	/* long, since the fair server runs once a second and late */
	run_hogs(3, 10 * SEC);
	check(hogs[2].cpu_ns > 4995 * MS && hogs[2].cpu_ns < 5005 * MS,
	      "group: %llu us of 5000000", (unsigned long long)hogs[2].cpu_ns / US);
	check(hogs[1].cpu_ns > 400 * MS && hogs[1].cpu_ns < 600 * MS,
	      "fair server: %llu us of 500000", (unsigned long long)hogs[1].cpu_ns / US);
	check(hogs[0].cpu_ns > 4250 * MS && hogs[0].cpu_ns < 4750 * MS,
	      "root FIFO: %llu us of 4500000", (unsigned long long)hogs[0].cpu_ns / US);

	/* A value that is written again and again gains nothing. */
	run_resize();
	remove_group("r");
}
