// SPDX-License-Identifier: GPL-2.0-only
/*
 * What tasks without reservation have of the scheduler, and what they have of the
 * kernel's own (EEVDF), by the virtual clock. Each measure is better the more it is,
 * except for the latencies.
 */
#include "guest.h"

#define LENGTH (2 * SEC)
#define MAX_WAKES 2000
#define RUN_US 50

static struct {
	double pairs, forks, p50, p99, max;
} *shared;

static double share_of(int i, int n)
{
	uint64_t sum = 0;
	int j;

	for (j = 0; j < n; j++)
		sum += hogs[j].work;
	return sum ? (double)hogs[i].work / sum : 0;
}

/* Endless tasks on all CPUs: their work, and the least one's share. */
static void endless(int n, double *work, double *least)
{
	int i;

	for (i = 0; i < n; i++)
		new_hog(i, "");
	start_hogs(n, now_ns() + 50 * MS, LENGTH);
	reap_hogs(n);
	*work = 0;
	*least = 1;
	for (i = 0; i < n; i++) {
		*work += hogs[i].work;
		if (share_of(i, n) < *least)
			*least = share_of(i, n);
	}
}

/* A task of nice 10 beside @n of nice 0, on one CPU. */
static double of_nice(int n)
{
	int i;

	for (i = 0; i <= n; i++)
		new_hog(i, "")->cpu = 1;
	hogs[n].nice = 10;
	start_hogs(n + 1, now_ns() + 50 * MS, LENGTH);
	reap_hogs(n + 1);
	return share_of(n, n + 1);
}

/*
 * A task in one unit, or of the root, beside @n of nice @nice in another unit, which is
 * given @weight, on one CPU: the first one's share. A unit is a service or a container of
 * systemd.
 */
static double of_unit(const char *unit, int n, int nice, int weight)
{
	int i;

	for (i = 0; i <= n; i++) {
		new_hog(i, i < n ? "s/many" : unit)->cpu = 1;
		hogs[i].nice = i < n ? nice : 0;
	}
	start_hogs(n + 1, now_ns() + 50 * MS, LENGTH);
	usleep(60000);
	put(cg("s/many", "cpu.weight"), "%d", weight);
	reap_hogs(n + 1);
	return share_of(n, n + 1);
}

/* Of the only task of a unit beside one that does @run, on one CPU: its part of the CPU. */
static double beside_unit(void (*run)(uint64_t end))
{
	uint64_t t0 = now_ns() + 2 * SEC;
	int status;
	pid_t pid;

	put(cg("s/many", "cpu.weight"), "100");
	new_hog(0, "s/one")->cpu = 1;
	pid = fork_flushed();
	if (!pid) {
		if (enter("s/many") || pin(0))
			_exit(1);
		run(t0 + LENGTH);
		_exit(0);
	}
	start_hogs(1, t0, LENGTH);
	reap_hogs(1);
	waitpid(pid, &status, 0);
	return status ? 0 : (double)hogs[0].cpu_ns / LENGTH;
}

#define CROWD 300

