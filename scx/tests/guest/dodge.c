// SPDX-License-Identifier: GPL-2.0-only
/*
 * Ways in which a tenant might have more than it has been given, or have the kernel end
 * the scheduler: by changes of its own parameters, groups in its group, limits of its own.
 */
#include "guest.h"
#include <sys/syscall.h>

#define MANY 200

static struct {
	uint64_t seen;
} *shared;

/* Of no consequence, but the task stops and goes on. */
static void change_slice(void)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = { .size = sizeof(attr) };

	syscall(SYS_sched_setattr, 0, &attr, 0);
}

static void change_slices(void)
{
	for (;;)
		change_slice();
}

static void compute(void)
{
	busy_until(~0ULL);
}

static void tell_time(void)
{
	for (;;)
		shared->seen = now_ns();
}

static pid_t start_in(const char *group, int cpu, void (*run)(void))
{
	pid_t pid = fork_flushed();

	if (pid)
		return pid;
	if (pin(cpu) || (*group && enter(group)))
		_exit(1);
	set_fifo(0);
	run();
	_exit(0);
}

static void divide(const char *group)
{
	if (put(cg(group, "cgroup.subtree_control"), "+cpu"))
		check(false, "the controller cpu for the groups in %s", group);
}

static void limit(const char *group, const char *max)
{
	if (put(cg(group, "cpu.max"), "%s", max))
		check(false, "cpu.max of %s", group);
}

/* What a group has of a CPU in that time. */
static double share_of(const char *group, uint64_t len)
{
	long long from = atoll(get(cg(group, "cpu.stat")) + strlen("usage_usec "));

	sleep_until(now_ns() + len);
	return (atoll(get(cg(group, "cpu.stat")) + strlen("usage_usec ")) - from) * 1e3 / len;
}

static void turns(void)
{
	static pid_t pids[MANY];
	struct hog *h = new_hog(0, "t");
	uint64_t len = 2 * SEC;
	double share;
	int i;

	make_group("t");
	h->cpu = 1;
	start_hogs(1, now_ns() + 2 * SEC, len);
	sleep_until(now_ns() + SEC);
	set_fifo(1);
	/* Each of them would have to wait for a grace period. */
	enter("t");
	for (i = 0; i < MANY; i++)
		pids[i] = start_in("", 0, change_slices);
	enter("");
	sleep_until(h->t0);
	share = share_of("t", len);
	reap_hogs(1);
	for (i = 0; i < MANY; i++)
		end(pids[i]);
	set_fifo(0);
	check(h->cpu_ns > len / MANY / 2,
	      "beside %d that change their slices a task has %.1f ms, all have %.3f of a CPU",
	      MANY, h->cpu_ns / 1e6, share);
}

static void waits(void)
{
	pid_t pids[22];
	uint64_t t0;
	int i;

	make_group("q");
	limit("q", "1000 100000");
	for (i = 0; i < 20; i++)
		pids[i] = start_in("", 0, compute);
	pids[20] = start_in("q", 1, compute);
	pids[21] = start_in("q", 0, tell_time);
	t0 = now_ns();
	sleep_until(t0 + 16 * SEC);
	check(shared->seen > t0 + 8 * SEC, "a task whose limit another one uses up last ran at %.1f s",
	      shared->seen > t0 ? (shared->seen - t0) / 1e9 : 0.0);
	for (i = 0; i < 22; i++)
		end(pids[i]);
}

static void nests(void)
{
	pid_t other = start_in("", 0, compute), pid;
	char name[64] = "d";
	double share;
	int i;

	make_group(name);
	limit(name, "10000 100000");
	for (i = 0; i < 4; i++) {
		divide(name);
		strcat(name, "/n");
		make_group(name);
		limit(name, "200000 100000");
	}
	pid = start_in(name, 0, compute);
	share = share_of("d", 2 * SEC);
	check(share < 0.15, "of 0.1 of a CPU a task below four limits has %.3f", share);
	end(pid);

	strcpy(name, "n");
	reserve(name, 2000, 10000, "0");
	for (i = 0; i < 18; i++) {
		divide(name);
		strcat(name, "/n");
		make_group(name);
	}
	pid = start_in(name, 0, compute);
	share = share_of("n", 2 * SEC);
	check(share < 0.25, "of 0.2 of a CPU a task 18 levels below has %.3f", share);
	end(pid);
	end(other);
}

/* The table of limits is for all. */
static void uses_up(void)
{
	char name[32];
	double share;
	pid_t pid;
	int i;

	make_group("m");
	divide("m");
	make_group("m/t");
	divide("m/t");
	for (i = 0; i < 1100; i++) {
		snprintf(name, sizeof(name), "m/t/%d", i);
		make_group(name);
		limit(name, "50000 100000");
	}
	make_group("m/l");
	limit("m/l", "10000 100000");
	pid = start_in("m/l", 0, compute);
	share = share_of("m/l", 2 * SEC);
	check(share < 0.15, "beside 1100 limits of another a limit of 0.1 is %.3f", share);
	end(pid);
}

static const struct {
	const char *name;
	void (*run)(void);
} dodges[] = {
	{ "turns", turns },	{ "waits", waits },
	{ "nests", nests },	{ "uses-up", uses_up },
};

/* @arg: one of them; "" for all. */
void test_dodge(const char *arg)
{
	unsigned int i;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	make_group("n");
	check(start_daemon(), "the scheduler is loaded");
	for (i = 0; i < ARRAY(dodges); i++)
		if (!*arg || !strcmp(arg, dodges[i].name))
			dodges[i].run();
	check(scheduler_is("enabled"), "the scheduler is still there");
	check(stop_daemon() == 0, "the daemon stops");
}
