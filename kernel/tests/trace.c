// SPDX-License-Identifier: Apache-2.0
/*
 * Who runs when, from the kernel's own sched_switch events, for the figures of
 * the manual: scripts/figures.py draws what this prints.
 */
#include "guest.h"
#include <sys/prctl.h>

#define TRACING "/sys/kernel/tracing/"
#define MAX_ACTORS 8
#define MAX_CPUS 8
#define MAX_PERIODS 16

struct actor {
	const char *name;	/* in the trace */
	const char *group;	/* NULL: the root */
	int policy, prio;
	int q, p;		/* us, of the group or of the deadline task */
};

struct scene {
	const char *name;
	int ms;
	const char *cpus;	/* of every group's cpuset */
	struct actor actors[MAX_ACTORS];
};

static const struct scene one_cpu[] = {
	{ "alone", 60, NULL, {
		{ "group", "g0", SCHED_FIFO, 10, 3000, 10000 },
		{ "fair", NULL, SCHED_OTHER, 0, 0, 0 } } },
	{ "beside", 60, NULL, {
		{ "group", "g0", SCHED_FIFO, 10, 3000, 10000 },
		{ "FIFO-99", NULL, SCHED_FIFO, 99, 0, 0 } } },
	{ "three", 100, NULL, {
		{ "A", "g0", SCHED_FIFO, 10, 3000, 10000 },
		{ "B", "g1", SCHED_FIFO, 10, 40000, 100000 },
		{ "deadline", NULL, DEADLINE, 0, 1000, 20000 },
		{ "FIFO-99", NULL, SCHED_FIFO, 99, 0, 0 } } },
};

static const struct scene four_cpus[] = {
	{ "migrate", 40, "0-3", {
		{ "task 1", "m", SCHED_FIFO, 10, 3000, 10000 },
		{ "task 2", "m", SCHED_FIFO, 10, 3000, 10000 },
		{ "task 3", "m", SCHED_FIFO, 10, 3000, 10000 },
		{ "task 4", "m", SCHED_FIFO, 10, 3000, 10000 },
		{ "task 5", "m", SCHED_FIFO, 10, 3000, 10000 } } },
	{ "single", 40, "0-3", {
		{ "task 1", "m", SCHED_FIFO, 10, 3000, 10000 } } },
};

static void trace(const char *file, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), TRACING "%s", file);
	if (put(path, "%s", value))
		die(path);
}

static void act(const struct actor *a, uint64_t start, uint64_t end)
{
	int err = 0;

	prctl(PR_SET_NAME, a->name);
	if (a->group)
		err = enter(a->group);
	if (!err && a->policy == DEADLINE)
		err = set_deadline(a->q * US, a->p * US);
	else if (!err && a->policy != SCHED_OTHER)
		err = set_policy(0, a->policy, a->prio);
	if (err) {
		printf("FAIL %s: %s\n", a->name, strerror(err));
		_exit(1);
	}
	sleep_until(start);
	while (now_ns(CLOCK_MONOTONIC) < end)
		;
	_exit(0);
}

/* What each actor had in each of its periods, in us; without one, in all. */
static long long used[MAX_ACTORS][MAX_PERIODS];

static int actor_of(const struct scene *s, const char *name)
{
	int i;

	for (i = 0; i < MAX_ACTORS && s->actors[i].name; i++) {
		if (!strcmp(s->actors[i].name, name))
			return i;
	}
	return -1;
}

static void count(const struct scene *s, int actor, long long from, long long to)
{
	long long end = s->ms * 1000, p, next;

	if (actor < 0)
		return;
	p = s->actors[actor].p ?: end;
	for (from = from < 0 ? 0 : from, to = to < end ? to : end; from < to; from = next) {
		next = (from / p + 1) * p;
		if (next > to)
			next = to;
		used[actor][from / p] += next - from;
	}
}

/*
 * Counts what each actor had, and prints
 * "switch <scene> <us since the start> <cpu> <who runs from then on>".
 */
static int print_switches(const struct scene *s, uint64_t start)
{
	struct { int actor; long long since; } on[MAX_CPUS];
	char line[512], *event, *next, *p;
	FILE *f = fopen(TRACING "trace", "r");
	long long us;
	int n = 0, i;

	if (!f)
		die("trace");
	memset(used, 0, sizeof(used));
	for (i = 0; i < MAX_CPUS; i++)
		on[i].actor = -1;
	while (fgets(line, sizeof(line), f)) {
		unsigned int cpu, sec, usec;

		event = strstr(line, " sched_switch: ");
		next = event ? strstr(event, "==> next_comm=") : NULL;
		p = event ? strrchr(line, '[') : NULL;
		while (p && p > line && p > event)	/* a name may have a bracket */
			p = memrchr(line, '[', p - line);
		if (!next || !p || sscanf(p, "[%u] %*s %u.%u:", &cpu, &sec, &usec) != 3)
			continue;
		us = (long long)sec * 1000000 + usec - (long long)(start / US);
		if (us < -1000)
			continue;
		if (us > s->ms * 1000)
			break;
		next += strlen("==> next_comm=");
		p = strstr(next, " next_pid=");
		if (!p)
			continue;
		*p = 0;
		printf("switch %s %lld %u %s\n", s->name, us, cpu, next);
		n++;
		if (cpu >= MAX_CPUS)
			continue;
		count(s, on[cpu].actor, on[cpu].since, us);
		on[cpu].actor = actor_of(s, next);
		on[cpu].since = us;
	}
	fclose(f);
	for (i = 0; i < MAX_CPUS; i++)
		count(s, on[i].actor, on[i].since, s->ms * 1000);
	return n;
}

