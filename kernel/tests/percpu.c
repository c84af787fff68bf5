// SPDX-License-Identifier: Apache-2.0
/* Sums per CPU, cpusets and hotplug: version 2, 4 CPUs. */
#include "guest.h"

/* What the kernel's small objects take, in KiB. */
static long slab(void)
{
	char *line = strstr(get("/proc/meminfo"), "Slab:");

	return line ? atol(line + strlen("Slab:")) : -1;
}

#define GROUPS 100

/* A group's queues take 2 KiB of each CPU, from when it reserves something. */
static void memory(void)
{
	long want = GROUPS * 2 * sysconf(_SC_NPROCESSORS_CONF), before, made, reserved;
	char name[16];
	int i;

	before = slab();
	for (i = 0; i < GROUPS; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		if (make_group(name))
			die(name);
	}
	made = slab();
	for (i = 0; i < GROUPS; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		if (reserve(name, 1000, 1000000))
			die(name);
	}
	reserved = slab();
	check(reserved - made >= want && reserved - made < want * 5 / 4,
	      "%d groups take %ld KiB, and %ld more with a reservation, %ld of them for queues",
	      GROUPS, made - before, reserved - made, want);
	for (i = 0; i < GROUPS; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		remove_group(name);
	}
}

static void shows(const char *group, const char *file, const char *want)
{
	char *path = cg(group, file);

	same(path, want, get(path));
}

/* The file of the public series: one line, and the least that a CPU has. */
static void local(void)
{
	static const char file[] = "cpu.rt.max.effective.local";

	make_group("l");
	expect(put(cg("l", "cgroup.subtree_control"), "+cpu +cpuset"), 0, "controllers");
	make_group("l/in");
	expect(put(cg("l", "cpuset.cpus"), "0-1"), 0, "two CPUs");
	expect(put(cg("l/in", "cpuset.cpus"), "1"), 0, "one of them");
	shows("l", file, "max 1000000");
	expect(reserve("l", 5000, 10000), 0, "0.5 on both");
	shows("l", file, "5000 10000");
	expect(reserve("l/in", 2000, 5000), 0, "0.4 for a group below, on one");
	shows("l", file, "1000 10000");
	shows("l/in", file, "2000 5000");
	expect(reserve("l/in", 2500, 5000), 0, "all that there is on that CPU");
	shows("l", file, "0 10000");
	expect(put(cg("l/in", "cpu.rt.max"), "max"), 0, "nothing of its own");
	shows("l", file, "5000 10000");
	shows("l/in", file, "max 5000");
	expect(remove_group("l/in"), 0, "rmdir l/in");
	expect(remove_group("l"), 0, "rmdir l");
	usleep(50000);
	expect(access("/cg/cpu.rt.max.effective.local", F_OK) ? errno : 0, ENOENT,
	       "the root has none");
}

