// SPDX-License-Identifier: Apache-2.0
/*
 * Tenants who change the reservations below their own all the time, as uid 1000
 * with RLIMIT_RTPRIO: they get no more than what root gave them, and nobody
 * else less.
 */
#include "guest.h"

#include <sys/resource.h>

#define LENGTH (2 * SEC)
/* What root gives to the tenant, and what another has beside it, in us. */
#define TENANT_Q 4000
#define OTHER_Q 5000
#define PERIOD 10000
/*
 * What the tenant makes of it: a short period is before the other's. A burst is
 * short of the whole budget, after which nobody could write anything.
 */
#define BELOW_Q 800
#define BELOW_P 2000
#define BURST (550 * US)
/* What a group keeps while it waits for its turn, and the most groups. */
#define REST 50
#define MOST 4

static uint64_t end;

static void become_tenant(const char *group)
{
	struct rlimit rl = { 10, 10 };

	if (setrlimit(RLIMIT_RTPRIO, &rl) || enter(group))
		_exit(1);
	become_user();
	if (set_policy(0, SCHED_FIFO, 10))
		_exit(1);
}

static bool over(void)
{
	return now_ns(CLOCK_MONOTONIC) >= end;
}

/* Wait for a byte; false if the other one has closed its end. */
static bool wait_turn(int fd)
{
	char c;

	return read(fd, &c, 1) == 1;
}

static void pass_turn(int fd)
{
	if (write(fd, "x", 1) != 1)
		_exit(0);
}

/* Use the budget of @mine, give it to @next, and wait for it to come back. */
static void hand_over(const char *mine, const char *next, int in, int out)
{
	become_tenant(mine);
	while (!over() && wait_turn(in)) {
		spin(BURST);
		reserve(mine, REST, BELOW_P);
		reserve(next, BELOW_Q - REST * MOST, BELOW_P);
		pass_turn(out);
	}
	_exit(0);
}

/* Each has a server of its own, which had nothing for a while. */
static void some_that_hand_over(int n)
{
	int i, k, pipes[MOST][2];
	char mine[8], next[8];

	for (i = 0; i < n; i++) {
		snprintf(mine, sizeof(mine), "t/%d", i);
		make_group(mine);
		expect(reserve(mine, i ? REST : BELOW_Q - REST * MOST, BELOW_P), 0, mine);
		give(mine, "cpu.rt.max");
		if (pipe(pipes[i]))
			die("pipe");
	}
	pass_turn(pipes[0][1]);
	for (i = 0; i < n; i++) {
		if (fork())
			continue;
		/* The last who waits for a turn sees that nobody is left. */
		for (k = 0; k < n; k++) {
			if (k != i)
				close(pipes[k][0]);
			if (k != (i + 1) % n)
				close(pipes[k][1]);
		}
		snprintf(mine, sizeof(mine), "t/%d", i);
		snprintf(next, sizeof(next), "t/%d", (i + 1) % n);
		hand_over(mine, next, pipes[i][0], pipes[(i + 1) % n][1]);
	}
	for (i = 0; i < n; i++) {
		close(pipes[i][0]);
		close(pipes[i][1]);
	}
}

static void two_that_hand_over(void)
{
	some_that_hand_over(2);
}

static void many_that_hand_over(void)
{
	some_that_hand_over(MOST);
}

/* A short period ends soon, and with it begins one with a whole budget. */
static void one_that_shrinks(void)
{
	make_group("t/0");
	expect(reserve("t/0", BELOW_Q, BELOW_P), 0, "all to one below");
	give("t/0", "cpu.rt.max");
	if (fork())
		return;
	become_tenant("t/0");
	while (!over()) {
		spin(BURST);
		reserve("t/0", 13, 640);
		usleep(50);
		reserve("t/0", BELOW_Q, BELOW_P);
	}
	_exit(0);
}

static uint64_t used_us(const char *group)
{
	char *line = strstr(get(cg(group, "cpu.stat")), "usage_usec ");

	return line ? strtoull(line + strlen("usage_usec "), NULL, 10) : 0;
}

