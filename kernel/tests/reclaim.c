// SPDX-License-Identifier: Apache-2.0
/*
 * A deadline task that reclaims (SCHED_FLAG_RECLAIM) takes only what is not in use
 * on its CPU: version 2, 4 CPUs. Its period is the shortest, so it runs before the
 * group.
 */
#include "guest.h"

#define LIMIT "/proc/sys/kernel/sched_rt_runtime_us"
#define LEN (500 * MS)
#define TASK_US (LEN / US / 20)	/* what the task is owed */

/* The CPU time of a task of (50 us, 1 ms) that reclaims, on CPU 0. */
static void fork_task(uint64_t start, uint64_t *out)
{
	uint64_t c0;

	if (fork())
		return;
	/* Only while nothing is limited may a deadline task be pinned. */
	pin(0);
	if (put(LIMIT, "-1") || set_reclaiming_deadline(50 * US, 1 * MS) ||
	    put(LIMIT, "1000000")) {
		printf("FAIL becoming a deadline task: %s\n", strerror(errno));
		_exit(1);
	}
	sleep_until(start);
	c0 = now_ns(CLOCK_THREAD_CPUTIME_ID);
	while (now_ns(CLOCK_MONOTONIC) < start + LEN)
		;
	*out = now_ns(CLOCK_THREAD_CPUTIME_ID) - c0;
	_exit(0);
}

static void beside(int q_us, uint64_t least_us, uint64_t most_us)
{
	uint64_t *out = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t us, want = LEN / 10000 * q_us / US;

	if (out == MAP_FAILED)
		die("memory");
	make_group("r");
	expect(put(cg("r", "cpuset.cpus"), "0"), 0, "a group on CPU 0");
	expect(reserve("r", q_us, 10000), 0, "its reservation");
	hogs[0] = (struct hog){
		.group = "r", .policy = SCHED_FIFO, .prio = 10, .q = q_us, .p = 10000,
	};
	fork_task(now_ns(CLOCK_MONOTONIC) + 20 * MS, out);
	run_hogs(1, LEN);
	us = *out / US;
	check(us >= least_us && us <= most_us,
	      "task of 0.05 beside (%d, 10000) us: %llu us of %llu to %llu", q_us,
	      (unsigned long long)us, (unsigned long long)least_us,
	      (unsigned long long)most_us);
	us = hogs[0].cpu_ns / US;
	check(us + 1000 >= want && us <= want + 1000, "the group: %llu us of %llu",
	      (unsigned long long)us, (unsigned long long)want);
	remove_group("r");
	usleep(50000);
	munmap(out, 4096);
}

void test_reclaim(__attribute__((unused)) const char *arg)
{
	expect(put(LIMIT, "1000000"), 0, "all of the CPU");
	beside(9000, TASK_US - 500, TASK_US * 23 / 20);
	/* Nobody else wants the rest, so it gets more than it is owed. */
	beside(3000, TASK_US * 2, TASK_US * 5);
}