void test_percpu(const char *arg)
{
	char name[16], file[8], before[256];
	int i;

	if (!strcmp(arg, "memory")) {
		memory();
		return;
	}
	local();
	for (i = 0; i < 5; i++) {
		snprintf(name, sizeof(name), "p%d", i);
		snprintf(file, sizeof(file), "%d", i % 4);
		make_group(name);
		expect(put(cg(name, "cpuset.cpus"), file), 0, "cpuset");
		printf("group %s on CPU %d, 0.9: ", name, i % 4);
		expect(reserve(name, 9000, 10000), i < 4 ? 0 : EBUSY, "reserve");
		if (i)
			continue;
		/* Less than the whole CPU, and the others have more than enough. */
		make_group("again");
		expect(put(cg("again", "cpuset.cpus"), file), 0, "cpuset");
		expect(reserve("again", 800, 10000), EBUSY, "0.08 more");
		remove_group("again");
	}
	check(shown("rt_rq[2]:/p2", ".dl_runtime") == 9000000, "debugfs has its runtime");
	check(shown("rt_rq[2]:/p2", ".dl_period") == 10000000, "and its period");
	check(shown("rt_rq[3]:/p2", ".dl_runtime") < 0, "but on no other CPU");
	make_group("wide");
	expect(reserve("wide", 200, 1000), EBUSY, "0.2 on all CPUs");
	expect(reserve("wide", 40, 1000), 0, "0.04 on all CPUs");
	expect(put(cg("wide", "cpu.rt.max"), "max"), 0, "and back");
	/* moves */
	expect(put(cg("p1", "cpuset.cpus"), "0"), EBUSY, "cpuset to a full CPU");
	check(!strcmp(get(cg("p1", "cpuset.cpus")), "1"), "stays on CPU %s",
	      get(cg("p1", "cpuset.cpus")));
	expect(put(cg("p1", "cpuset.cpus"), "0-1"), EBUSY, "cpuset grows to a full CPU");
	expect(reserve("p2", 0, 10000), 0, "CPU 2 is emptied");
	expect(put(cg("p2", "cpuset.cpus"), "2-3"), 0, "a cpuset of it and a full CPU");
	snprintf(before, sizeof(before), "%s", get(cg("", "cpu.rt.effective")));
	expect(reserve("p2", 800, 10000), EBUSY, "0.08 on both");
	check(!strcmp(before, get(cg("", "cpu.rt.effective"))), "it is as free as before");
	expect(put(cg("p2", "cpuset.cpus"), "2"), 0, "cpuset without the full CPU");
	expect(put(cg("p1", "cpuset.cpus"), "1-2"), 0, "cpuset grows to a free CPU");
	expect(reserve("p2", 1000, 10000), EBUSY, "which is full now");
	expect(put(cg("p1", "cpuset.cpus"), "2"), 0, "cpuset moves");
	expect(put(cg("p4", "cpuset.cpus"), "1"), 0, "another group's cpuset");
	expect(reserve("p4", 9000, 10000), 0, "takes the CPU that was left");
	expect(put("/sys/devices/system/cpu/cpu3/online", "0"), EBUSY, "offline a reserved CPU");
	/* All four at the same time, each on a CPU of its own. */
	for (i = 0; i < 4; i++) {
		static const char * const busy[] = { "p0", "p1", "p3", "p4" };

		hogs[i] = (struct hog){ .group = busy[i], .policy = SCHED_FIFO, .prio = 10,
					.q = 9000, .p = 10000 };
	}
	run_hogs(4, 500 * MS);
	for (i = 0; i < 4; i++) {
		/* 0.1 %, and what the last reading is late */
		check(hogs[i].cpu_ns > 449500 * US && hogs[i].cpu_ns < 450500 * US,
		      "%s beside the other three: %llu us of 450000", hogs[i].group,
		      (unsigned long long)hogs[i].cpu_ns / US);
	}
	for (i = 0; i < 5; i++) {
		snprintf(name, sizeof(name), "p%d", i);
		expect(remove_group(name), 0, "rmdir");
	}
	remove_group("wide");
	usleep(50000);
	expect(put("/sys/devices/system/cpu/cpu3/online", "0"), 0, "offline a free CPU");
	make_group("q");
	expect(reserve("q", 9, 10), EINVAL, "period too short");
	expect(reserve("q", 900, 1000), 0, "0.9 on three CPUs");
	expect(put("/sys/devices/system/cpu/cpu3/online", "1"), 0, "CPU 3 comes back");
	check(burn("q", 3, 200 * MS) > 178 * MS, "and serves the group as well");
	expect(put(cg("q", "cpuset.cpus"), "0"), 0, "on CPU 0 alone");
	give("q", "cpuset.cpus");
	expect(user_puts("/cg/q/cpuset.cpus", "0-3"), EPERM, "its user takes four CPUs");
	expect(user_puts("/cg/q/cpuset.cpus", "1"), EPERM, "or another one");
	check(!strcmp(get(cg("q", "cpuset.cpus")), "0"), "stays on CPU %s",
	      get(cg("q", "cpuset.cpus")));
	expect(put_by_two("/cg/q/cpuset.cpus", "0-1", true), EPERM,
	       "the user's file, root writes");
	expect(put_by_two("/cg/q/cpuset.cpus", "0-1", false), 0,
	       "root's file, the user writes");
	expect(user_puts("/cg/q/cpuset.cpus", "1"), 0, "its user gives one back");
	expect(user_puts("/cg/q/cpuset.cpus", "0-1"), EPERM, "and wants it again");
	remove_group("q");
}

