// SPDX-License-Identifier: Apache-2.0
/* Pools of spare bandwidth: what is admitted, for whom, and where. */
#include "guest.h"

/* ---- what is admitted, and for whom ---- */

#define SUBSCRIBERS 100

static void once(void)
{
	long long before, one;
	char name[16];
	int i, err = 0;

	make_pool(0, 0);
	before = number_in("", "cpu.rt.effective", "reserved_ppm=");
	check(before > 399000 && before < 401000, "it takes %lld ppm", before);
	for (i = 0; i < SUBSCRIBERS; i++) {
		snprintf(name, sizeof(name), "p/%d", i);
		make_group(name);
		err = err ?: reserve(name, 100, 100000);
	}
	before = number_in("", "cpu.rt.effective", "reserved_ppm=");
	expect(subscribe("p/0", POOL_PRIO), 0, "for one");
	one = number_in("", "cpu.rt.effective", "reserved_ppm=");
	for (i = 1; i < SUBSCRIBERS; i++) {
		snprintf(name, sizeof(name), "p/%d", i);
		err = err ?: subscribe(name, POOL_PRIO);
	}
	expect(err, 0, "for a hundred");
	check(one == before && number_in("", "cpu.rt.effective", "reserved_ppm=") == before,
	      "takes as much");
	same("the file", "4000 10000 1000", get(cg("p", "cpu.rt.spare.max")));
	same("and the other one", "50", get(cg("p/99", "cpu.rt.spare")));
	same("the pool is there", "0 spare_runtime_ns=4000000 spare_period_ns=10000000",
	     get(cg("p", "cpu.rt.effective")));
	same("for them", "0 runtime_ns=100000 period_ns=100000000 spare=1",
	     get(cg("p/99", "cpu.rt.effective")));
	expect(set_pool(0, POOL_P, 0), 0, "no pool any more");
	same("nor for them", "0 runtime_ns=100000 period_ns=100000000 spare=0",
	     get(cg("p/99", "cpu.rt.effective")));
	for (i = 0; i < SUBSCRIBERS; i++) {
		snprintf(name, sizeof(name), "p/%d", i);
		remove_group(name);
	}
	usleep(200000);
	expect(remove_group("p"), 0, "rmdir of the pool");
	usleep(50000);
}

static void refusals(void)
{
	pid_t pid;
	int err;

	make_group("p");
	put(cg("p", "cgroup.subtree_control"), "+cpu +cpuset");
	expect(set_pool(11000, POOL_P, 0), EINVAL, "more than the period");
	expect(set_pool(1, POOL_P, 0), EINVAL, "less than 1024 ns");
	expect(set_pool(40, 50, 0), EINVAL, "too short a period");
	expect(set_pool(POOL_Q, 5000000, 0), EINVAL, "too long a period");
	expect(set_pool(POOL_Q, POOL_P, 99), EINVAL, "too short a slot");
	expect(set_pool(POOL_Q, POOL_P, POOL_Q + 1), EINVAL, "too long a slot");
	expect(put(cg("p", "cpu.rt.spare.max"), "max"), EINVAL, "no number");
	expect(put(cg("p", "cpu.rt.spare.max"), "4000 10000 x"), EINVAL, "no number of a slot");
	expect(put(cg("p", "cpu.rt.spare.max"), "4000 10000 1000 1"), EINVAL, "four numbers");
	expect(set_pool(9600, POOL_P, 0), EBUSY, "more than the CPU has");
	same("nothing has changed", "0 1000000 0", get(cg("p", "cpu.rt.spare.max")));
	expect(set_pool(POOL_Q, POOL_P, 0), 0, "a pool");
	same("and its slot", "4000 10000 1000", get(cg("p", "cpu.rt.spare.max")));

	make_group("p/t");
	expect(subscribe("p/t", POOL_PRIO), EINVAL, "use without a reservation");
	expect(reserve("p/t", 3000, 10000), 0, "0.3");
	expect(subscribe("p/t", 100), EINVAL, "no such priority");
	expect(put(cg("p/t", "cpu.rt.spare"), "x"), EINVAL, "no priority");
	expect(subscribe("p/t", 1), 0, "all its tasks");

	/* A tenant does not decide on what is outside, nor with a file of its own. */
	delegate("p/t");
	give("p/t", "cpu.rt.spare");
	give("p/t", "cpu.rt.spare.max");
	expect(user_puts("/cg/p/t/cgroup.subtree_control", "+cpu"), 0, "a tenant");
	expect(user_puts("/cg/p/t/cpu.rt.spare", "1"), EPERM, "asks for the pool");
	expect(user_puts("/cg/p/t/cpu.rt.spare.max", "1000 10000"), EPERM, "makes a pool");
	expect(user_puts("/cg/p/t/cpu.rt.spare", "0"), 0, "or does without");
	expect(user_puts("/cg/p/t/a", NULL), 0, "and has a group");
	expect(user_puts("/cg/p/t/a/cpu.rt.max", "1000 10000"), 0, "with a part of it");
	expect(subscribe("p/t/a", POOL_PRIO), EINVAL, "that cannot use a pool above its tenant");

	/* A pool inside of a reservation is a part of it. */
	expect(set_pool(0, POOL_P, 0), 0, "no pool above");
	expect(put(cg("p/t", "cpu.rt.spare.max"), "3000 10000"), EINVAL, "more than what is left");
	expect(put(cg("p/t", "cpu.rt.spare.max"), "1000 10000"), 0, "a part");
	check(number_in("p/t", "cpu.rt.effective", " runtime_ns=") / 1000 == 1000 &&
	      number_in("p/t", "cpu.rt.effective", "spare_runtime_ns=") == 1000000,
	      "the group has the rest: %s", get(cg("p/t", "cpu.rt.effective")));
	expect(subscribe("p/t/a", POOL_PRIO), 0, "for the group below");
	expect(reserve("p/t", 1500, 10000), EINVAL, "not less than all that");
	pid = rt_child("p/t", &err);
	expect(err, 0, "a task of its own");
	expect(put(cg("p/t", "cpu.rt.spare.max"), "2000 10000"), EBUSY, "which keeps something");
	end_child(pid);
	remove_group("p/t/a");
	usleep(50000);
	remove_group("p/t");
	usleep(50000);
	expect(remove_group("p"), 0, "rmdir");
	usleep(50000);
}

