// SPDX-License-Identifier: Apache-2.0
/*
 * A reservation whose runtime changes again and again while it is used up: each of its
 * periods against the runtimes that were in force then, and the periods of another one
 * beside it. The group is always busy, so that its periods begin at multiples of the
 * period after its first one, whatever changes. A deadline task writes, on the same
 * CPU: with another CPU, which has the same virtual clock, what that does would be
 * lost work here.
 */
#include "guest.h"

#define CHANGES 1250
#define PERIOD 10000	/* us */
#define LITTLE 500
#define MUCH 3500
#define OTHER_Q 4000
#define WRITER_Q 200
#define WRITER_P 1000

/* A runtime that is in force from some time between these two on. */
struct change {
	uint64_t asked, done;
	int q;
};

struct course {
	int nr, refused, err;
	struct change changes[CHANGES + 1];	/* the first one is no change */
};

static struct course *course;

/* The runtime and the pause, in us, of the @i-th change. */
typedef void (*drawer)(int i, int *q, int *pause);

static uint64_t state, length;

static unsigned int draw(unsigned int below)
{
	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (state >> 33) % below;
}

static void at_random(int i, int *q, int *pause)
{
	(void)i;
	*q = LITTLE + draw(MUCH - LITTLE + 1);
	*pause = 100 + draw(9000);
}

/* Much, for a moment, as soon as the little is used up. */
static void greedy(int i, int *q, int *pause)
{
	*q = i % 2 ? LITTLE : MUCH;
	*pause = i % 2 ? 600 : 4400;
}

/* Often, but not so that the interruptions alone cost more than is tolerated. */
static void often(int i, int *q, int *pause)
{
	*q = i % 2 ? 2000 : 2500;
	*pause = 500;
}

static void change(drawer next, uint64_t start)
{
	struct change *now;
	uint64_t t = start;
	int i, q, pause, err;

	set_deadline(WRITER_Q * US, WRITER_P * US);
	for (i = 0; i < CHANGES; i++) {
		next(i, &q, &pause);
		t += pause * US;
		if (t >= start + length)
			break;
		sleep_until(t);
		now = &course->changes[course->nr];
		now->asked = now_ns(CLOCK_MONOTONIC);
		now->q = q;
		/* What a smaller one gives back is held until the end of the period. */
		err = reserve("g", q, PERIOD);
		if (err == EBUSY)
			course->refused++;
		else if (err)
			course->err = err;
		if (err)
			continue;
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

/* Return the time of the CPU that the group had, in ns. */
static uint64_t run(drawer next, int least_nr, uint64_t len, const char *what)
{
	struct hog *g = &hogs[0];
	struct verdict v;
	uint64_t t, got, start, missing = 0, excess = 0, shortest = 0;
	int least, most, hint = 0, periods = 0, paid = 2 * switch_cost();

	length = len;
	/* Not the group of before, which may owe something. */
	make_group("g");
	expect(reserve("g", 3000, PERIOD), 0, "0.3");
	*course = (struct course){ .nr = 1, .changes = { { .q = 3000 } } };
	*g = (struct hog){ .group = "g", .policy = SCHED_FIFO, .prio = 10,
			   .q = 3000, .p = PERIOD, .interruptions = 2 };
	hogs[1] = (struct hog){ .group = "c", .policy = SCHED_FIFO, .prio = 10,
				.q = OTHER_Q, .p = PERIOD, .interruptions = 2 };
	start = now_ns(CLOCK_MONOTONIC) + 20 * MS;
	if (!fork())
		change(next, start);
	run_hogs(2, length);
	for (t = g->t0; t + PERIOD * US <= g->t0 + length; t += PERIOD * US) {
		got = service(g, t, t + PERIOD * US, &hint);
		find_bounds(t, t + PERIOD * US, &least, &most);
		if (got + tolerance(least, PERIOD, 2) + paid < least * US &&
		    least * US - got > missing) {
			missing = least * US - got;
			shortest = t;
		}
		if (got > most * US + tolerance(most, PERIOD, 2) && got - most * US > excess)
			excess = got - most * US;
		periods++;
	}
	check(course->nr > least_nr && !course->err, "%s: %d changes, %d too early, %s", what,
	      course->nr - 1, course->refused, strerror(course->err));
	check(!missing, "%s: %d periods, %llu us short of the least runtime", what, periods,
	      (unsigned long long)missing / US);
	if (missing)
		print_period(g, shortest);
	check(!excess, "%s: %llu us above the most runtime", what,
	      (unsigned long long)excess / US);
	judge(&hogs[1], length, &v);
	check(kept(OTHER_Q, PERIOD, 3 * switch_cost(), &v),
	      "%s: (4, 10) beside it has %d short periods of %d, %llu us at least", what,
	      v.shorts, v.periods, (unsigned long long)v.min / US);
	remove_group("g");
	usleep(50000);

	return g->cpu_ns;
}

void test_change(const char *arg)
{
	uint64_t ns;

	(void)arg;
	course = mmap(NULL, sizeof(*course), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (course == MAP_FAILED)
		die("memory");
	make_group("c");
	expect(reserve("c", OTHER_Q, PERIOD), 0, "(4, 10) beside it");
	run(at_random, 1000, 6 * SEC, "at random");
	ns = run(greedy, 600, 3 * SEC, "for a moment");
	check(ns < length / PERIOD * (LITTLE + LITTLE / 20),
	      "for a moment: %llu us per period with %d at its beginning",
	      (unsigned long long)(ns * PERIOD / length), LITTLE);
	run(often, 600, 600 * MS, "each 0.5 ms");
	reserve("c", 0, PERIOD);
	remove_group("c");
}
