// SPDX-License-Identifier: Apache-2.0
/* Tasks of one group on several CPUs: version 2, 4 CPUs. */
#include "guest.h"

#define TASKS 5
#define PERIOD (10 * MS)

static uint64_t cpu_of(const pid_t *pid)
{
	uint64_t sum = 0;
	clockid_t clock;
	int i;

	for (i = 0; i < TASKS; i++) {
		if (clock_getcpuclockid(pid[i], &clock))
			die("clock_getcpuclockid");
		sum += now_ns(clock);
	}
	return sum;
}

/*
 * What the tasks have had at @at, or whole periods later: a fair task that should read
 * it may wait for a server's budget, while the tasks go on elsewhere.
 */
static uint64_t cpu_at(const pid_t *pid, uint64_t *at)
{
	uint64_t sum;

	for (;; *at += PERIOD) {
		sleep_until(*at);
		sum = cpu_of(pid);
		if (now_ns(CLOCK_MONOTONIC) < *at + 200 * US)
			return sum;
	}
}

/* What the tasks get together, in us of 40 periods, from one period's start to another's. */
static uint64_t together(const pid_t *pid)
{
	uint64_t start = now_ns(CLOCK_MONOTONIC) + 50 * MS, before = cpu_at(pid, &start);
	uint64_t end = start + 40 * PERIOD, after = cpu_at(pid, &end);

	return (after - before) * 40 / ((end - start) / PERIOD) / US;
}

/*
 * Hogs that run all the time, while their affinity and the group's cpuset
 * change: they get what the servers of the CPUs have that they may use.
 */
static void moving(void)
{
	static const struct {
		const char *cpus;	/* of the cpuset, NULL: unchanged */
		unsigned int mask;	/* of the tasks */
		int servers;		/* that they can reach */
	} steps[] = {
		{ "0-3", 0xf, 4 }, { NULL, 0x1, 1 }, { NULL, 0x3, 2 }, { NULL, 0xc, 2 },
		{ NULL, 0xe, 3 }, { NULL, 0x8, 1 }, { NULL, 0xf, 4 }, { "0-1", 0, 2 },
		{ "1-3", 0, 3 }, { "2", 0, 1 }, { "0-3", 0, 4 },
	};
	uint64_t got, want;
	pid_t pid[TASKS];
	unsigned int s;
	cpu_set_t set;
	int i, cpu;

	for (i = 0; i < TASKS; i++) {
		pid[i] = fork();
		if (pid[i])
			continue;
		if (enter("m") || set_policy(0, SCHED_FIFO, 10 + i / 2))
			_exit(1);
		for (;;)
			;
	}
	for (s = 0; s < ARRAY(steps); s++) {
		if (steps[s].cpus)
			expect(put(cg("m", "cpuset.cpus"), "%s", steps[s].cpus), 0, steps[s].cpus);
		CPU_ZERO(&set);
		for (cpu = 0; cpu < 4; cpu++) {
			if (steps[s].mask & 1U << cpu)
				CPU_SET(cpu, &set);
		}
		for (i = 0; steps[s].mask && i < TASKS; i++) {
			if (sched_setaffinity(pid[i], sizeof(set), &set))
				die("setaffinity");
		}
		got = together(pid);
		want = steps[s].servers * 120000;
		check(got + 4000 > want && got < want + 4000,
		      "cpuset %s, affinity %x: %llu us, sum of the servers %llu",
		      get(cg("m", "cpuset.cpus")), steps[s].mask, (unsigned long long)got,
		      (unsigned long long)want);
	}
	/* All before the first wait: one that never gets a CPU can't die either. */
	for (i = 0; i < TASKS; i++)
		kill(pid[i], SIGKILL);
	for (i = 0; i < TASKS; i++)
		waitpid(pid[i], NULL, 0);
}

/*
 * The longest time in us without the group on any of its CPUs, if more tasks want to
 * run than there are: a server that loses its task to another one has no budget in
 * time when the next one comes.
 */
static uint64_t longest_gap(int tasks, uint64_t len)
{
	struct { uint64_t last, gap; } *cpu = shared();
	uint64_t start = now_ns(CLOCK_MONOTONIC) + 20 * MS, now, before, seen, gap = 0;
	int i, c;

	for (i = 0; i < tasks; i++) {
		if (fork())
			continue;
		if (enter("m") || set_policy(0, SCHED_FIFO, 10 + i / 2))
			_exit(1);
		sleep_until(start + i * 2300 * US);
		for (now = 0; now < start + len;) {
			before = now;
			c = sched_getcpu();
			now = now_ns(CLOCK_MONOTONIC);
			seen = cpu[c].last;
			/* It may have waited, and may be on another CPU, at any point. */
			if (now - before > 20 * US || now <= seen ||
			    !__atomic_compare_exchange_n(&cpu[c].last, &seen, now, false,
							 __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
				continue;
			if (now - seen > cpu[c].gap && seen > start + 40 * MS)
				cpu[c].gap = now - seen;
		}
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
	for (c = 0; c < 4; c++) {
		printf("value gap_of_cpu%d_us %llu\n", c, (unsigned long long)cpu[c].gap / US);
		if (cpu[c].gap > gap)
			gap = cpu[c].gap;
	}
	return gap / US;
}

void test_migrate(__attribute__((unused)) const char *arg)
{
	static const char * const cpus[] = { "0", "0-1", "0-2", "0-3" };
	uint64_t len = 400 * MS, got, want;
	int n;

	make_group("m");
	for (n = 1; n <= 4; n++) {
		expect(put(cg("m", "cpuset.cpus"), "%s", cpus[n - 1]), 0, cpus[n - 1]);
		expect(reserve("m", 3000, 10000), 0, "0.3 on each");
		got = burn_many("m", TASKS, len);
		want = n * len * 3 / 10;
		/* 0.01 of a CPU */
		check(got + 4 * MS > want && got < want + 4 * MS,
		      "5 tasks on %d servers: %llu us, sum of the servers %llu",
		      n, (unsigned long long)got / US, (unsigned long long)want / US);
	}
	got = burn_many("m", 1, len);
	check(got > len / 2, "1 task on 4 servers of 0.3: %llu us of %llu",
	      (unsigned long long)got / US, (unsigned long long)len / US);
	for (n = 4; n <= 8; n++) {
		got = longest_gap(n, len);
		check(got < 7000 + 1000, "%d tasks on 4 servers of (3, 10): no gap longer than %llu us",
		      n, (unsigned long long)got);
	}
	moving();
	printf("stat:\n%s\n", get(cg("m", "cpu.rt.stat")));
	expect(remove_group("m"), 0, "rmdir");
}
