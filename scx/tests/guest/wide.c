// SPDX-License-Identifier: GPL-2.0-only
/* What a group has on several CPUs, and what is left of them. */
#include "guest.h"

#define LENGTH (1 * SEC)
#define BESIDE "oooooooo"

static struct hog *add_hog(int i, const char *group, uint64_t q, uint64_t p, int cpu)
{
	struct hog *h = new_hog(i, group);

	h->q = q;
	h->p = p;
	h->cpu = cpu;
	return h;
}

static void check_share(const struct hog *h, uint64_t least_ppm)
{
	uint64_t ppm = h->cpu_ns * 1000000 / LENGTH;

	check(ppm >= least_ppm, "a task of group '%s' has %.4f of a CPU, at least %.4f", h->group,
	      ppm / 1e6, least_ppm / 1e6);
}

static void check_periods(const struct hog *h, uint64_t to)
{
	struct verdict v = judge(h, h->t0, to);

	check(v.periods && !v.shorts, "group %s: periods %d short %d min %.1f of %.1f", h->group,
	      v.periods, v.shorts, v.min / 1e3, h->q / 1e3);
}

/* A group with servers on all CPUs: its tasks, which may run on each, find them all. */
static void spread(void)
{
	uint64_t t0;
	int i, n;

	make_group("m");
	reserve("m", 3000, 10000, "");
	for (i = 0; i < nr_cpus; i++)
		add_hog(i, "m", 3 * MS, 10 * MS, 0);
	n = add_beside(nr_cpus, BESIDE);
	t0 = now_ns() + LEAD;
	start_hogs(n, t0, LENGTH);
	reap_hogs(n);
	for (i = 0; i < nr_cpus; i++)
		check_share(&hogs[i], 300000 * 97 / 100);
}

/*
 * A task of such a group that is moved all the time has its runtime in any two periods,
 * and nobody on the CPUs that it comes to has less.
 */
static void move(void)
{
	uint64_t t0, t;
	char name[] = "a";
	int i, n;

	add_hog(nr_cpus, "m", 3 * MS, 20 * MS, 1);
	for (i = 0; i < nr_cpus; i++, name[0]++) {
		make_group(name);
		reserve(name, 5000, 10000, (char[]){ '0' + i, 0 });
		add_hog(i, name, 5 * MS, 10 * MS, 0);
	}
	n = add_beside(nr_cpus + 1, BESIDE);
	t0 = now_ns() + LEAD;
	start_hogs(n, t0, LENGTH);
	set_fifo(2);
	for (t = t0; t < t0 + LENGTH - 50 * MS; t += random_below(60 * MS)) {
		sleep_until(t);
		move_hog(nr_cpus, random_below(nr_cpus));
	}
	set_fifo(0);
	reap_hogs(n);
	for (i = 0; i <= nr_cpus; i++)
		check_periods(&hogs[i], t0 + LENGTH);
	for (i = 0; i <= nr_cpus; i++)
		unreserve(hogs[i].group);
}

/* Ordinary tasks find the CPUs that are free beside a reservation, and leave it alone. */
static void spare(void)
{
	uint64_t t0;
	int i;

	reserve("a", 9000, 10000, "0");
	add_hog(0, "a", 9 * MS, 10 * MS, 0);
	for (i = 1; i < nr_cpus; i++)
		new_hog(i, "");
	t0 = now_ns() + LEAD;
	start_hogs(nr_cpus, t0, LENGTH);
	reap_hogs(nr_cpus);
	check_periods(&hogs[0], t0 + LENGTH);
	for (i = 1; i < nr_cpus; i++)
		check_share(&hogs[i], 970000);
}

void test_wide(const char *arg)
{
	(void)arg;
	check(start_daemon(), "the scheduler is loaded");
	supply_wide(BESIDE);
	spread();
	move();
	spare();
	check(scheduler_is("enabled"), "the scheduler is still there");
	printf("---- %s\n", ask_first("status"));
	check(stop_daemon() == 0, "the daemon stops");
}