/* A refused write leaves a partition what it was, and others their CPUs. */
static void refused_partition(const char *group, const char *cpus, const char *partition)
{
	char *rest, *own;

	printf("partition %s, %s\n", group, partition);
	expect(put(cg(group, "cpuset.cpus"), cpus), 0, "CPUs");
	expect(put(cg(group, "cpuset.cpus.partition"), partition), 0, "partition");
	shows(group, "cpuset.cpus.partition", partition);
	expect(reserve("rest", 5000, 10000), 0, "0.5 on the other CPUs");
	expect(reserve(group, 9000, 10000), 0, "0.9 in the partition");
	shows("rest", "cpuset.cpus.effective", "0-1");
	rest = strdup(get(cg("rest", "cpu.rt.effective")));
	own = strdup(get(cg(group, "cpu.rt.effective")));
	expect(put(cg(group, "cpuset.cpus.partition"), "member"), EBUSY, "no partition");
	shows(group, "cpuset.cpus.partition", partition);
	shows("rest", "cpuset.cpus.effective", "0-1");
	shows("rest", "cpu.rt.effective", rest);
	/* A local one takes CPU 0 from the rest. */
	if (strchr(group, '/')) {
		expect(put(cg(group, "cpuset.cpus"), "0"), EBUSY, "CPU 0");
		shows(group, "cpuset.cpus", cpus);
		shows(group, "cpuset.cpus.partition", partition);
		shows("rest", "cpuset.cpus.effective", "0-1");
		shows("rest", "cpu.rt.effective", rest);
		shows(group, "cpu.rt.effective", own);
	}
	expect(reserve(group, 0, 10000), 0, "nothing reserved");
	expect(put(cg(group, "cpuset.cpus.partition"), "member"), 0, "no partition any more");
	expect(reserve("rest", 0, 10000), 0, "nothing reserved");
	free(rest);
	free(own);
}

/* A partition that is invalid does not become half of one by a refused write. */
static void refused_invalid(void)
{
	char *state;

	printf("an invalid partition\n");
	make_group("other");
	expect(put(cg("local", "cpuset.cpus"), "2-3"), 0, "CPUs");
	expect(put(cg("local", "cpuset.cpus.partition"), "root"), 0, "partition");
	expect(put(cg("other", "cpuset.cpus"), "2-3"), 0, "the same CPUs");
	expect(put(cg("other", "cpuset.cpus.partition"), "root"), 0, "is none with them");
	state = strdup(get(cg("other", "cpuset.cpus.partition")));
	check(!strncmp(state, "root invalid", 12), "other is \"%s\"", state);
	expect(put(cg("local", "cpuset.cpus.partition"), "member"), 0, "no partition");
	expect(put(cg("rest", "cpuset.cpus"), "0-1"), 0, "the other CPUs");
	expect(reserve("rest", 5000, 10000), 0, "0.5 there");
	expect(reserve("local", 9000, 10000), 0, "0.9 on these");
	expect(put(cg("other", "cpuset.cpus.partition"), "root"), EBUSY, "takes the CPUs");
	check(!strncmp(get(cg("other", "cpuset.cpus.partition")), "root invalid", 12),
	      "other is \"%s\"", get(cg("other", "cpuset.cpus.partition")));
	shows("local", "cpuset.cpus.effective", "2-3");
	shows("rest", "cpuset.cpus.effective", "0-1");
	shows("", "cpuset.cpus.effective", "0-3");
	check(burn("local", 3, 100 * MS) > 88 * MS, "local is served on CPU 3");
	free(state);
}

/*
 * A write to one file that makes partitions of others invalid: what they have does
 * not fit beside the rest then, so that all stays as it was.
 */
static void refused_others(const char *group, const char *file, const char *cpus)
{
	char *was = strdup(get(cg(group, file))), *rest, *own;

	printf("%s %s %s\n", group, file, *cpus == '\n' ? "none" : cpus);
	rest = strdup(get(cg("rest", "cpu.rt.effective")));
	own = strdup(get(cg("p/remote", "cpu.rt.effective")));
	expect(put(cg(group, file), "%s", cpus), EBUSY, "refused");
	shows(group, file, was);
	shows("p/remote", "cpuset.cpus.partition", "root");
	shows("p/remote", "cpuset.cpus.effective", "2-3");
	shows("p/remote", "cpu.rt.effective", own);
	shows("rest", "cpuset.cpus.effective", "0-1");
	shows("rest", "cpu.rt.effective", rest);
	free(was);
	free(rest);
	free(own);
}

