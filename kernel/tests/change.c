// SPDX-License-Identifier: Apache-2.0
/*
 * A reservation whose runtime changes again and again while it is used up: each of its
 * periods against the runtimes that were in force then. The group is always busy, so
 * that its periods begin at multiples of the period after its first one, unless a
 * change gives it another deadline.
 */
#include "guest.h"

#define CHANGES 1000
#define PERIOD 10000	/* us */
#define OTHER_Q 4000
#define LENGTH (5 * SEC)

/* A runtime that is in force from some time between these two on. */
struct change {
	uint64_t asked, done;
	int q;
};

struct course {
	int nr, refused;
	struct change changes[CHANGES + 1];
};

static struct course *course;

/* The runtime and the pause, in us, of the @i-th change. */
typedef void (*drawer)(int i, int *q, int *pause);

static uint64_t state;

static unsigned int draw(unsigned int below)
{
	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (state >> 33) % below;
}

static void at_random(int i, int *q, int *pause)
{
	(void)i;
	*q = 500 + draw(4501);
	*pause = 100 + draw(9800);
}

/* Much, for a moment, as soon as the little is used up. */
static void greedy(int i, int *q, int *pause)
{
	*q = i % 2 ? 500 : 5000;
	*pause = i % 2 ? 600 : 4400;
}

/* As often as one can. */
static void often(int i, int *q, int *pause)
{
	*q = i % 2 ? 2000 : 2500;
	*pause = 200;
}

static void change(drawer next, uint64_t start)
{
	struct change *now;
	uint64_t t = start;
	int i, q, pause;

	pin(1);
	set_policy(0, SCHED_FIFO, 99);
	for (i = 0; i < CHANGES; i++) {
		next(i, &q, &pause);
		t += pause * US;
		if (t >= start + LENGTH)
			break;
		sleep_until(t);
		now = &course->changes[course->nr];
		now->asked = now_ns(CLOCK_MONOTONIC);
		now->q = q;
		if (reserve("g", q, PERIOD)) {
			course->refused++; course->changes[CHANGES].q = errno;
			continue;
		}
		now->done = now_ns(CLOCK_MONOTONIC);
		course->nr++;
	}
	_exit(0);
}

/* The least and the most runtime that was in force within [from, to). */
static void find_bounds(uint64_t from, uint64_t to, int *least, int *most)
{
	int i;

	*least = PERIOD;
	*most = 0;
	for (i = 0; i < course->nr; i++) {
		struct change *c = &course->changes[i];

		if (c->asked >= to || (i + 1 < course->nr && c[1].done <= from))
			continue;
		if (c->q < *least)
			*least = c->q;
		if (c->q > *most)
			*most = c->q;
	}
}

static void run(drawer next, const char *what)
{
	struct hog *g = &hogs[0];
	struct verdict v;
	uint64_t t, got, start, missing = 0, excess = 0;
	int least, most, hint = 0, periods = 0, paid = 2 * switch_cost();

	expect(reserve("g", 3000, PERIOD), 0, "0.3");
	*course = (struct course){ .nr = 1, .changes = { { .q = 3000 } } };
	*g = (struct hog){ .group = "g", .policy = SCHED_FIFO, .prio = 10,
			   .q = 3000, .p = PERIOD, .interruptions = 2 };
	hogs[1] = (struct hog){ .group = "c", .policy = SCHED_FIFO, .prio = 10,
				.q = OTHER_Q, .p = PERIOD, .interruptions = 2 };
	hogs[2] = (struct hog){ .policy = SCHED_FIFO, .prio = 99, .q = 1, .p = 1000 };
	start = now_ns(CLOCK_MONOTONIC) + 20 * MS;
	if (!fork())
		change(next, start);
	run_hogs(2, LENGTH);
	for (t = g->t0; t + PERIOD * US <= g->t0 + LENGTH; t += PERIOD * US) {
		got = service(g, t, t + PERIOD * US, &hint);
		find_bounds(t, t + PERIOD * US, &least, &most);
		if (got + tolerance(least, PERIOD, 2) + paid < least * US &&
		    least * US - got > missing)
			missing = least * US - got;
		if (got > most * US + tolerance(most, PERIOD, 2) && got - most * US > excess)
			excess = got - most * US;
		periods++;
	}
	check(course->nr > 100, "%s: %d changes, %d refused, errno %d", what, course->nr - 1,
	      course->refused, course->changes[CHANGES].q);
	check(!missing, "%s: %d periods, %llu us short of the least runtime at most; runs %d cpu %llu", what,
	      periods, (unsigned long long)missing / US, g->nr_runs, (unsigned long long)g->cpu_ns);
	check(!excess, "%s: %llu us above the most runtime at most", what,
	      (unsigned long long)excess / US);
	judge(&hogs[1], LENGTH, &v);
	check(kept(OTHER_Q, PERIOD, 3 * switch_cost(), &v),
	      "%s: (4, 10) beside it has %d short periods of %d, %llu to %llu ns, overs %d runs %d first %llu cpu %llu", what, v.shorts, v.periods, (unsigned long long)v.min, (unsigned long long)v.max, v.overs, hogs[1].nr_runs, (unsigned long long)(hogs[1].runs[0].to-hogs[1].runs[0].from), (unsigned long long)hogs[1].cpu_ns);
	reserve("g", 0, PERIOD);
	usleep(50000);
}

void test_change(const char *arg)
{
	(void)arg;
	course = mmap(NULL, sizeof(*course), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (course == MAP_FAILED)
		die("memory");
	make_group("g");
	make_group("c");
	put(cg("g", "cpuset.cpus"), "0");
	put(cg("c", "cpuset.cpus"), "0");
	expect(reserve("c", OTHER_Q, PERIOD), 0, "(4, 10) beside it");
	run(at_random, "at random");
	run(greedy, "for a moment");
	run(often, "each 0.2 ms");
	reserve("c", 0, PERIOD);
	remove_group("g");
	remove_group("c");
}
