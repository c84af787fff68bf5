// SPDX-License-Identifier: Apache-2.0
/*
 * Groups hold all of a CPU that the fair server leaves: version 2, 1 CPU. While they
 * do not use it, fair tasks are to wait for root's FIFO tasks as on any other CPU; when
 * they do, fair tasks still have their share.
 */
#include "guest.h"

#define LEN (4 * SEC)
#define EVERY (10 * MS)

static uint64_t *late;	/* how late the periodic task was at worst, in ns */

/* A FIFO task that wakes up every 10 ms from @start on, to run for @run ns. */
static void periodic(const char *group, int prio, uint64_t start, uint64_t run, bool noted)
{
	uint64_t t, now;

	if (fork())
		return;
	if ((group && enter(group)) || set_policy(0, SCHED_FIFO, prio)) {
		printf("FAIL becoming a FIFO task\n");
		_exit(1);
	}
	for (t = start; t < start + LEN; t += EVERY) {
		sleep_until(t);
		now = now_ns(CLOCK_MONOTONIC);
		if (noted && now - t > *late)
			*late = now - t;
		spin(run);
	}
	_exit(0);
}

/* Beside a fair hog, a root FIFO task waits no longer than @most_us. */
static void waits(const char *what, uint64_t group_run, uint64_t most_us)
{
	uint64_t start = now_ns(CLOCK_MONOTONIC) + 50 * MS;

	*late = 0;
	periodic(NULL, 50, start, 1 * MS, true);
	if (group_run)
		periodic("r", 10, start + 5 * MS, group_run, false);
	hogs[0] = (struct hog){ .policy = SCHED_OTHER, .q = 1, .p = 1000 };
	run_hogs(1, LEN);
	check(*late / US <= most_us, "%s: FIFO waits up to %llu us, allowed %llu", what,
	      (unsigned long long)(*late / US), (unsigned long long)most_us);
}

/* The group's hog begins @later ns after the others, which have all until then. */
static void shares(const char *what, uint64_t later)
{
	struct verdict v;
	uint64_t us;

	hogs[0] = (struct hog){ .policy = SCHED_OTHER, .q = 1, .p = 1000 };
	hogs[1] = (struct hog){ .policy = SCHED_FIFO, .prio = 99, .q = 1, .p = 1000 };
	hogs[2] = (struct hog){
		.group = "r", .policy = SCHED_FIFO, .prio = 10, .q = 9400, .p = 10000,
		.later_ns = later,
	};
	run_hogs(3, LEN + later);
	judge(&hogs[2], LEN, &v);
	check(kept(9400, 10000, &v), "%s: worst period %llu us of 9400, short %d of %d", what,
	      (unsigned long long)(v.min / US), v.shorts, v.periods);
	us = hogs[0].cpu_ns / US;
	/* The first period may be lost. */
	check(us >= LEN / US / 20 - 50000 - 5000, "%s: fair task has %llu us of %llu", what,
	      (unsigned long long)us, LEN / US / 20);
}

void test_defer(__attribute__((unused)) const char *arg)
{
	late = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (late == MAP_FAILED)
		die("memory");
	waits("nothing reserved", 0, 500);
	make_group("r");
	expect(reserve("r", 9500, 10000), 0, "all of the CPU is reserved");
	waits("the group sleeps", 0, 500);
	waits("it has 3 ms of 10", 3 * MS, 500);
	/*
	 * A whole CPU is more than there is: what the kernel itself takes is missing to
	 * those that use all that they have.
	 */
	expect(reserve("r", 9400, 10000), 0, "all but 0.01");
	shares("all of them run", 0);
	shares("the group wakes up later", 2500 * MS);
	remove_group("r");
}
