/* SPDX-License-Identifier: GPL-2.0-only */
/* The reservations that were admitted, and the rule. No input or output. */
#ifndef TABLE_H
#define TABLE_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include "rsv.h"

#define PPM 1000000
#define MAX_PATH 1024
#define MAX_RESERVATIONS 4096

/* Below these a switch takes more than the reservation gives. */
#define MIN_RUNTIME_US 50
#define MIN_PERIOD_US 200
/* With less, a thousand tasks of a group would wait longer than the kernel allows. */
#define MIN_PPM 5000
/* Far below the time after which the kernel ends a scheduler that lets a task wait. */
#define MAX_PERIOD_US 1000000

struct reservation {
	char path[MAX_PATH];	/* as in /proc/PID/cgroup */
	__u64 cgid;
	__u32 runtime_us, period_us;
	struct group where;
};

struct cpu_row {
	__u32 held_ppm;
	__u32 freed_s[MAX_SERVERS];
	bool used[MAX_SERVERS], ever[MAX_SERVERS];
};

struct table {
	__u32 nr_cpus, ceiling_ppm, switch_us;
	size_t nr;
	struct reservation *all[MAX_RESERVATIONS];
	struct cpu_row cpus[MAX_CPUS];
};

struct refusal {
	int err;		/* 0: none */
	int cpu;		/* -1: not about one */
	const char *what;	/* the unit of both numbers */
	__u32 asked;
	const char *bound;	/* "least", "most", or "free", which is a most, too */
	__u32 value;
};

/*
 * What a reservation takes of a CPU, rounded up. Its server has two switches more than
 * the runtime: one that it loses, and one that it pays to whom it preempts.
 */
__u32 table_ppm(const struct table *t, __u32 runtime_us, __u32 period_us);
__u32 table_free_ppm(const struct table *t, int cpu);
struct reservation *table_find(struct table *t, const char *path);

/*
 * Admit or change @want: its `where` holds CPUs, and gets the slots. @now_s is a
 * monotonic time. On success @old holds what was there before (nr of 0: nothing)
 * and the result is the entry; NULL and the reason in @no otherwise, and nothing
 * has changed.
 */
struct reservation *table_set(struct table *t, const struct reservation *want, __u32 now_s,
			      struct reservation *old, struct refusal *no);
/* Forget @r, and free it. */
void table_clear(struct table *t, struct reservation *r, __u32 now_s);

#endif
