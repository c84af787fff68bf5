// SPDX-License-Identifier: GPL-2.0-only
/*
 * Attacks on a reservation by its neighbours on one CPU: one with a reservation of
 * its own and a shorter period, and ordinary tasks. The work that the victim gets done
 * is compared with that in Q of each period beside a neighbour that only computes.
 */
#include "guest.h"

#define LEAST_PPM 990000

static uint64_t length;

static void compute(uint64_t end)
{
	busy_until(end);
}

/* Sleep when the timer is about to end the budget, wake up at once. */
static void nap(uint64_t end)
{
	while (now_ns() < end) {
		busy_until(now_ns() + 5 * US + random_below(20 * US));
		sleep_until(now_ns() + 1 * US + random_below(30 * US));
	}
}

uint64_t fork_storm(uint64_t end)
{
	uint64_t n;

	for (n = 0; now_ns() < end; n++) {
		pid_t pid = fork();

		if (!pid) {
			busy_until(now_ns() + 30 * US);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	return n;
}

static void change_affinity(uint64_t end)
{
	cpu_set_t all;

	memset(&all, 0xff, sizeof(all));
	while (now_ns() < end) {
		pin(0);
		sched_setaffinity(0, sizeof(all), &all);
	}
}

static void yield(uint64_t end)
{
	while (now_ns() < end)
		sched_yield();
}

static void change_nice(uint64_t end)
{
	int n = 0;

	while (now_ns() < end)
		setpriority(PRIO_PROCESS, 0, n++ % 20);
}

uint64_t ping_pong(uint64_t end)
{
	int a[2], b[2];
	uint64_t n;
	char c = 0;
	pid_t pid;

	if (pipe(a) || pipe(b))
		return 0;
	pid = fork();
	if (!pid) {
		close(a[1]);
		while (read(a[0], &c, 1) == 1 && write(b[1], &c, 1) == 1)
			;
		_exit(0);
	}
	close(a[0]);
	for (n = 0; now_ns() < end && write(a[1], &c, 1) == 1 && read(b[0], &c, 1) == 1; n++)
		;
	close(a[1]);
	waitpid(pid, NULL, 0);
	return n;
}

/* Many tasks at once, that all sleep and wake. */
static void herd(uint64_t end)
{
	pid_t pids[20];
	unsigned int i;

	for (i = 0; i < ARRAY(pids); i++) {
		pids[i] = fork();
		if (!pids[i]) {
			random_seed(i);
			nap(end);
			_exit(0);
		}
	}
	for (i = 0; i < ARRAY(pids); i++)
		waitpid(pids[i], NULL, 0);
}

static void storm(uint64_t end)
{
	fork_storm(end);
}

static void play(uint64_t end)
{
	ping_pong(end);
}

static const struct {
	const char *name;
	void (*run)(uint64_t end);
} attacks[] = {
	{ "compute", compute },		{ "nap", nap },		{ "fork", storm },
	{ "affinity", change_affinity }, { "yield", yield },	{ "nice", change_nice },
	{ "ping-pong", play },	{ "herd", herd },
};

/* The victim's work beside an attack out of @group ("": ordinary tasks). */
static struct verdict one(void (*run)(uint64_t end), const char *group, uint64_t *work)
{
	struct hog *h = new_hog(0, "v");
	struct verdict v;
	uint64_t t0;
	pid_t pid;

	h->q = 4 * MS;
	h->p = 10 * MS;
	t0 = now_ns() + 250 * MS;
	start_hogs(add_beside(1, "oo"), t0, length);
	pid = fork_flushed();
	if (!pid) {
		if (*group && enter(group))
			_exit(1);
		random_seed(1);
		sleep_until(t0);
		run(t0 + length);
		_exit(0);
	}
	reap_hogs(3);
	waitpid(pid, NULL, 0);
	v = judge(h, h->t0, t0 + length);
	*work = h->work;
	return v;
}

/* @arg: ms of each attack. */
void test_attack(const char *arg)
{
	static const char *const from[] = { "n", "" };
	uint64_t base, work;
	unsigned int i, j;

	length = strtoul(arg, NULL, 10) * MS;
	make_group("v");
	make_group("n");
	check(start_daemon(), "the scheduler is loaded");
	reserve("v", 4000, 10000, "0");
	reserve("n", 400, 1000, "0");
	for (j = 0; j < ARRAY(from); j++) {
		for (i = 0; i < ARRAY(attacks); i++) {
			struct verdict v = one(attacks[i].run, from[j], &work);
			uint64_t ppm;

			if (!i)
				base = work * 4000 / (v.mean / US);
			ppm = work * 1000000 / base;
			/* Work is by instructions, of which a CPU has more where another sleeps. */
			check(nr_cpus > 1 ? v.periods && !v.shorts : ppm >= LEAST_PPM,
			      "attack %s by %s: work %.4f periods %d short %d min %.1f mean %.1f",
			      attacks[i].name, *from[j] ? "a reservation" : "ordinary tasks",
			      ppm / 1e6, v.periods, v.shorts, v.min / 1e3, v.mean / 1e3);
		}
	}
	printf("---- %s\n", ask_first("stat /n"));
	printf("---- %s\n", ask_first("stat /v"));
	check(scheduler_is("enabled"), "the scheduler is still there");
	check(stop_daemon() == 0, "the daemon stops");
}

#define FORKS_PERIODS 300

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* What periods of a reservation lack while tasks of @group ("": ordinary ones) fork. */
static void forks(const char *group, uint64_t more)
{
	static uint64_t lack[FORKS_PERIODS];
	struct hog *h = new_hog(0, "v");
	uint64_t t0 = now_ns() + 250 * MS, len = FORKS_PERIODS * 10 * MS, hint = 0, got, used;
	int i, shorts = 0;
	pid_t pid;

	h->q = 4 * MS;
	h->p = 10 * MS;
	start_hogs(add_beside(1, "oo"), t0, len);
	pid = fork_flushed();
	if (!pid) {
		if (*group && enter(group))
			_exit(1);
		sleep_until(t0);
		fork_storm(t0 + len);
		_exit(0);
	}
	used = value_of(ask_first("stat /n"), "used_ns");
	reap_hogs(3);
	waitpid(pid, NULL, 0);
	used = value_of(ask_first("stat /n"), "used_ns") - used;
	for (i = 0; i < FORKS_PERIODS; i++) {
		got = service(h, t0 + i * h->p, t0 + (i + 1) * h->p, &hint);
		lack[i] = got < h->q ? h->q - got : 0;
		shorts += lack[i] > tolerance(h);
	}
	qsort(lack, FORKS_PERIODS, sizeof(*lack), by_size);
	check(lack[FORKS_PERIODS - 1] <= tolerance(h) + more,
	      "forks by %s: periods %d short %d lack p50 %.1f p90 %.1f p99 %.1f worst %.1f, of a CPU %.4f",
	      *group ? "a reservation" : "ordinary tasks", FORKS_PERIODS, shorts,
	      lack[FORKS_PERIODS / 2] / 1e3, lack[FORKS_PERIODS * 9 / 10] / 1e3,
	      lack[FORKS_PERIODS * 99 / 100] / 1e3, lack[FORKS_PERIODS - 1] / 1e3,
	      (double)used / len);
}

/* @arg: us that a period may lack besides. */
void test_forks(const char *arg)
{
	uint64_t more = strtoul(arg, NULL, 10) * US;

	check(run_daemon("--check") == 0 && daemon_said("rcu_nocbs=all") == (more > 0),
	      "--check names rcu_nocbs where it is missing");
	make_group("v");
	make_group("n");
	check(start_daemon(), "the scheduler is loaded");
	reserve("v", 4000, 10000, "0");
	reserve("n", 3000, 10000, "0");
	forks("", more);
	forks("n", more);
	check(scheduler_is("enabled"), "the scheduler is still there");
	check(stop_daemon() == 0, "the daemon stops");
}

static void crowd(pid_t *pids, unsigned int n, const char *group)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		pids[i] = fork_flushed();
		if (pids[i])
			continue;
		if (*group && enter(group))
			_exit(1);
		set_fifo(0);
		setpriority(PRIO_PROCESS, 0, i % 10 ? 0 : 19);
		busy_until(~0ULL);
	}
}

