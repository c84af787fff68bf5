// SPDX-License-Identifier: Apache-2.0
/*
 * Random sets of reservations and deadline tasks, one for each seed, and what
 * the scheduler does with them: every wake-up and every switch, to the ns.
 * scripts/sets.py judges that; here only what went wrong on the way fails.
 *
 * The sum of Q / P is uniform up to what admission allows, and divided as
 * UUniFast does: every division of the sum is equally likely. Periods are
 * log-uniform from 1 to 100 ms.
 */
#include "guest.h"

#define LENGTH (500 * MS)
#define MAX_SERVERS 6
#define MAX_TASKS (2 * MAX_SERVERS)
/* The fair server has 0.05, and one percent is for the kernel itself. */
#define LEAST_PPM 300000
#define MOST_PPM 940000
#define LEAST_Q_US 100

/* A reservation, or the parameters of a deadline task. */
struct server {
	bool deadline;
	char kind;	/* of its tasks: always runnable, periodic, suspending */
	int q, p;	/* us */
};

struct task {
	int server;
	int err;
	uint64_t offset, seed;
	uint64_t work, every;	/* ns, of a periodic task */
};

static struct server servers[MAX_SERVERS];
static struct task *tasks;	/* shared with them */
static int nr_servers, nr_tasks;
static const char *beside;	/* in the root group: f FIFO-99, c fair */

/* ---- the set ---- */

