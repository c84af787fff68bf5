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

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/*
 * Lateness in ns of 1000 timer wakeups of a FIFO task, one in each microsecond
 * between two ticks. Some ten of them meet the tick, and maybe something else; the
 * others differ by 10 ns. So the 98th percentile is of the wakeup, and the 99th of
 * how many met the tick.
 */
static void wakeups(const char *name)
{
	static uint64_t late[1000];
	uint64_t t, sum = 0;
	int i;

	set_policy(0, SCHED_FIFO, 80);
	t = now_ns(CLOCK_MONOTONIC) + MS;
	for (i = 0; i < 1000; i++, t += 317 * US) {
		sleep_until(t);
		late[i] = now_ns(CLOCK_MONOTONIC) - t;
		sum += late[i];
	}
	set_policy(0, SCHED_OTHER, 0);
	qsort(late, 1000, sizeof(*late), by_size);
	printf("value %s_mean_ns %llu\n", name, (unsigned long long)sum / 1000);
	printf("value %s_p98_ns %llu\n", name, (unsigned long long)late[979]);
	printf("value %s_worst_ns %llu\n", name, (unsigned long long)late[999]);
}

void test_regress(__attribute__((unused)) const char *arg)
{
	uint64_t us;
	pid_t pid;

	printf("value pipe_fair %llu\n",
	       (unsigned long long)ping_pong(SCHED_OTHER, 200 * MS));
	printf("value pipe_fifo %llu\n",
	       (unsigned long long)ping_pong(SCHED_FIFO, 200 * MS));
	wakeups("wakeup");
	pid = fork();
	if (!pid) {
		for (;;)
			;
	}
	wakeups("wakeup_loaded");
	end_child(pid);

	/* FIFO-99 against fair: the fair server's share */
	hogs[0] = (struct hog){ .policy = SCHED_FIFO, .prio = 99, .q = 1, .p = 1000 };
	hogs[1] = (struct hog){ .policy = SCHED_OTHER, .q = 1, .p = 1000 };
	pin(0);
	run_hogs(2, 3 * SEC);
	unpin();
	us = hogs[1].cpu_ns / US;
	printf("value fifo_us %llu\nvalue fair_us %llu\n",
	       (unsigned long long)hogs[0].cpu_ns / US, (unsigned long long)us);
	check(us > 148500 && us < 151500, "fair has 5 %% of 3 s beside FIFO-99, within 1 %%");

	/* and with a deadline task */
	hogs[0] = (struct hog){ .policy = SCHED_FIFO, .prio = 99, .q = 1, .p = 1000 };
	hogs[1] = (struct hog){ .policy = DEADLINE, .q = 3000, .p = 10000 };
	run_hogs(2, 1 * SEC);
	us = hogs[1].cpu_ns / US;
	printf("value deadline_us %llu\nvalue fifo_beside_us %llu\n",
	       (unsigned long long)us, (unsigned long long)hogs[0].cpu_ns / US);
	check(us > 292500 && us < 307500, "deadline task has 30 %% within 2.5 %%");
	us = hogs[0].cpu_ns / US;
	check(us > 682500, "root FIFO has the rest within 2.5 %%");
}
