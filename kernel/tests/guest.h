/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest's init is one static program of all the files here. A test is a
 * function that is listed in main.c; it prints one line per result.
 *
 * Times are printed in microseconds. Nothing may depend on anything but the
 * virtual clock: the log has to be the same from run to run.
 */
#ifndef GUEST_H
#define GUEST_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define US 1000ULL
#define MS 1000000ULL
#define SEC 1000000000ULL
#define ARRAY(a) (sizeof(a) / sizeof((a)[0]))
#define DEADLINE 6 /* SCHED_DEADLINE, which libc's headers do not have */

/* ---- lib.c ---- */

extern int failures;	/* a test passes if it leaves 0 here */
extern bool v2;		/* /cg is the version 2 tree, with cpu.rt.max */

static inline uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * SEC + ts.tv_nsec;
}

void sleep_until(uint64_t t);
void power_off(void) __attribute__((noreturn));
void die(const char *what) __attribute__((noreturn));

/* 0 or the errno of the write. */
int put(const char *path, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* What the file holds, in a buffer that the next call uses again. */
char *get(const char *path);

/* One line of the log each: ok or FAIL, and what was checked. */
void check(bool ok, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void expect(int got, int want, const char *what);
void same(const char *what, const char *want, const char *got);

/*
 * What servers and tasks have, running or not, on each CPU, what is left of it for
 * reclaiming, and what they have in its root domain. If more is running than there
 * is, that is shown as well. The next call uses the buffer again.
 */
char *admitted(void);
/* A number of a group's queue in debugfs; -1 if the queue is not there. */
long long shown(const char *queue, const char *key);

void mount_cgroups(bool want_v2);
/* The path of a group's file; "" is the root group. Four results are kept. */
char *cg(const char *group, const char *file);
int make_group(const char *group);
int remove_group(const char *group);
int reserve(const char *group, long long q_us, long long p_us);
int enter(const char *group);

#define USER 1000

void become_user(void);
/* The user owns that file of the group; "" is its directory. */
void give(const char *group, const char *file);
/*
 * As the documentation of version 2 says: not the files that limit the group.
 */
void delegate(const char *group);
/* As the user: 0 or the errno of the write, or of mkdir() if there is no text. */
int user_puts(const char *path, const char *text);
/* One of the two opens the file, the other one writes: 0 or the errno. */
int put_by_two(const char *path, const char *text, bool user_opens);

int set_policy(pid_t pid, int policy, int prio);
void pin(int cpu);
/* On all CPUs again, as deadline tasks have to be. */
void unpin(void);
int set_deadline(uint64_t runtime, uint64_t period);
/* One that takes what others leave (GRUB). */
int set_reclaiming(uint64_t runtime, uint64_t period);

/* A FIFO task in @group that waits; *err says what it met on its way there. */
pid_t rt_child(const char *group, int *err);
void end_child(pid_t pid);
/* The CPU time in ns that FIFO hogs of @group get in @len ns. */
uint64_t burn(const char *group, int cpu, uint64_t len);
uint64_t burn_many(const char *group, int tasks, uint64_t len);
/* A page that children share. */
void *shared(void);
void busy_until(uint64_t t);
/* Use that much CPU time. */
void spin(uint64_t cpu_ns);
/* What a group pays for preempting another one, in ns. */
int switch_cost(void);

/* ---- hog.c ---- */

#define NR_HOGS 8
#define MAX_RUNS 60000

struct run {
	uint64_t from, to;
};

struct hog {
	/* in: */
	const char *group;	/* NULL: the root */
	int policy, prio;	/* SCHED_FIFO, SCHED_OTHER, DEADLINE */
	int q, p;		/* us */
	int interruptions;	/* by others in one of its periods, at most */
	int paid_ns;		/* it pays others for its own, in one of its periods */
	/* out: */
	int err;
	uint64_t cpu_ns;	/* accounted by the kernel */
	uint64_t t0;
	int nr_runs;
	struct run runs[MAX_RUNS];
};

struct verdict {
	int periods, shorts, overs;
	uint64_t min, max, gap;
	uint64_t shortest;	/* when the one with the least service began */
	int64_t acct_ppm;	/* accounted time against Q/P, over the run */
};

extern struct hog *hogs;	/* shared with the tasks that run */

void make_hogs(void);
void run_hogs(int n, uint64_t len_ns);
/* What @h had of the CPU within [from, to); *hint is 0 before the first of later times. */
uint64_t service(struct hog *h, uint64_t from, uint64_t to, int *hint);
void judge(struct hog *h, uint64_t len, struct verdict *v);
/* The first runs of @h in the period that begins at @from, in us of it. */
void print_period(struct hog *h, uint64_t from);

/* ---- spare.c ---- */

/* The pool of "p", its slot, in us, and the least priority that may use it. */
#define POOL_Q 4000
#define POOL_P 10000
#define POOL_SLOT 1000
#define POOL_PRIO 50
#define POOL_USERS 20

/* The groups below "p" that use it. */
const char *pool_user(int i);
int set_pool(int qs, int ps, int slot);
int subscribe(const char *group, int prio);
/* The pool, and @n groups that use it and have @q_us in 100 ms of their own. */
void make_pool(int n, int q_us);
/* When all children have ended. */
void remove_pool(int n);
/* A number of the only line of a group's file; -1 if it is not there. */
long long number_in(const char *group, const char *file, const char *key);
/* A FIFO task that is busy from @start on, or sleeps for @sleep_ns again and again. */
pid_t busy_in(const char *group, int prio, uint64_t sleep_ns, uint64_t start);

/* ---- bounds.c ---- */

/* What a period may lack, in ns. */
uint64_t tolerance(int q_us, int p_us, int interruptions);
uint64_t task_tolerance(int q_us, int p_us, int interruptions);
bool kept(int q_us, int p_us, int paid_ns, const struct verdict *v);

/* ---- the tests; @arg is what follows the name, or "" ---- */

void test_attack(const char *arg);
void test_bisect(const char *arg);
void test_change(const char *arg);
void test_core(const char *arg);
void test_supply(const char *arg);
void test_control(const char *arg);
void test_refuse(const char *arg);
void test_delegate(const char *arg);
void test_multiply(const char *arg);
void test_percpu(const char *arg);
void test_partition(const char *arg);
void test_reclaim(const char *arg);
void test_migrate(const char *arg);
void test_edge(const char *arg);
void test_pi(const char *arg);
void test_pi_cpus(const char *arg);
void test_finish(const char *arg);
void test_stress(const char *arg);
void test_kunit(const char *arg);
void test_regress(const char *arg);
void test_suspend(const char *arg);
void test_boot(const char *arg);
void test_later(const char *arg);
void test_full(const char *arg);
void test_going(const char *arg);
void test_beside(const char *arg);
void test_beside_control(const char *arg);
void test_trace(const char *arg);
void test_random(const char *arg);
void test_spare(const char *arg);
void test_pool(const char *arg);
void test_pings(const char *arg);
void test_script(const char *arg);

#endif
