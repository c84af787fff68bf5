// SPDX-License-Identifier: Apache-2.0
/* What those who reserve nothing see; the same lines on any kernel. */
#include "guest.h"

static uint64_t ping_pong(int policy, uint64_t len)
{
	int a[2], b[2];
	uint64_t n = 0, end;
	char c = 0;
	pid_t pid;

	if (pipe(a) || pipe(b))
		die("pipe");
	pid = fork();
	if (!pid) {
		if (policy)
			set_policy(0, policy, 10);
		while (read(a[0], &c, 1) == 1 && write(b[1], &c, 1) == 1)
			;
		_exit(0);
	}
	if (policy)
		set_policy(0, policy, 10);
	usleep(10000);
	end = now_ns(CLOCK_MONOTONIC) + len;
	while (now_ns(CLOCK_MONOTONIC) < end) {
		if (write(a[1], &c, 1) != 1 || read(b[0], &c, 1) != 1)
			die("ping");
		n++;
	}
	set_policy(0, SCHED_OTHER, 0);
	end_child(pid);
	close(a[0]);
	close(a[1]);
	close(b[0]);
	close(b[1]);
	return n;
}

/* Worst and mean lateness in ns of 1000 timer wakeups of a FIFO task. */
static void wakeups(uint64_t *worst, uint64_t *mean)
{
	uint64_t t, late, sum = 0;
	int i;

	*worst = 0;
	set_policy(0, SCHED_FIFO, 80);
	t = now_ns(CLOCK_MONOTONIC) + MS;
	for (i = 0; i < 1000; i++, t += 300 * US) {
		sleep_until(t);
		late = now_ns(CLOCK_MONOTONIC) - t;
		sum += late;
		if (late > *worst)
			*worst = late;
	}
	*mean = sum / 1000;
	set_policy(0, SCHED_OTHER, 0);
}

void test_regress(__attribute__((unused)) const char *arg)
{
	uint64_t worst, mean;
	struct verdict v;

	printf("value pipe_fair %llu\n",
	       (unsigned long long)ping_pong(SCHED_OTHER, 200 * MS));
	printf("value pipe_fifo %llu\n",
	       (unsigned long long)ping_pong(SCHED_FIFO, 200 * MS));
	wakeups(&worst, &mean);
	printf("value wakeup_worst_ns %llu\nvalue wakeup_mean_ns %llu\n",
	       (unsigned long long)worst, (unsigned long long)mean);

	/* FIFO-99 against fair: the fair server's share */
	hogs[0] = (struct hog){ .policy = SCHED_FIFO, .prio = 99, .q = 1, .p = 1000 };
	hogs[1] = (struct hog){ .policy = SCHED_OTHER, .q = 1, .p = 1000 };
	run_hogs(2, 3 * SEC);
	printf("value fifo_us %llu\nvalue fair_us %llu\n",
	       (unsigned long long)hogs[0].cpu_ns / US,
	       (unsigned long long)hogs[1].cpu_ns / US);
	check(hogs[1].cpu_ns > 120 * MS && hogs[1].cpu_ns < 180 * MS,
	      "fair has 5 %% beside FIFO-99, within 1 %%");

	/* and with a deadline task */
	hogs[0] = (struct hog){ .policy = SCHED_FIFO, .prio = 99, .q = 1, .p = 1000 };
	hogs[1] = (struct hog){ .policy = DEADLINE, .q = 3000, .p = 10000 };
	run_hogs(2, 1 * SEC);
	judge(&hogs[1], 1 * SEC, &v);
	printf("value deadline_us %llu\nvalue deadline_least_us %llu\nvalue fifo_beside_us %llu\n",
	       (unsigned long long)hogs[1].cpu_ns / US, (unsigned long long)v.min / US,
	       (unsigned long long)hogs[0].cpu_ns / US);
	check(hogs[1].cpu_ns > 292 * MS && hogs[1].cpu_ns < 308 * MS,
	      "deadline task has 30 %% within 2.5 %%");
	check(hogs[0].cpu_ns > 682 * MS, "root FIFO has the rest within 2.5 %%");
}
