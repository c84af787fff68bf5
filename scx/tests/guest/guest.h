/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The guest's init is one static program of all the files here. A test prints one
 * line per result: "ok", "FAIL", or "----" for what is only shown. Times are
 * printed in microseconds of the virtual clock.
 */
#ifndef GUEST_H
#define GUEST_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
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
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define US 1000ULL
#define MS 1000000ULL
#define SEC 1000000000ULL
#define ARRAY(a) (sizeof(a) / sizeof((a)[0]))

/* ---- lib.c ---- */

extern int failures;	/* a test passes if it leaves 0 here */
extern int nr_cpus;	/* which share one instruction per ns */
/* Before hogs begin: the periods that their set-up began are over then. */
#define LEAD ((nr_cpus > 1 ? 500 : 250) * MS)
/* What a switch and back takes. */
extern unsigned int switch_us;

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * SEC + t.tv_nsec;
}

void sleep_until(uint64_t t);
void busy_until(uint64_t t);
void power_off(void) __attribute__((noreturn));
/* 0 or the errno of the write. */
int put(const char *path, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The first line of a file, in a buffer that the next call uses again. */
char *get(const char *path);
/* One line of the log: ok or FAIL, and what was checked. */
void check(bool ok, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same of an answer, which has to begin with @want. */
void says(const char *want, const char *got, const char *what);
/* The path of a group's file. Four results are kept. */
char *cg(const char *group, const char *file);
int make_group(const char *group);
int remove_group(const char *group);
int enter(const char *group);
int set_fifo(int prio);
int pin(int cpu);
pid_t fork_flushed(void);
void end(pid_t pid);
uint64_t random_below(uint64_t n);
void random_seed(uint64_t seed);

/* ---- client.c ---- */

#define SOCKET "/run/nova-rt-sched/socket"

extern pid_t daemon_pid;
extern const char *daemon_ceiling;	/* ppm, for start_daemon() */

/* The daemon, from its start until it is ready; false if it does not get there. */
bool start_daemon(void);
#define DAEMON_OUT "/run/daemon.out"

/* Its exit code when it is run with these arguments; what it says is in DAEMON_OUT. */
int run_daemon(const char *args);
/* Whether that is anywhere in what it said. */
bool daemon_said(const char *what);
/* SIGTERM, and its exit code. */
int stop_daemon(void);
/* Its exit code when it has ended by itself; -1 after five seconds; 256 + signal. */
int wait_daemon(void);
/* A new connection, on which an answer takes at most five seconds. */
bool reconnect(void);
/* The last line of the answer, in a buffer that the next call uses again. */
char *ask(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The first line of an answer that has several. */
char *ask_first(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* A number of a line "key=value ..."; -1 if the key is not there. */
long long value_of(const char *line, const char *key);
bool reserve(const char *group, long q_us, long p_us, const char *cpus);
bool unreserve(const char *group);
bool scheduler_is(const char *state);

/* ---- hog.c ---- */

#define MAX_HOGS 24
#define MAX_RUNS 60000

struct hog {
	/* in: */
	char group[16];		/* "": the root */
	int fifo;		/* priority; 0: ordinary */
	int nice;
	int cpu;		/* 1 + where it is pinned; 0: anywhere */
	uint64_t on, off;	/* work and sleep; 0: always */
	uint64_t offset;	/* of its start */
	uint64_t q, p;		/* what it is measured against, ns */
	int cuts;		/* by others in one of its periods that nobody pays for */
	/* out: */
	uint64_t t0, n, work, cpu_ns;	/* the last as the kernel accounts for it */
	struct { uint64_t from, to; } run[MAX_RUNS];
};

struct verdict {
	int periods, shorts, overs;
	uint64_t min, max, mean, gap, sum;
};

extern struct hog *hogs;	/* shared with the tasks that run */

void make_hogs(void);
/* Clear what is not a result, and set the group. */
struct hog *new_hog(int i, const char *group);
/* Ordinary hogs (o) and FIFO ones (f: 0.1 of each ms) behind hog @n; the new number. */
int add_beside(int n, const char *beside);
void start_hogs(int n, uint64_t t0, uint64_t len);
/* Have a hog that runs run there. */
void move_hog(int i, int cpu);
void reap_hogs(int n);
uint64_t service(const struct hog *h, uint64_t a, uint64_t b, uint64_t *hint);
uint64_t tolerance(const struct hog *h);
struct verdict judge(const struct hog *h, uint64_t from, uint64_t to);

/* ---- supply.c ---- */

/* Reservations on each of four CPUs, beside ordinary tasks for add_beside(). */
void supply_wide(const char *tasks);

/* ---- attack.c ---- */

/* How often two tasks woke each other; how many children came and went. */
uint64_t ping_pong(uint64_t end);
uint64_t fork_storm(uint64_t end);

/* ---- the tests; @arg is what follows the name, or "" ---- */

void test_supply(const char *arg);
void test_wide(const char *arg);
void test_control(const char *arg);
void test_random(const char *arg);
void test_random_control(const char *arg);
void test_kernel(const char *arg);
void test_protocol(const char *arg);
void test_strangers(const char *arg);
void test_stress(const char *arg);
void test_hotplug(const char *arg);
void test_cycle(const char *arg);
void test_kill(const char *arg);
void test_eject(const char *arg);
void test_attack(const char *arg);
void test_forks(const char *arg);
void test_dodge(const char *arg);
void test_crowd(const char *arg);
void test_many(const char *arg);
void test_ordinary(const char *arg);
void test_limits(const char *arg);
void test_paupers(const char *arg);

#endif
