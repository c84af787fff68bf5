/* SPDX-License-Identifier: GPL-2.0-only */
/* The scheduler in the kernel: whether it can run, and how it is told. */
#ifndef KERNEL_H
#define KERNEL_H

#include <stdio.h>
#include "table.h"

struct kernel;

/* Whether this kernel can run the scheduler; false and the reason in @why. */
bool kernel_is_usable(char *why, size_t size);
/*
 * Whether threads, which are ordinary tasks, free the memory of tasks that end.
 * Otherwise interrupts do, at the cost of the task that runs.
 */
bool kernel_frees_in_threads(void);
/* Whether CPUs are hardware threads that share cores. */
bool kernel_has_smt(void);
/* Load and attach; NULL with errno and the reason in @why. */
struct kernel *kernel_start(__u32 switch_ns, char *why, size_t size);
/* Those that are possible, on a kernel that is usable. */
__u32 kernel_cpus(void);

/* Have @r take the place of @old (nr of 0: nothing). 0 or an errno. */
int kernel_apply(struct kernel *k, const struct reservation *old, const struct reservation *r,
		 __u32 switch_us);
void kernel_clear(struct kernel *k, const struct reservation *r);
/* The server's state and counters since the kernel has loaded; 0 or an errno. */
int kernel_server(struct kernel *k, int cpu, int slot, struct server *out);
struct counters kernel_counters(struct kernel *k);

/* To poll: readable when the scheduler has ended. */
int kernel_fd(struct kernel *k);
/* Whether the kernel has ended the scheduler; then the reason is in @why. */
bool kernel_ended(struct kernel *k, char *why, size_t size);
/* What the kernel wrote of all CPUs and tasks when it found an error; else nothing. */
void kernel_dump(struct kernel *k, FILE *out);
void kernel_stop(struct kernel *k);

#endif
