// SPDX-License-Identifier: Apache-2.0
/*
 * A tenant with T = (4, 10) ms beside V = (5, 10) ms tries to get more by writing
 * whenever a budget is used up: version 2, 1 CPU. All that may gain time is
 * written below T by uid 1000. The argument says how: by default the bandwidth of
 * one group goes to another one and back; "shrink": one group alone gets a short
 * period and grows again; "fresh": each budget is that of a new group.
 * "again" is no attack: containers come and go, each with all that there is.
 */
#include "guest.h"

#include <linux/sched.h>
#include <semaphore.h>
#include <sys/resource.h>

#define USER 1000
#define LEN (500 * MS)
#define LARGE "3400 10000"
#define SMALL "100 10000"
#define FRESH "2900 10000"
#define FRESH_GROUPS 100
/* 2000 is nearly 2 * 1024: where a budget is compared in units of that, half. */
#define SHORT "2 100"

static struct shared {
	sem_t turn[2], spent;
	uint64_t used[2];
	int refused, done;
} *sh;

static void become_user(const char *group)
{
	struct rlimit rl = { 99, 99 };

	if (enter(group) || setrlimit(RLIMIT_RTPRIO, &rl) || setresgid(USER, USER, USER) ||
	    setresuid(USER, USER, USER) || set_policy(0, SCHED_FIFO, 10)) {
		printf("FAIL becoming a user of %s\n", group);
		_exit(255);
	}
}

static void delegate_group(const char *group)
{
	if (chown(cg(group, "cpu.rt.max"), USER, USER) ||
	    chown(cg(group, "cgroup.procs"), USER, USER))
		die("chown");
}

/* Uses a budget whenever it is its turn. */
static void hog(int i, const char *group, uint64_t use)
{
	uint64_t c0;

	if (fork())
		return;
	become_user(group);
	c0 = now_ns(CLOCK_THREAD_CPUTIME_ID);
	for (;;) {
		sem_wait(&sh->turn[i]);
		if (sh->done)
			break;
		spin(use);
		sh->used[i] = now_ns(CLOCK_THREAD_CPUTIME_ID) - c0;
		sem_post(&sh->spent);
	}
	_exit(0);
}

/* Has a short period, so that it is never late. */
static void hand_over(uint64_t start)
{
	static const char * const files[] = { "/cg/t/a/cpu.rt.max", "/cg/t/b/cpu.rt.max" };
	int from;

	if (fork())
		return;
	become_user("t/w");
	sleep_until(start);
	sem_post(&sh->turn[0]);
	for (from = 0; ; from = !from) {
		sem_wait(&sh->spent);
		if (now_ns(CLOCK_MONOTONIC) >= start + LEN)
			break;
		if (put(files[from], SMALL) || put(files[!from], LARGE))
			sh->refused++;
		sem_post(&sh->turn[!from]);
	}
	sh->done = 1;
	sem_post(&sh->turn[0]);
	sem_post(&sh->turn[1]);
	_exit(0);
}

/* Leaves a little of the budget, so that there is something to compare. */
static void shrink(uint64_t start)
{
	if (fork())
		return;
	become_user("t/w");
	sleep_until(start);
	sem_post(&sh->turn[0]);
	for (;;) {
		sem_wait(&sh->spent);
		if (now_ns(CLOCK_MONOTONIC) >= start + LEN)
			break;
		/* The hog has to sleep by then: the next period begins with a wakeup. */
		sleep_until(now_ns(CLOCK_MONOTONIC) + 30 * US);
		if (put("/cg/t/a/cpu.rt.max", SHORT))
			sh->refused++;
		sem_post(&sh->turn[0]);
		if (put("/cg/t/a/cpu.rt.max", LARGE))
			sh->refused++;
	}
	sh->done = 1;
	sem_post(&sh->turn[0]);
	_exit(0);
}

static void use_fresh_budget(void)
{
	spin(2850 * US);
	sh->used[0] += now_ns(CLOCK_THREAD_CPUTIME_ID);
	_exit(0);
}

/*
 * A child in that group, with the class of its parent, that uses a budget. It
 * has the parent's memory, since to copy that takes longer than a period.
 */
static pid_t clone_into(const char *group)
{
	static char stack[65536] __attribute__((aligned(16)));
	struct clone_args args = {
		.flags = CLONE_INTO_CGROUP | CLONE_VM,
		.exit_signal = SIGCHLD,
		.stack = (uintptr_t)stack,
		.stack_size = sizeof(stack),
	};
	int fd = open(cg(group, ""), O_RDONLY | O_DIRECTORY);
	long pid = SYS_clone3;

	if (fd < 0)
		return -1;
	args.cgroup = fd;
	/* libc has no clone() for it, and the child must not return. */
	asm volatile("syscall\n\t"
		     "test %%rax, %%rax\n\t"
		     "jnz 1f\n\t"
		     "xor %%ebp, %%ebp\n\t"
		     "call *%%rdx\n"
		     "1:"
		     : "+a" (pid)
		     : "D" (&args), "S" (sizeof(args)), "d" (use_fresh_budget)
		     : "rcx", "r11", "memory");
	close(fd);
	return pid;
}

