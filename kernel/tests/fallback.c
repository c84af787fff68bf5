// SPDX-License-Identifier: Apache-2.0
/*
 * Reservations that cannot follow their cpusets, and cpuset writes that are refused and
 * taken back: version 2, 4 CPUs. A group's tasks never have more of a CPU than the group
 * has there.
 */
#include "guest.h"

#define LEN (100 * MS)

static void set(const char *group, const char *file, const char *text)
{
	int err = put(cg(group, file), "%s", text);

	if (err) {
		check(false, "%s to %s of %s: %s", text, file, group, strerror(err));
		die("setting up");
	}
}

/*
 * A task of @group that may run on the CPUs of @mask becomes FIFO on CPU @cpu: what
 * policy does it have in the end, and what CPU?
 */
static void becomes_fifo(const char *group, int cpu, unsigned long mask, int *policy, int *at)
{
	int *out = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t end;

	if (!fork()) {
		if (enter(group))
			_exit(1);
		pin(cpu);
		syscall(SYS_sched_setaffinity, 0, sizeof(mask), &mask);
		if (set_policy(0, SCHED_FIFO, 10))
			_exit(1);
		end = now_ns(CLOCK_MONOTONIC) + LEN;
		while (now_ns(CLOCK_MONOTONIC) < end)
			;
		out[0] = sched_getscheduler(0);
		out[1] = sched_getcpu();
		_exit(0);
	}
	wait(NULL);
	*policy = out[0];
	*at = out[1];
	munmap(out, 4096);
}

#define SLEEPERS 400
#define TIMES 40

/*
 * How long does a task of @group, which may be on CPU 2 only, take to be FIFO again
 * and again? It is no longer than until the kernel has looked at it.
 */
static uint64_t stray_often(const char *group)
{
	uint64_t *out = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t time;
	int i;

	if (!fork()) {
		if (enter(group))
			_exit(1);
		pin(2);
		time = now_ns(CLOCK_MONOTONIC);
		for (i = 0; i < TIMES; i++) {
			if (set_policy(0, SCHED_FIFO, 10))
				_exit(1);
			while (sched_getscheduler(0) == SCHED_FIFO)
				;
		}
		*out = now_ns(CLOCK_MONOTONIC) - time;
		_exit(0);
	}
	wait(NULL);
	time = *out;
	munmap(out, 4096);
	return time;
}

/* Whoever strays costs what one task costs, however many there are. */
static void many(const char *group)
{
	uint64_t alone = stray_often(group), beside;
	pid_t sleepers[SLEEPERS];
	int i, err;

	for (i = 0; i < SLEEPERS; i++)
		sleepers[i] = rt_child(group, &err);
	beside = stray_often(group);
	check(alone && beside < 2 * alone, "it strays %d times in %llu us, beside %d others in %llu",
	      TIMES, (unsigned long long)alone / US, SLEEPERS, (unsigned long long)beside / US);
	for (i = 0; i < SLEEPERS; i++)
		end_child(sleepers[i]);
}

/* @group has a server on CPU 0, and its cpuset has all. */
static void no_server(const char *group)
{
	int policy, cpu;
	uint64_t us;

	becomes_fifo(group, 2, 1 << 2, &policy, &cpu);
	check(policy == SCHED_OTHER, "pinned to CPU 2, its task has policy %d, wanted %d", policy,
	      SCHED_OTHER);
	becomes_fifo(group, 2, 1 << 2 | 1 << 0, &policy, &cpu);
	check(policy == SCHED_FIFO && cpu == 0, "if it may go to CPU 0: policy %d, CPU %d",
	      policy, cpu);
	us = burn(group, 0, LEN) / US;
	check(us <= 62000, "and has %llu us of 60000", (unsigned long long)us);
}

/* The cpuset controller goes away. */
static void controller(void)
{
	make_group("par");
	set("par", "cgroup.subtree_control", "+cpuset +cpu");
	make_group("par/x");
	make_group("par/y");
	set("par/x", "cpuset.cpus", "0");
	set("par/y", "cpuset.cpus", "2");
	expect(reserve("par/x", 60000, 100000), 0, "0.6 for x on CPU 0");
	expect(reserve("par/y", 60000, 100000), 0, "0.6 for y on CPU 2");
	set("par", "cgroup.subtree_control", "-cpuset");
	usleep(200000);	/* until their cpusets are offline */
	check(in_log("stays on CPUs 0 of 0-3: /par/x\n"), "the log names x");
	check(in_log("stays on CPUs 2 of 0-3: /par/y\n"), "and y");
	no_server("par/x");
	many("par/x");
	expect(remove_group("par/x"), 0, "rmdir");
	expect(remove_group("par/y"), 0, "rmdir");
	expect(remove_group("par"), 0, "rmdir");
	usleep(50000);
}

