// SPDX-License-Identifier: Apache-2.0
/*
 * Random sets of reservations on one CPU, from a seed: who ran from when to
 * when. scripts/simulate.py computes what the schedule has to be, and compares.
 * The argument is <seed>,<number of sets>[,sleep].
 *
 * Each reservation has one task. A busy one runs all the time from its start
 * on. One that sleeps has jobs that are due at random times, and take random
 * times; a job that is due while another is under way comes after it.
 */
#include "guest.h"

#define MAX_SET 5
#define MAX_JOBS 2048
#define LENGTH (600 * MS)
/* Long enough for the periods that the set-up began to be over at the start. */
#define LEAD (150 * MS)
#define LEAST_RUNTIME 50	/* us */
#define CEILING 0.95
/*
 * A hog sees more than this between two looks at the clock if it lost the CPU
 * to another: a switch there and back takes longer, and a look less.
 */
#define LOOK_NS 1000
/* A break that no other hog fills, and that is shorter, was an interrupt. */
#define BREAK_NS (20 * US)
/*
 * Between two sets. Then the fair server begins a new second with the next
 * set, has the latest deadline of all, and comes before no reservation.
 */
#define REST_NS (1200 * MS)

struct job {
	uint64_t due, work;	/* ns: from the set's start; CPU time */
	uint64_t used;		/* since the end of the one before; 0: not done */
	bool slept;		/* the task was asleep when it was due */
};

struct member {
	int q, p;		/* us */
	uint64_t offset;	/* of its start, ns */
	int nr_jobs;		/* 0: busy */
	struct job jobs[MAX_JOBS];
};

static const char * const groups[MAX_SET] = { "g0", "g1", "g2", "g3", "g4" };
static struct member *members;	/* shared with the tasks, like hogs */
static uint64_t state;