/* splitmix64 */
static uint64_t rnd(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static uint64_t between(uint64_t *state, uint64_t from, uint64_t to)
{
	return from + rnd(state) % (to - from);
}

/* 1000 * 100^x us with x uniform in [0, 1), from the binary digits of x. */
static int log_uniform_us(uint64_t *state)
{
	/* 100^(2^-(k + 1)) in units of 2^-32 */
	static const uint64_t factors[] = {
		42949672960, 13581879131, 7637651909, 5727430939, 4959750858,
		4615405478, 4452304525, 4372928347, 4333772518, 4314326278,
	};
	uint64_t x = rnd(state), us = 1000ULL << 10;
	unsigned int k;

	for (k = 0; k < ARRAY(factors); k++) {
		if (x >> k & 1)
			us = (unsigned __int128)us * factors[k] >> 32;
	}
	return us >> 10;
}

static int by_value(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/*
 * Points that are uniform in the sum divide it as UUniFast does, without its
 * roots. False if one of the runtimes is too small to be measured.
 */
static bool divide(uint64_t *state)
{
	int sum = between(state, LEAST_PPM, MOST_PPM), points[MAX_SERVERS], i;

	nr_servers = between(state, 1, MAX_SERVERS + 1);
	for (i = 0; i < nr_servers - 1; i++)
		points[i] = between(state, 0, sum);
	points[i] = sum;
	qsort(points, nr_servers, sizeof(*points), by_value);
	for (i = 0; i < nr_servers; i++) {
		int ppm = points[i] - (i ? points[i - 1] : 0);

		servers[i].p = log_uniform_us(state);
		servers[i].q = (int64_t)ppm * servers[i].p / 1000000;
		if (servers[i].q < LEAST_Q_US)
			return false;
	}
	return true;
}

static void draw(uint64_t seed)
{
	static const char * const besides[] = { "", "f", "c", "fc" };
	uint64_t state = seed;
	int i, k;

	while (!divide(&state))
		;
	beside = besides[between(&state, 0, ARRAY(besides))];
	nr_tasks = 0;
	for (i = 0; i < nr_servers; i++) {
		struct server *s = &servers[i];
		int n = 1 + (rnd(&state) & 1);
		uint64_t offset = between(&state, 0, s->p * US);

		/* One in four is a deadline task. */
		s->deadline = i && !(rnd(&state) & 3);
		s->kind = "aps"[between(&state, 0, 3)];
		for (k = 0; k < (s->deadline ? 1 : n); k++) {
			struct task *t = &tasks[nr_tasks++];

			memset(t, 0, sizeof(*t));
			t->server = i;
			t->seed = rnd(&state);
			/* The tasks that always run begin together. */
			t->offset = s->kind == 'a' ? offset : between(&state, 0, s->p * US);
			/* A period of half to twice P, and 50 to 120 % of Q / P. */
			t->every = between(&state, s->p * US / 2, s->p * US * 2);
			t->work = (unsigned __int128)t->every * s->q / s->p *
				  between(&state, 50, 120) / 100 / n;
		}
	}
}

/* ---- its tasks ---- */

/* One instruction is one ns, and no call of the kernel among them. */
static void work(uint64_t ns)
{
	uint64_t loops = ns / 2 + 1;

	asm volatile("1: dec %0\n\tjnz 1b" : "+r"(loops));
}

static void behave(struct task *t, uint64_t start, uint64_t end)
{
	const struct server *s = &servers[t->server];
	uint64_t next = start + t->offset;

	sleep_until(next);
	while (now_ns(CLOCK_MONOTONIC) < end) {
		if (s->kind == 'p') {
			work(t->work);
			next += t->every;
			sleep_until(next);
		} else if (s->kind == 's') {
			work(between(&t->seed, s->q * US / 8, s->q * US * 2));
			sleep_until(now_ns(CLOCK_MONOTONIC) + between(&t->seed, 1, s->p * US));
		}
	}
}

static void task_main(struct task *t, uint64_t start, uint64_t end)
{
	const struct server *s = &servers[t->server];
	char group[8];

	if (s->deadline) {
		t->err = set_deadline(s->q * US, s->p * US);
	} else {
		snprintf(group, sizeof(group), "g%d", t->server);
		t->err = enter(group);
		if (!t->err)
			t->err = set_policy(0, SCHED_FIFO, between(&t->seed, 1, 90));
	}
	if (!t->err)
		behave(t, start, end);
	/* So that its end does not wait for budgets. */
	set_policy(0, SCHED_OTHER, 0);
	_exit(0);
}

static void hog_main(char kind, uint64_t start, uint64_t end)
{
	if (kind == 'f' && set_policy(0, SCHED_FIFO, 99))
		_exit(1);
	sleep_until(start);
	while (now_ns(CLOCK_MONOTONIC) < end)
		;
	_exit(0);
}

/* ---- a set ---- */

static void print_set(uint64_t seed)
{
	int i;

	printf("set %llu %llu %s\n", (unsigned long long)seed, LENGTH, *beside ? beside : "-");
	for (i = 0; i < nr_servers; i++)
		printf("server %s %c %d %d\n", servers[i].deadline ? "task" : "group",
		       servers[i].kind, servers[i].q, servers[i].p);
	for (i = 0; i < nr_tasks; i++)
		printf("task %c %d\n", 'A' + i, tasks[i].server);
}

static void play(uint64_t seed)
{
	pid_t pids[MAX_TASKS];
	uint64_t start, end;
	char group[8];
	const char *b;
	int i;

	draw(seed);
	print_set(seed);
	for (i = 0; i < nr_servers; i++) {
		snprintf(group, sizeof(group), "g%d", i);
		if (servers[i].deadline)
			continue;
		make_group(group);
		if (reserve(group, servers[i].q, servers[i].p))
			check(false, "seed %llu: %s refused", (unsigned long long)seed, group);
	}
	/* By then all sleep, and the deadlines of what they did are over. */
	start = now_ns(CLOCK_MONOTONIC) + 500 * MS;
	end = start + LENGTH;
	for (i = 0; i < nr_tasks; i++) {
		pid_t pid = fork();

		if (!pid)
			task_main(&tasks[i], start, end);
		pids[i] = pid;
	}
	for (b = beside; *b; b++) {
		if (!fork())
			hog_main(*b, start, end);
	}
	sleep_until(start - MS);
	trace("trace", "");
	trace("tracing_on", "1");
	while (wait(NULL) > 0)
		;
	trace("tracing_on", "0");
	for (i = 0; i < nr_tasks; i++) {
		if (tasks[i].err)
			check(false, "seed %llu: task %c: %s", (unsigned long long)seed,
			      'A' + i, strerror(tasks[i].err));
	}
	print_events(start, pids, nr_tasks);
	for (i = 0; i < nr_servers; i++) {
		snprintf(group, sizeof(group), "g%d", i);
		if (!servers[i].deadline)
			remove_group(group);
	}
	usleep(200000);
}

/* @arg is the first seed and how many: "1,8". */
void test_sets(const char *arg)
{
	unsigned long long first = 1, n = 8;

	if (*arg && sscanf(arg, "%llu,%llu", &first, &n) != 2)
		die("seeds");
	tasks = mmap(NULL, MAX_TASKS * sizeof(*tasks), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (tasks == MAP_FAILED)
		die("memory");
	record_events();
	for (; n; n--)
		play(first++);
}
