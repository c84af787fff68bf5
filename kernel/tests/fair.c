// SPDX-License-Identifier: Apache-2.0
/* The fair server: from boot on, and beside reservations that sleep. */
#include "guest.h"

/* The CPU time in ms that nobody wanted since boot, in ticks of 10 ms. */
static long idle_ms(void)
{
	char *stat = get("/proc/stat");
	long user, nice, system, idle;

	if (sscanf(stat, "cpu %ld %ld %ld %ld", &user, &nice, &system, &idle) != 4)
		die("/proc/stat");
	return idle * 10;
}

/*
 * Before anything else has slept: init goes on running beside a root task. If
 * the kernel was never without fair tasks until here, and it was not, nothing
 * but boot itself can have started the fair server.
 */
void test_boot(__attribute__((unused)) const char *arg)
{
	uint64_t end = now_ns(CLOCK_MONOTONIC) + 5 * SEC, c0;
	long us;

	if (!fork()) {
		set_policy(0, SCHED_RR, 99);
		busy_until(end);
		_exit(0);
	}
	c0 = now_ns(CLOCK_THREAD_CPUTIME_ID);
	busy_until(end);
	us = (now_ns(CLOCK_THREAD_CPUTIME_ID) - c0) / US;
	wait(NULL);
	printf("value idle_ms %ld\n", idle_ms());
	printf("value fair_us %ld\n", us);
	check(us > 200000, "init has %ld us of 5 s beside RR-99", us);
}

/* Started with maxcpus=1: CPU 1 comes up for the first time. */
void test_later(__attribute__((unused)) const char *arg)
{
	uint64_t *out = shared(), end, c0;
	int i;

	expect(put("/sys/devices/system/cpu/cpu1/online", "1"), 0, "CPU 1 comes up");
	end = now_ns(CLOCK_MONOTONIC) + 5 * SEC;
	for (i = 0; i < 2; i++) {
		if (fork())
			continue;
		pin(1);
		if (!i)
			set_policy(0, SCHED_RR, 99);
		c0 = now_ns(CLOCK_THREAD_CPUTIME_ID);
		busy_until(end);
		out[i] = now_ns(CLOCK_THREAD_CPUTIME_ID) - c0;
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
	check(out[1] > 200 * MS && out[1] < 300 * MS,
	      "a fair hog has %llu us of 5 s there, RR-99 has %llu us",
	      (unsigned long long)out[1] / US, (unsigned long long)out[0] / US);
}

/* ---- beside reservations that take the whole CPU, and sleep ---- */

/* @on of every @period, from @start to @end. */
static void work(uint64_t start, uint64_t end, uint64_t on, uint64_t period)
{
	uint64_t t;

	for (t = start; t < end; t += period) {
		sleep_until(t);
		if (on == period) {
			busy_until(end);
			return;
		}
		busy_until(t + on);
	}
}

/* For 5 s; what the fair hog got. */
static uint64_t beside_group(uint64_t fifo, uint64_t group_on, uint64_t group_period,
			     uint64_t *late)
{
	uint64_t start = now_ns(CLOCK_MONOTONIC) + 20 * MS, end = start + 5 * SEC;
	uint64_t *out = shared(), t, c0, l, fair;

	if (!fork()) {
		set_policy(0, SCHED_FIFO, 99);
		if (!fifo) {
			sleep_until(start);
			busy_until(end);
			_exit(0);
		}
		for (t = start; t < end; t += 10 * MS) {
			sleep_until(t);
			l = now_ns(CLOCK_MONOTONIC) - t;
			if (l > out[1])
				out[1] = l;
			spin(fifo);
		}
		_exit(0);
	}
	if (group_on && !fork()) {
		if (enter("r") || set_policy(0, SCHED_FIFO, 1))
			_exit(1);
		work(start, end, group_on, group_period);
		_exit(0);
	}
	if (!fork()) {
		sleep_until(start);
		c0 = now_ns(CLOCK_THREAD_CPUTIME_ID);
		busy_until(end);
		out[0] = now_ns(CLOCK_THREAD_CPUTIME_ID) - c0;
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
	fair = out[0];
	*late = out[1];
	munmap(out, 4096);
	return fair;
}

void test_full(__attribute__((unused)) const char *arg)
{
	static const struct {
		const char *name;
		uint64_t on, period;
	} cases[] = {
		{ "a group that is always busy", 1, 1 },
		{ "a group that is busy 300 of 1000 ms", 300 * MS, 1000 * MS },
		{ "a group that is busy 50 of 130 ms", 50 * MS, 130 * MS },
		{ "a group that sleeps", 0, 0 },
	};
	uint64_t late, fair;
	unsigned int i;

	make_group("r");
	fair = beside_group(3 * MS, 0, 0, &late);
	check(late < MS, "nothing reserved: FIFO-99 is %llu us late, fair has %llu us of 5 s",
	      (unsigned long long)late / US, (unsigned long long)fair / US);
	expect(reserve("r", 9500, 10000), 0, "0.95");
	fair = beside_group(3 * MS, 0, 0, &late);
	check(late < MS, "0.95 that sleeps: FIFO-99 is %llu us late, fair has %llu us of 5 s",
	      (unsigned long long)late / US, (unsigned long long)fair / US);
	check(fair > 3300 * MS, "what FIFO-99 leaves is for fair tasks");
	/*
	 * And fair tasks have 5 %, whenever the group is busy; not in the first
	 * 0.95 s, and at most a budget more or less.
	 */
	for (i = 0; i < ARRAY(cases); i++) {
		fair = beside_group(0, cases[i].on, cases[i].period, &late);
		check(fair > 200 * MS && fair < 300 * MS,
		      "%s, beside a FIFO-99 hog: fair has %llu us of 5 s", cases[i].name,
		      (unsigned long long)fair / US);
	}
	remove_group("r");
}