/* SplitMix64. */
static uint64_t next(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static uint64_t below(uint64_t n)
{
	return next() % n;
}

/* In (0, 1]. */
static double uniform(void)
{
	return (double)((next() >> 11) + 1) / (1ULL << 53);
}

/* @base to the power of @exponent, which is from 0 to 1; there is no libm here. */
static double power(double base, double exponent)
{
	double result = exponent >= 1 ? base : 1, root = base;
	int bit, i;

	for (bit = 0; exponent < 1 && bit < 40; bit++) {
		double x = root > 1 ? root : 1;

		for (i = 0; i < 30; i++)
			x = (x + root / x) / 2;
		root = x;
		exponent *= 2;
		if (exponent >= 1) {
			result *= root;
			exponent -= 1;
		}
	}
	return result;
}

/* UUniFast; again if a runtime is too short. Periods are log-uniform. */
static int draw_set(bool full)
{
	int n = 1 + below(MAX_SET), i;
	bool again;

	do {
		double left = full ? CEILING : CEILING * (0.3 + 0.7 * uniform());

		again = false;
		for (i = 0; i < n; i++) {
			double rest = i + 1 < n ? left * power(uniform(), 1.0 / (n - i - 1)) : 0;
			struct member *m = &members[i];

			m->p = 1000 * power(100, uniform());
			m->q = (left - rest) * m->p;
			m->offset = below(m->p * US);
			again |= m->q < LEAST_RUNTIME;
			left = rest;
		}
	} while (again);
	return n;
}

/*
 * Jobs of a quarter of the runtime to twice as much, and half to 1.8 times as
 * far apart as the bandwidth lets them: often some budget is left over, and
 * often it is not enough.
 */
static void draw_jobs(struct member *m)
{
	uint64_t due = m->offset, apart;

	m->nr_jobs = 0;
	while (due < LENGTH && m->nr_jobs < MAX_JOBS) {
		struct job *job = &m->jobs[m->nr_jobs++];

		*job = (struct job){
			.due = due,
			.work = m->q * US / 4 + below(m->q * US * 7 / 4),
		};
		apart = job->work * m->p / m->q;
		due += apart / 2 + below(apart * 13 / 10);
	}
}

/*
 * Run until @end, or for @work in user space if there is any; false at the end. There
 * is no system call on the way: a task that is in the kernel when the budget ends goes
 * on there, and its group pays for that, which the simulation does not know.
 */
static bool work(struct hog *h, uint64_t end, uint64_t work)
{
	uint64_t t, last = now_ns(CLOCK_MONOTONIC), done = 0;

	h->runs[h->nr_runs].from = last;
	do {
		t = now_ns(CLOCK_MONOTONIC);
		if (t >= end)
			break;
		if (t - last <= LOOK_NS) {
			done += t - last;
		} else if (h->nr_runs + 2 < MAX_RUNS) {
			h->runs[h->nr_runs++].to = last;
			h->runs[h->nr_runs].from = t;
		}
		last = t;
	} while (!work || done < work);
	h->runs[h->nr_runs++].to = last;
	return t < end;
}

static void work_and_sleep(struct hog *h, struct member *m, uint64_t start)
{
	uint64_t before = now_ns(CLOCK_THREAD_CPUTIME_ID), cpu;
	int i;

	for (i = 0; i < m->nr_jobs; i++) {
		struct job *job = &m->jobs[i];

		job->slept = now_ns(CLOCK_MONOTONIC) < start + job->due;
		if (job->slept)
			sleep_until(start + job->due);
		if (!work(h, start + LENGTH, job->work))
			break;
		cpu = now_ns(CLOCK_THREAD_CPUTIME_ID);
		job->used = cpu - before;
		before = cpu;
	}
	/* The end of a task takes time, too. */
	sleep_until(start + LENGTH);
}

static void task(struct hog *h, struct member *m, uint64_t start)
{
	int i;

	/* Here, since a page fault on the way would be taken for a break. */
	for (i = 0; i < MAX_RUNS; i += 4096 / sizeof(h->runs[0]))
		h->runs[i] = (struct run){ 0 };
	if (h->group)
		h->err = enter(h->group);
	if (!h->err && h->group)
		h->err = set_policy(0, SCHED_FIFO, 10);
	if (h->err)
		_exit(1);

	if (m && m->nr_jobs) {
		work_and_sleep(h, m, start);
	} else {
		sleep_until(start + (m ? m->offset : 0));
		work(h, start + LENGTH, 0);
	}
	_exit(0);
}

/* Those that were begun, by the reservation. */
static void print_jobs(int n)
{
	int i, k;

	for (i = 0; i < n; i++) {
		struct member *m = &members[i];

		for (k = 0; k < m->nr_jobs; k++) {
			struct job *job = &m->jobs[k];

			printf("job %d %llu %llu %s\n", i, (unsigned long long)job->due,
			       (unsigned long long)job->used, job->slept ? "slept" : "-");
			if (!job->used)
				break;
		}
	}
}

/*
 * All runs in the order of time, one per line: who, how long after the end of
 * the one before, and how long. Breaks by interrupts are closed.
 */
static int print_runs(int n, uint64_t start)
{
	uint64_t from = 0, to = start, said = start;
	int at[NR_HOGS] = { 0 }, who = -1, count = 0, i;

	for (;;) {
		struct run *first = NULL;
		int next = -1;

		for (i = 0; i < n; i++) {
			struct run *r = &hogs[i].runs[at[i]];

			if (at[i] < hogs[i].nr_runs && (!first || r->from < first->from)) {
				first = r;
				next = i;
			}
		}
		if (who >= 0 && (next != who || first->from - to > BREAK_NS)) {
			printf("%d %lld %llu\n", who, (long long)(from - said),
			       (unsigned long long)(to - from));
			said = to;
			count++;
			from = first ? first->from : 0;
		} else if (who < 0) {
			from = first ? first->from : 0;
		}
		if (!first)
			return count;
		to = first->to;
		who = next;
		at[next]++;
	}
}

static void one_set(unsigned int nr, bool full, bool sleepers, bool beside)
{
	int n = draw_set(full), tasks = n + beside, status, bad = 0, i;
	uint64_t start;

	printf("set %u %llu %s\n", nr, LENGTH, beside ? "fair" : "-");
	for (i = 0; i < n; i++) {
		struct member *m = &members[i];
		int err;

		m->nr_jobs = 0;
		if (sleepers && below(3))
			draw_jobs(m);
		make_group(groups[i]);
		err = reserve(groups[i], m->q, m->p);
		if (err)
			check(false, "set %u: (%d, %d) refused: %s", nr, m->q, m->p, strerror(err));
		printf("reservation %d %d %d %llu\n", i, m->q, m->p,
		       (unsigned long long)m->offset);
		hogs[i] = (struct hog){ .group = groups[i] };
	}
	hogs[n] = (struct hog){ 0 };
	start = now_ns(CLOCK_MONOTONIC) + LEAD;
	for (i = 0; i < tasks; i++) {
		if (!fork())
			task(&hogs[i], i < n ? &members[i] : NULL, start);
	}
	while (wait(&status) > 0)
		bad += status != 0;
	print_jobs(n);
	i = print_runs(tasks, start);
	check(!bad && i > n, "set %u: %d runs of %d tasks", nr, i, tasks);
	for (i = 0; i < n; i++)
		remove_group(groups[i]);
	sleep_until(now_ns(CLOCK_MONOTONIC) + REST_NS);
}

void test_random(const char *arg)
{
	unsigned int seed = 1, sets = 10, i;
	char word[8] = "";

	members = mmap(NULL, MAX_SET * sizeof(*members), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (members == MAP_FAILED)
		die("memory");
	sscanf(arg, "%u,%u,%7s", &seed, &sets, word);
	state = seed;
	printf("seed %u sets %u cost %d\n", seed, sets, switch_cost());
	/* Every third at the ceiling, every second beside a fair task. */
	for (i = 0; i < sets; i++)
		one_set(i, i % 3 == 0, !strcmp(word, "sleep"), i % 2);
}
