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

/* @h got @want us, within @percent of that; the control only prints. */
static void share(const char *name, struct hog *h, uint64_t want, double percent, bool judged)
{
	uint64_t us = h->cpu_ns / US, off = want * percent / 100;

	printf("value %s_us %llu\n", name, (unsigned long long)us);
	if (judged) {
		check(us + off >= want && us <= want + off, "%s: %llu us of %llu, within %.1f %%",
		      name, (unsigned long long)us, (unsigned long long)want, percent);
	}
}

/*
 * The root's tasks beside a reservation of 0.5: FIFO-99, fair, and in the second
 * half a deadline task as well. Long, since the fair server runs once a second.
 * Its share is asked for within 1 % of the CPU, which is 20 % of the share.
 */
static void beside(bool judged)
{
	const struct hog fifo = { .policy = SCHED_FIFO, .prio = 99, .q = 1, .p = 1000 };
	const struct hog fair = { .policy = SCHED_OTHER, .q = 1, .p = 1000 };
	const struct hog group = { .group = "r", .policy = SCHED_FIFO, .prio = 1,
				   .q = 5000, .p = 10000 };
	const struct hog deadline = { .policy = DEADLINE, .q = 3000, .p = 10000 };

	make_group("r");
	expect(reserve("r", 5000, 10000), 0, "0.5");
	hogs[0] = fifo;
	hogs[1] = fair;
	hogs[2] = group;
	run_hogs(3, 10 * SEC);
	share("group", &hogs[2], 5000000, 0.1, judged);
	share("fair", &hogs[1], 500000, 20, judged);
	share("fifo", &hogs[0], 4500000, 2.5, judged);

	hogs[0] = fifo;
	hogs[1] = fair;
	hogs[2] = group;
	hogs[3] = deadline;
	run_hogs(4, 10 * SEC);
	share("group_and_deadline", &hogs[2], 5000000, 0.1, judged);
	share("deadline", &hogs[3], 3000000, 2.5, judged);
	share("fair_and_deadline", &hogs[1], 500000, 20, judged);
	share("fifo_and_deadline", &hogs[0], 1500000, 2.5, judged);
}

void test_beside(__attribute__((unused)) const char *arg)
{
	beside(true);
	/* A value that is written again and again gains nothing. */
	run_resize();
	remove_group("r");
}

/* The same on a kernel that promises nothing. */
void test_beside_control(__attribute__((unused)) const char *arg)
{
	beside(false);
	remove_group("r");
}