/* A group that is being served is removed, and one whose pool is taken away. */
static void removals(void)
{
	char *before = strdup(admitted());
	pid_t pid, other;
	int round;

	for (round = 0; round < 4; round++) {
		make_pool(2, 1000);
		pid = busy_in(pool_user(0), POOL_PRIO, round % 2 * 1000, now_ns(CLOCK_MONOTONIC));
		other = busy_in(pool_user(1), POOL_PRIO, 0, now_ns(CLOCK_MONOTONIC));
		usleep(23000 + round * 1700);
		if (round > 1)
			expect(set_pool(0, POOL_P, 0), 0, "the pool goes");
		end_child(pid);
		expect(remove_group(pool_user(0)), 0, "a group that used it");
		end_child(other);
		remove_pool(2);
	}
	usleep(200000);
	same("the sums are as before", before, admitted());
}

static void admission(void)
{
	once();
	refusals();
	removals();
}

/* ---- several CPUs ---- */

static void cpus(void)
{
	make_pool(1, 1000);
	make_group("b");
	expect(put(cg("p", "cpuset.cpus"), "0-1"), 0, "on two CPUs");
	same("the pool", "0 spare_runtime_ns=4000000 spare_period_ns=10000000\n"
	     "1 spare_runtime_ns=4000000 spare_period_ns=10000000",
	     get(cg("p", "cpu.rt.effective")));
	expect(put(cg("b", "cpuset.cpus"), "3"), 0, "others on one");
	expect(reserve("b", 8000, 10000), 0, "have 0.8");
	expect(put(cg("p", "cpuset.cpus"), "2-3"), EBUSY, "no room for the pool there");
	expect(put("/sys/devices/system/cpu/cpu1/online", "0"), EBUSY, "the CPU stays");
	expect(put(cg("p", "cpuset.cpus"), "2"), 0, "it moves");
	same("the pool", "2 spare_runtime_ns=4000000 spare_period_ns=10000000",
	     get(cg("p", "cpu.rt.effective")));
	same("for the group", "2 runtime_ns=1000000 period_ns=100000000 spare=1",
	     get(cg(pool_user(0), "cpu.rt.effective")));
	usleep(50000);
	expect(put("/sys/devices/system/cpu/cpu1/online", "0"), 0, "the CPU may go");
	expect(put("/sys/devices/system/cpu/cpu1/online", "1"), 0, "and come");
	expect(put(cg("p", "cpuset.cpus"), "1-2"), 0, "where it was");
	/* One CPU's pool, and the group's own. */
	{
		uint64_t got = burn_many(pool_user(0), 1, 1000 * MS);

		check(got < 10 * MS + 430 * MS, "not used by a low priority: %llu us",
		      (unsigned long long)got / US);
	}
	expect(subscribe(pool_user(0), 1), 0, "all its tasks");
	{
		uint64_t got = burn_many(pool_user(0), 4, 1000 * MS);

		check(got > 780 * MS && got < 850 * MS, "two CPUs, two pools: %llu us",
		      (unsigned long long)got / US);
	}
	expect(remove_group("b"), 0, "rmdir");
	remove_pool(1);
}

void test_pool(const char *arg)
{
	if (!strcmp(arg, "admission"))
		admission();
	else if (!strcmp(arg, "cpus"))
		cpus();
	else
		check(false, "unknown: %s", arg);
}