/*
 * Many tasks, some of them of the lowest weight, on a CPU that is reserved as far as it
 * can be: ordinary ones, and those of a small reservation. The kernel ends a scheduler
 * that lets one wait for 30 s.
 */
void test_crowd(const char *arg)
{
	static const char *const groups[] = { "v", "n" };
	static const uint64_t runtimes[] = { 4 * MS, 5200 * US };
	uint64_t t0, len = strtoul(arg, NULL, 10) * SEC;
	pid_t pids[160];
	unsigned int i;

	check(start_daemon(), "the scheduler is loaded");
	for (i = 0; i < 2; i++) {
		struct hog *h = new_hog(i, groups[i]);

		make_group(groups[i]);
		h->q = runtimes[i];
		h->p = 10 * MS;
		reserve(groups[i], h->q / US, 10000, "0");
	}
	make_group("small");
	reserve("small", 1000, 100000, "0");
	/* They prepare without reservation, which beside the crowd takes seconds. */
	t0 = now_ns() + 2 * SEC;
	start_hogs(2, t0, len);
	sleep_until(now_ns() + SEC);
	set_fifo(1);
	crowd(pids, 100, "");
	crowd(pids + 100, 60, "small");
	set_fifo(0);
	check(now_ns() < t0, "the crowd is there before the hogs begin");
	reap_hogs(2);
	set_fifo(1);
	for (i = 0; i < 2; i++) {
		struct verdict v = judge(&hogs[i], hogs[i].t0, t0 + len);

		check(v.periods && !v.shorts,
		      "%llu of 10000 us beside a crowd: periods %d short %d min %.1f",
		      (unsigned long long)hogs[i].q / US, v.periods, v.shorts, v.min / 1e3);
	}
	printf("---- %s\n", ask_first("stat /v"));
	printf("---- %s\n", ask_first("stat /small"));
	check(scheduler_is("enabled"), "the scheduler is still there");
	for (i = 0; i < ARRAY(pids); i++)
		end(pids[i]);
	check(stop_daemon() == 0, "the daemon stops");
}

/*
 * As many tasks as a small reservation may have, some of them nice: the kernel ends a
 * scheduler that lets one wait for 30 s.
 */
void test_many(const char *arg)
{
	static pid_t pids[2000];
	unsigned int n = strtoul(arg, NULL, 10);

	check(n <= ARRAY(pids), "so many");
	check(start_daemon(), "the scheduler is loaded");
	make_group("small");
	reserve("small", 1000, 200000, "0");
	set_fifo(1);
	crowd(pids, n, "small");
	sleep_until(now_ns() + 70 * SEC);
	check(scheduler_is("enabled"), "the scheduler is still there");
	printf("---- %s\n", ask_first("stat /small"));
	check(stop_daemon() == 0, "the daemon stops");
	/* The guest ends them: each would wait for its turn. */
}
