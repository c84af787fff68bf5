// SPDX-License-Identifier: Apache-2.0
/* Any commit of the series: groups have no RT tasks, or these are limited. */
#include "guest.h"

void test_bisect(__attribute__((unused)) const char *arg)
{
	uint64_t us;
	int status;
	pid_t pid;

	make_group("g");
	make_group("none");
	expect(reserve("g", 3000, 10000), 0, "3 ms in 10 ms");
	us = burn("g", 0, 500 * MS) / US;
	printf("value group_us %llu\n", (unsigned long long)us);
	check(us < 180000, "FIFO in a group of 0.3 is refused or limited: %llu us of 500000",
	      (unsigned long long)us);

	pid = fork();
	if (!pid) {
		if (enter("none"))
			_exit(EBADF);
		_exit(set_policy(0, SCHED_FIFO, 10));
	}
	waitpid(pid, &status, 0);
	expect(WEXITSTATUS(status), EPERM, "a task becomes FIFO in a group without runtime");
	pid = fork();
	if (!pid) {
		set_policy(0, SCHED_FIFO, 10);
		_exit(enter("none"));
	}
	waitpid(pid, &status, 0);
	expect(WEXITSTATUS(status), EINVAL, "a FIFO task moves to a group without runtime");

	hogs[0] = (struct hog){ .policy = SCHED_FIFO, .prio = 99, .q = 1, .p = 1000 };
	hogs[1] = (struct hog){ .policy = SCHED_OTHER, .q = 1, .p = 1000 };
	run_hogs(2, 2 * SEC);
	us = hogs[1].cpu_ns / US;
	check(us > 50000, "a fair task beside FIFO of the root group has %llu us of 2 s",
	      (unsigned long long)us);
}