/*
 * Each budget is the first one of a new group. The groups are made beforehand:
 * to make one takes locks for which fair tasks of the kernel wait.
 */
static void refresh(uint64_t start)
{
	char group[32] = "t/a";
	pid_t pid;
	int i;

	if (fork())
		return;
	become_user("t/w");
	sleep_until(start);
	for (i = 0; i < FRESH_GROUPS && now_ns(CLOCK_MONOTONIC) < start + LEN; i++) {
		if (put(cg(group, "cpu.rt.max"), "0 10000"))
			sh->refused++;
		snprintf(group, sizeof(group), "t/g%d", i);
		if (put(cg(group, "cpu.rt.max"), FRESH))
			sh->refused++;
		pid = clone_into(group);
		if (pid < 0)
			sh->refused++;
		else
			waitpid(pid, NULL, 0);
	}
	_exit(0);
}

static void make_fresh_groups(void)
{
	char group[32];
	int i;

	for (i = 0; i < FRESH_GROUPS; i++) {
		snprintf(group, sizeof(group), "t/g%d", i);
		make_group(group);
		delegate_group(group);
	}
}

/* What was just given back is accepted at once, and comes a period later. */
static void again(void)
{
	static const uint64_t len = 100 * MS;
	uint64_t us;
	int i;

	for (i = 0; i < 5; i++) {
		make_group("c");
		expect(reserve("c", 9000, 10000), 0, "all of the CPU, again");
		us = burn("c", -1, len) / US;
		check(us >= 9 * len / US / 10 - 10000 && us <= 9 * len / US / 10 + 1000,
		      "it has %llu us of %llu", (unsigned long long)us, 9 * len / US / 10);
		expect(reserve("c", 0, 10000), 0, "nothing");
		expect(remove_group("c"), 0, "the end of it");
	}
}

void test_handover(const char *arg)
{
	static const char * const groups[] = { "v", "t", "t/a", "t/b", "t/w" };
	bool fresh = !strcmp(arg, "fresh"), one = *arg;
	struct verdict v;
	uint64_t us, start;
	unsigned int i;

	if (!strcmp(arg, "again")) {
		again();
		return;
	}
	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sh == MAP_FAILED || sem_init(&sh->turn[0], 1, 0) || sem_init(&sh->turn[1], 1, 0) ||
	    sem_init(&sh->spent, 1, 0))
		die("memory");
	for (i = 0; i < ARRAY(groups); i++) {
		make_group(groups[i]);
		if (i == 1)
			expect(put(cg("t", "cgroup.subtree_control"), "+cpu"), 0, "groups below T");
		if (i > 1)
			delegate_group(groups[i]);
	}
	if (chown(cg("t", "cgroup.procs"), USER, USER))
		die("chown");
	if (fresh)
		make_fresh_groups();
	expect(reserve("v", 5000, 10000), 0, "V has (5, 10)");
	expect(reserve("t", 4000, 10000), 0, "T has (4, 10)");
	expect(put(cg("t/a", "cpu.rt.max"), fresh ? FRESH : LARGE), 0, "a has most of it");
	expect(put(cg("t/b", "cpu.rt.max"), one ? "0 10000" : SMALL), 0,
	       one ? "b has nothing" : "b has 0.01");
	expect(reserve("t/w", fresh ? 100 : 50, 1000), 0, "and who writes has 0.05 or 0.1");

	start = now_ns(CLOCK_MONOTONIC) + 20 * MS;
	if (fresh) {
		refresh(start);
	} else if (one) {
		hog(0, "t/a", 3250 * US);
		shrink(start);
	} else {
		hog(0, "t/a", 3350 * US);
		hog(1, "t/b", 3350 * US);
		hand_over(start);
	}
	hogs[0] = (struct hog){
		.group = "v", .policy = SCHED_FIFO, .prio = 10, .q = 5000, .p = 10000,
	};
	run_hogs(1, LEN);
	judge(&hogs[0], LEN, &v);
	us = (sh->used[0] + sh->used[1]) / US;
	printf("refused: %d\n", sh->refused);
	/* What the groups have, and a budget that begins before the end. */
	check(us <= LEN / US * (fresh ? 29 : one ? 34 : 35) / 100 + 4000,
	      "T without who writes: %llu us of %llu", (unsigned long long)us, LEN / US);
	check(kept(5000, 10000, &v), "V's worst period: %llu us of 5000, short %d of %d",
	      (unsigned long long)(v.min / US), v.shorts, v.periods);
}