/* On one CPU: who has a runtime had it in each period, who has none the rest. */
static void judge_periods(const struct scene *s)
{
	long long length = s->ms * 1000, rest = length;
	const struct actor *a;
	int i, k;

	for (i = 0; i < MAX_ACTORS && s->actors[i].name; i++) {
		long long least = length, most = 0, margin;

		a = &s->actors[i];
		if (!a->p)
			continue;
		margin = a->q * 15 / 1000 > 15 ? a->q * 15 / 1000 : 15;
		for (k = 0; k < length / a->p; k++) {
			rest -= a->q;
			least = used[i][k] < least ? used[i][k] : least;
			most = used[i][k] > most ? used[i][k] : most;
		}
		check(least >= a->q - margin && most <= a->q + margin,
		      "%s: %s had %lld to %lld us of %d in each of %d periods", s->name,
		      a->name, least, most, a->q, k);
	}
	for (i = 0; i < MAX_ACTORS && s->actors[i].name; i++) {
		a = &s->actors[i];
		if (!a->p)
			check(llabs(used[i][0] - rest) <= length / 100,
			      "%s: %s had %lld us, and %lld are left for it", s->name, a->name,
			      used[i][0], rest);
	}
}

/* On several: the tasks have all servers, or each a CPU if that is less. */
static void judge_sum(const struct scene *s)
{
	const struct actor *a = s->actors;
	long long length = s->ms * 1000, sum = 0, want;
	int tasks, k;

	for (tasks = 0; tasks < MAX_ACTORS && s->actors[tasks].name; tasks++) {
		for (k = 0; k < length / a->p; k++)
			sum += used[tasks][k];
	}
	want = sysconf(_SC_NPROCESSORS_ONLN) * a->q * (length / a->p);
	if (want > tasks * length)
		want = tasks * length;
	check(llabs(sum - want) <= want / 100, "%s: %d tasks had %lld us of %lld", s->name, tasks,
	      sum, want);
}

static void play(const struct scene *s)
{
	uint64_t start, end;
	int i, status, bad = 0;
	const struct actor *a;

	printf("scene %s %d\n", s->name, s->ms);
	for (a = s->actors; a < s->actors + MAX_ACTORS && a->name; a++) {
		printf("actor %s %s %d %d %s\n", s->name, a->group ?: "-", a->q, a->p, a->name);
		if (a->group && !make_group(a->group)) {
			if (s->cpus)
				expect(put(cg(a->group, "cpuset.cpus"), "%s", s->cpus), 0,
				       "cpuset");
			expect(reserve(a->group, a->q, a->p), 0, "reserve");
		}
	}
	trace("trace", "");
	trace("tracing_on", "1");
	start = now_ns(CLOCK_MONOTONIC) + 20 * MS;
	end = start + s->ms * MS;
	for (a = s->actors; a < s->actors + MAX_ACTORS && a->name; a++) {
		if (!fork())
			act(a, start, end);
	}
	while (wait(&status) > 0)
		bad += status != 0;
	trace("tracing_on", "0");
	i = print_switches(s, start);
	check(i > 0 && !bad, "%s: %d switches", s->name, i);
	/* Without the series nothing is promised. */
	if (v2 && s->cpus)
		judge_sum(s);
	else if (v2)
		judge_periods(s);
	for (a = s->actors; a < s->actors + MAX_ACTORS && a->name; a++) {
		if (a->group)
			remove_group(a->group);
	}
	usleep(20000);
}

/*
 * A server's timer is for its own CPU. Only timers that begin a period are asked for,
 * and beside the group nobody has any: the fair server's are armed once in a second.
 */
static void timers(void)
{
	const struct scene *s = &one_cpu[0];
	int all = 0, pinned = 0;
	char line[512];
	FILE *f;

	trace("events/timer/hrtimer_start/enable", "1");
	play(s);
	trace("events/timer/hrtimer_start/enable", "0");
	f = fopen(TRACING "trace", "r");
	if (!f)
		die("trace");
	while (fgets(line, sizeof(line), f)) {
		if (!strstr(line, " hrtimer_start: ") || !strstr(line, "=dl_task_timer "))
			continue;
		printf("timer %s", line);
		all++;
		pinned += !!strstr(line, "PINNED");
	}
	fclose(f);
	check(pinned >= s->ms * 1000 / s->actors[0].p && all - pinned <= 2,
	      "%d of %d timers of servers are pinned", pinned, all);
}

void test_trace(const char *arg)
{
	unsigned int i;

	if (mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, NULL) && errno != EBUSY)
		die("tracefs");
	trace("tracing_on", "0");
	trace("trace_clock", "mono");
	trace("buffer_size_kb", "2048");
	trace("events/sched/sched_switch/enable", "1");
	if (!strcmp(arg, "timers")) {
		timers();
	} else if (!strcmp(arg, "cpus")) {
		for (i = 0; i < ARRAY(four_cpus); i++)
			play(&four_cpus[i]);
	} else {
		for (i = 0; i < ARRAY(one_cpu); i++)
			play(&one_cpu[i]);
	}
}