static void refused_exclusive(void)
{
	expect(put(cg("p/remote", "cpuset.cpus"), "2-3"), 0, "CPUs");
	expect(put(cg("p/remote", "cpuset.cpus.exclusive"), "2-3"), 0, "exclusive ones");
	expect(put(cg("p/remote", "cpuset.cpus.partition"), "root"), 0, "partition");
	expect(reserve("rest", 5000, 10000), 0, "0.5 on the other CPUs");
	expect(reserve("p/remote", 9000, 10000), 0, "0.9 in the partition");
	refused_others("p", "cpuset.cpus.exclusive", "\n");
	refused_others("p", "cpuset.cpus.exclusive", "0");
	refused_others("p/remote", "cpuset.cpus.exclusive", "0");
	/* Mainline takes these CPUs, and would not take those of p beside them. */
	make_group("within");
	expect(put(cg("within", "cpuset.cpus"), "3"), 0, "a cpuset within p's exclusive CPUs");
	refused_others("p", "cpuset.cpus.exclusive", "0");
	remove_group("within");
	/* Mainline asks for room on fewer CPUs for all that is on these. */
	expect(reserve("p/remote", 4000, 10000), 0, "0.4 in the partition");
	expect(put(cg("p/remote", "cpuset.cpus.exclusive"), "3"), 0, "less, where it fits");
	shows("p/remote", "cpuset.cpus.partition", "root");
	shows("p/remote", "cpuset.cpus.effective", "3");
	shows("rest", "cpuset.cpus.effective", "0-2");
	give("p/remote", "cpuset.cpus.exclusive");
	expect(user_puts("/cg/p/remote/cpuset.cpus.exclusive", "2-3"), EPERM,
	       "its user takes two CPUs");
	shows("p/remote", "cpuset.cpus.effective", "3");
	shows("rest", "cpuset.cpus.effective", "0-2");
	expect(reserve("p/remote", 0, 10000), 0, "nothing reserved");
	expect(reserve("rest", 0, 10000), 0, "nothing reserved");
	expect(put(cg("p/remote", "cpuset.cpus.partition"), "member"), 0, "no partition");
}

void test_partition(__attribute__((unused)) const char *arg)
{
	make_group("rest");
	make_group("local");
	refused_partition("local", "2-3", "root");
	refused_partition("local", "2-3", "isolated");
	/* Not with none but exclusive CPUs of another. */
	expect(put(cg("local", "cpuset.cpus"), "0-3"), 0, "all CPUs");
	make_group("p");
	expect(put(cg("p", "cgroup.subtree_control"), "+cpuset +cpu"), 0, "groups below");
	expect(put(cg("p", "cpuset.cpus.exclusive"), "2-3"), 0, "exclusive CPUs");
	make_group("p/remote");
	refused_partition("p/remote", "2-3", "root");
	refused_partition("p/remote", "2-3", "isolated");
	refused_exclusive();
	remove_group("p/remote");
	remove_group("p");
	refused_invalid();
}

/* A deadline task that reclaims gets nothing of what a group has on its CPU. */
void test_reclaim(__attribute__((unused)) const char *arg)
{
	uint64_t *out = shared(), end, c0;

	make_group("r");
	make_group("d");
	expect(put(cg("r", "cpuset.cpus"), "0"), 0, "one of four CPUs");
	expect(put(cg("d", "cpuset.cpus"), "0"), 0, "the same CPU");
	expect(reserve("r", 9000, 10000), 0, "0.9 of it");
	hogs[0] = (struct hog){ .group = "r", .policy = SCHED_FIFO, .prio = 10,
				.q = 9000, .p = 10000 };
	end = now_ns(CLOCK_MONOTONIC) + 60 * MS + SEC;
	if (!fork()) {
		/* When the hog is busy: what it does not use, the task may have. */
		set_policy(0, SCHED_FIFO, 50);
		sleep_until(end - SEC);
		if (set_reclaiming(250 * US, 5 * MS) || enter("d"))
			_exit(1);
		c0 = now_ns(CLOCK_THREAD_CPUTIME_ID);
		busy_until(end);
		out[0] = now_ns(CLOCK_THREAD_CPUTIME_ID) - c0;
		out[1] = 1 + sched_getcpu();
		_exit(0);
	}
	run_hogs(1, 1100 * MS);
	check(out[1] == 1, "a task that reclaims stays on the CPU");
	check(hogs[0].cpu_ns > 988 * MS, "0.9 beside it: %llu us of 990000",
	      (unsigned long long)hogs[0].cpu_ns / US);
	check(out[0] > 40 * MS && out[0] < 60 * MS, "it gets its 0.05: %llu us in 1 s",
	      (unsigned long long)out[0] / US);
	remove_group("r");
	remove_group("d");
}