static void attack(const char *what, void (*start)(void), bool root_busy)
{
	uint64_t used, most = LENGTH / US * TENANT_Q / PERIOD;
	struct verdict v;
	char name[8];
	int i;

	make_group("t");
	delegate("t");
	expect(reserve("t", TENANT_Q, PERIOD), 0, what);
	expect(put(cg("t", "cgroup.subtree_control"), "+cpu"), 0, "groups below");
	hogs[0] = (struct hog){ .group = "v", .policy = SCHED_FIFO, .prio = 10,
				.q = OTHER_Q, .p = PERIOD };
	hogs[1] = (struct hog){ .policy = SCHED_FIFO, .prio = 50, .q = 1, .p = PERIOD };
	end = now_ns(CLOCK_MONOTONIC) + 20 * MS + LENGTH;
	start();
	run_hogs(root_busy ? 2 : 1, LENGTH);
	used = used_us("t");
	judge(&hogs[0], LENGTH, &v);
	/* a budget more at the beginning and at the end, and the exits */
	check(used <= most + 2 * TENANT_Q + 1000, "%s: %llu us of %llu", what,
	      (unsigned long long)used, (unsigned long long)most);
	check(used > most / 4, "%s: the tenant was busy", what);
	check(!v.shorts, "%s: the other one's worst period: %llu us of %d, %d of %d short",
	      what, (unsigned long long)v.min / US, OTHER_Q, v.shorts, v.periods);
	for (i = 0; i < MOST; i++) {
		snprintf(name, sizeof(name), "t/%d", i);
		remove_group(name);
	}
	usleep(50000);
	expect(reserve("t", 0, PERIOD), 0, "all back");
	remove_group("t");
	usleep(50000);
}

/* Between top reservations: who needs the bandwidth tries again at the period's end. */
static void held_by_who_had_it(void)
{
	uint64_t begin, waited;
	int status;

	make_group("a");
	make_group("b");
	expect(reserve("a", 900000, SEC / US), 0, "0.9 in a second");
	check(burn("a", -1, 500 * MS) > 490 * MS, "half a second of it is used");
	begin = now_ns(CLOCK_MONOTONIC);
	expect(reserve("a", 0, SEC / US), 0, "all back");
	if (!fork())
		_exit(set_deadline(100 * MS, SEC));
	wait(&status);
	expect(WEXITSTATUS(status), EBUSY, "a deadline task that needs some of it");
	expect(reserve("b", 900000, SEC / US), EBUSY, "another group that needs it");
	check(now_ns(CLOCK_MONOTONIC) - begin < 50 * MS, "without a wait");
	while (reserve("b", 900000, SEC / US) == EBUSY && now_ns(CLOCK_MONOTONIC) - begin < 2 * SEC)
		usleep(5000);
	waited = now_ns(CLOCK_MONOTONIC) - begin;
	check(waited > 400 * MS && waited < 600 * MS, "has it at the end of the period: %llu us",
	      (unsigned long long)waited / US);
	begin = now_ns(CLOCK_MONOTONIC);
	expect(reserve("b", 0, SEC / US), 0, "which has not used it");
	expect(reserve("a", 900000, SEC / US), 0, "so it is free at once");
	check(now_ns(CLOCK_MONOTONIC) - begin < 50 * MS, "without a wait");
	remove_group("a");
	remove_group("b");
}

void test_multiply(__attribute__((unused)) const char *arg)
{
	make_group("v");
	expect(reserve("v", OTHER_Q, PERIOD), 0, "0.5 of another tenant");
	attack("two that hand over", two_that_hand_over, true);
	attack("two that hand over, the rest free", two_that_hand_over, false);
	attack("one that shrinks", one_that_shrinks, true);
	attack("one that shrinks, the rest free", one_that_shrinks, false);
	attack("many that hand over", many_that_hand_over, true);
	attack("many that hand over, the rest free", many_that_hand_over, false);
	remove_group("v");
	usleep(50000);	/* until it is offline */
	held_by_who_had_it();
}