/* A CPU comes back that has no room for all that want it. */
static void hotplug(void)
{
	static const char online[] = "/sys/devices/system/cpu/cpu3/online";
	int policy, cpu;

	expect(put(online, "0"), 0, "CPU 3 goes");
	make_group("h0");
	make_group("h1");
	set("h0", "cpuset.cpus", "0,3");
	set("h1", "cpuset.cpus", "1,3");
	expect(reserve("h0", 60000, 100000), 0, "0.6 on CPU 0, and on 3 if it comes back");
	expect(reserve("h1", 60000, 100000), 0, "0.6 on CPU 1, and on 3");
	expect(put(online, "1"), 0, "it comes back");
	check(in_log("stays on CPUs 0 of 0,3: /h0\n"), "the log names the one");
	check(in_log("stays on CPUs 1 of 1,3: /h1\n"), "and the other");
	becomes_fifo("h0", 3, 1 << 3, &policy, &cpu);
	check(policy == SCHED_OTHER, "pinned to CPU 3, a task has policy %d, wanted %d", policy,
	      SCHED_OTHER);
	expect(remove_group("h0"), 0, "rmdir");
	expect(remove_group("h1"), 0, "rmdir");
	usleep(50000);
}

static void still(const char *group, const char *file, const char *want)
{
	char *text = get(cg(group, file));

	check(!strcmp(text, want), "%s of %s is %s, wanted %s", file, group, text, want);
}

static const char *given;	/* what the root's cpu.rt.effective says */

static void nothing_changed(void)
{
	check(!strcmp(given, get(cg("", "cpu.rt.effective"))), "the CPUs have given what they had");
}

/* cpuset.cpus.exclusive takes a CPU from a group whose reservation fits nowhere else. */
static void exclusive(void)
{
	static const char *const names[] = { "ex", "away", "full", "away/c" };
	unsigned int i;

	for (i = 0; i < ARRAY(names); i++) {
		if (i == 3)
			set("away", "cgroup.subtree_control", "+cpuset +cpu");
		make_group(names[i]);
	}
	set("ex", "cpuset.cpus", "0-1");
	set("ex", "cpuset.cpus.exclusive", "0");
	set("ex", "cpuset.cpus.partition", "root");
	set("away", "cpuset.cpus", "1-2");
	set("away/c", "cpuset.cpus", "1");
	set("full", "cpuset.cpus", "2-3");
	still("away/c", "cpuset.cpus.effective", "1");
	expect(reserve("away/c", 60000, 100000), 0, "0.6 on CPU 1");
	expect(reserve("full", 60000, 100000), 0, "0.6 on CPUs 2 and 3");
	given = strdup(get(cg("", "cpu.rt.effective")));
	expect(put(cg("ex", "cpuset.cpus.exclusive"), "0-1"), EBUSY, "CPU 1 is taken from the one");
	still("ex", "cpuset.cpus.exclusive", "0");
	still("ex", "cpuset.cpus.partition", "root");
	still("away/c", "cpuset.cpus.effective", "1");
	still("away/c", "cpu.rt.effective", "1 runtime_ns=60000000 period_ns=100000000");
	nothing_changed();
	for (i = ARRAY(names); i--;)
		expect(remove_group(names[i]), 0, "rmdir");
	usleep(50000);
}

/* What a refused write made invalid on its way is valid again. */
static void partitions(void)
{
	static const char *const names[] = { "top/part", "top/other", "top/wide" };
	unsigned int i;

	make_group("top");
	set("top", "cpuset.cpus", "1-3");
	set("top", "cpuset.cpus.exclusive", "1-3");
	set("top", "cgroup.subtree_control", "+cpuset +cpu");
	for (i = 0; i < ARRAY(names); i++)
		make_group(names[i]);
	set("top/part", "cpuset.cpus", "3");
	set("top/part", "cpuset.cpus.exclusive", "3");
	set("top/part", "cpuset.cpus.partition", "root");
	still("top/part", "cpuset.cpus.partition", "root");
	set("top/other", "cpuset.cpus", "1");
	set("top/wide", "cpuset.cpus", "2-3");
	still("top/wide", "cpuset.cpus.effective", "2");
	for (i = 0; i < ARRAY(names); i++)
		expect(reserve(names[i], 60000, 100000), 0, "0.6 on each CPU");
	given = strdup(get(cg("", "cpu.rt.effective")));
	expect(put(cg("top", "cpuset.cpus"), "1"), EBUSY, "cpuset.cpus for one of them only");
	still("top", "cpuset.cpus", "1-3");
	still("top/part", "cpuset.cpus.partition", "root");
	still("top/wide", "cpuset.cpus.effective", "2");
	nothing_changed();
	expect(put(cg("top", "cpuset.cpus.exclusive"), "1-2"), EBUSY, "the partition may not be");
	still("top", "cpuset.cpus.exclusive", "1-3");
	still("top/part", "cpuset.cpus.partition", "root");
	still("top/part", "cpuset.cpus.effective", "3");
	still("top/wide", "cpuset.cpus.effective", "2");
	nothing_changed();
	for (i = 0; i < ARRAY(names); i++)
		expect(remove_group(names[i]), 0, "rmdir");
	expect(remove_group("top"), 0, "rmdir");
	usleep(50000);
}

void test_fallback(__attribute__((unused)) const char *arg)
{
	char *free = strdup(get(cg("", "cpu.rt.effective")));

	partitions();
	exclusive();
	controller();
	hotplug();
	check(!strcmp(free, get(cg("", "cpu.rt.effective"))), "the CPUs have all of it back");
}