static void crowd_until(uint64_t end)
{
	int i;

	for (i = 0; i < CROWD; i++) {
		pid_t pid = fork();

		if (pid < 0)
			_exit(1);
		if (!pid) {
			busy_until(end);
			_exit(0);
		}
	}
	while (wait(NULL) > 0)
		;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* A task that sleeps for @pause and works for 50 us: how long after its time it runs. */
static void wake_after(uint64_t pause, uint64_t end)
{
	static uint64_t late[MAX_WAKES];
	uint64_t next = now_ns();
	int n = 0;

	while (n < MAX_WAKES && now_ns() < end) {
		next = now_ns() + pause;
		sleep_until(next);
		late[n++] = now_ns() - next;
		busy_until(now_ns() + RUN_US * US);
	}
	qsort(late, n, sizeof(*late), compare);
	shared->p50 = late[n / 2] / 1e3;
	shared->p99 = late[n * 99 / 100] / 1e3;
	shared->max = late[n - 1] / 1e3;
}

static void wakes(uint64_t end)
{
	wake_after(MS, end);
}

static void seldom(uint64_t end)
{
	wake_after(70 * MS, end);
}

static void pairs(uint64_t end)
{
	shared->pairs = ping_pong(end);
}

static void forks(uint64_t end)
{
	shared->forks = fork_storm(end);
}

/* One of them in a process of its own, beside @n endless tasks. */
static void beside(int n, void (*run)(uint64_t end))
{
	uint64_t t0 = now_ns() + 50 * MS;
	pid_t pid;
	int i;

	for (i = 0; i < n; i++)
		new_hog(i, "");
	start_hogs(n, t0, LENGTH);
	pid = fork_flushed();
	if (!pid) {
		sleep_until(t0 + 50 * MS);
		run(t0 + LENGTH);
		_exit(0);
	}
	reap_hogs(n);
	waitpid(pid, NULL, 0);
}

#define MEASURES 22

static const struct {
	const char *name;
	double least, most;	/* of EEVDF's; 0: no bound */
	/* On two CPUs EEVDF gives a unit half of its weight on each, and so a third here. */
	bool divided;
} measures[MEASURES] = {
	{ "work of 4 endless tasks", 0.95, 0, false },
	{ "least share of 4 endless tasks", 0.75, 0, false },
	{ "least share of 3 endless tasks", 0.5, 0, false },
	{ "share of nice 10 beside nice 0", 0, 0, false },
	{ "pairs of wake-ups, alone", 0.5, 0, false },
	{ "pairs of wake-ups, beside 4", 0, 0, false },
	{ "forks, alone", 0.5, 0, false },
	{ "forks, beside 4", 1, 0, false },
	{ "latency p50 of a sleeper, beside 4, us", 0, 1.5, false },
	{ "latency p99 of a sleeper, beside 4, us", 0, 1.2, false },
	{ "latency max of a sleeper, beside 4, us", 0, 0, false },
	{ "latency p99 of a sleeper, alone, us", 0, 1.2, false },
	{ "share of nice 10 beside two of nice 0", 0, 0, false },
	{ "latency max after 70 ms, beside 4, us", 0, 0, false },
	{ "share of a unit beside one with 10 tasks", 0.9, 1.1, true },
	{ "share of a unit beside one of weight 300", 0.9, 1.1, true },
	{ "share of a unit beside one of weight 25", 0.9, 1.1, true },
	{ "share of a task of the root beside a unit", 0.9, 1.1, true },
	{ "share of a unit beside one with 300 tasks", 0.8, 0, false },
	{ "share of a unit beside one that forks", 0.9, 0, false },
	{ "share of a unit beside one of nice -10", 0.9, 1.1, true },
	/* No task has less than a quarter of an equal part. */
	{ "share of an idle unit beside another", 0, 60, true },
};

static void measure(double *out)
{
	double work;

	endless(4, &out[0], &out[1]);
	endless(3, &work, &out[2]);
	out[3] = of_nice(1);
	beside(0, pairs);
	out[4] = shared->pairs;
	beside(4, pairs);
	out[5] = shared->pairs;
	beside(0, forks);
	out[6] = shared->forks;
	beside(4, forks);
	out[7] = shared->forks;
	beside(4, wakes);
	out[8] = shared->p50;
	out[9] = shared->p99;
	out[10] = shared->max;
	beside(0, wakes);
	out[11] = shared->p99;
	out[12] = of_nice(2);
	beside(4, seldom);
	out[13] = shared->max;
	out[14] = of_unit("s/one", 10, 0, 100);
	out[15] = of_unit("s/one", 4, 0, 300);
	out[16] = of_unit("s/one", 4, 0, 25);
	out[17] = of_unit("", 4, 0, 100);
	out[18] = beside_unit(crowd_until);
	out[19] = beside_unit(forks);
	out[20] = of_unit("s/one", 4, -10, 100);
	put(cg("s/one", "cpu.idle"), "1");
	out[21] = of_unit("s/one", 4, 0, 100);
	put(cg("s/one", "cpu.idle"), "0");
}

void test_ordinary(const char *arg)
{
	double fair[MEASURES], ours[MEASURES];
	int i;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	check(!make_group("s") && !put(cg("s", "cgroup.subtree_control"), "+cpu") &&
	      !make_group("s/many") && !make_group("s/one"), "two units");
	/* Only then the kernel has found its clock, and a reading of it costs as much. */
	sleep_until(3 * SEC);
	measure(fair);
	check(start_daemon(), "the scheduler is loaded");
	measure(ours);
	check(scheduler_is("enabled"), "the scheduler is still there");
	check(stop_daemon() == 0, "the daemon stops");
	for (i = 0; i < MEASURES; i++) {
		double least = measures[i].least, most = measures[i].most;
		bool ok;

		if (*arg && measures[i].divided)
			most *= 1.6;
		ok = ours[i] >= least * fair[i] && (!most || ours[i] <= most * fair[i]);
		printf("%s ORDINARY %-40s EEVDF %12.2f nova_rt %12.2f\n",
		       least || most ? ok ? "ok  " : "FAIL" : "----", measures[i].name,
		       fair[i], ours[i]);
		failures += !ok;
	}
}
