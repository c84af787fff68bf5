/* SPDX-License-Identifier: GPL-2.0-only */
/* What the scheduler and the daemon share. Times in ns unless named otherwise. */
#ifndef RSV_H
#define RSV_H

#define MAX_CPUS	1024
#define MAX_SERVERS	32	/* on one CPU; slot 0 is none */
#define MAX_GROUP_CPUS	64	/* with a server of one group */

/* A reservation on one CPU, in one word, so that a reader never sees half of it. */
#define RATE(runtime_us, period_us) ((__u64)(runtime_us) << 32 | (period_us))
#define RATE_RUNTIME(rate) (((rate) >> 32) * 1000)
#define RATE_PERIOD(rate) (((rate) & 0xffffffff) * 1000)
#define RATE_PPM(rate) (((rate) >> 32) * 1000000 / ((rate) & 0xffffffff))

/* What user space asks for; a rate of 0 is a free slot. */
struct cpu_conf {
	__u64 top;		/* the last slot that has been in use; it never falls */
	__u64 rate[MAX_SERVERS];
	__u64 cgid[MAX_SERVERS];
};

/* Where a control group has servers. */
struct group {
	__u32 nr;
	struct {
		__u16 cpu, slot;
	} at[MAX_GROUP_CPUS];
};

/* A constant bandwidth server and its counters. */
struct server {
	__u64 rate;		/* that it goes by */
	__s64 budget;
	__u64 deadline;
	__u64 vtime;		/* of the group's tasks on this CPU */
	__u64 throttled_at;
	__u32 throttled;
	__u16 late;		/* this deadline is counted in shorts */
	__u16 drain;		/* tasks wait for a reservation that was given back */
	__u64 used_ns, throttled_ns, taken_ns, short_ns, overrun_max_ns;
	__u64 periods, throttles, shorts;
};

struct cpu_ctx {
	struct server servers[MAX_SERVERS];
	__u64 timer_at;		/* 0: not set */
	__u64 since;		/* the task that runs is charged up to here */
	__u64 began;		/* the virtual time of that task is advanced up to here */
	__u64 stopped_at;	/* a task of ours, and none runs yet; 0: none was */
	__u64 held_at;
	__u64 at;		/* the virtual time at which the task that runs began */
	__u64 turn_end;		/* of the task that runs, if a timer has to end it; or 0 */
	__u64 taken;		/* the queue that the next task was taken from */
	__u64 vtime, clock;	/* of the tasks without reservation: in turns, in ns */
	__u64 weights;		/* of the units that have such tasks here */
	__u64 counted;		/* such tasks */
	__u64 granted, granted_at; /* of its limits to the task that runs (bandwidth.bpf.h) */
	__u32 limited;		/* by any */
	__s32 victim;		/* the CPU that was looked at last */
	__s32 cur;		/* the slot that runs; 0: others; -1: none of ours */
	__u32 held;		/* the slot that a higher class interrupted */
	__u32 cut;		/* the slot that was stopped with budget left */
	__u32 idle;		/* found nothing to run */
	__u32 offline;		/* goes offline: the kernel runs what is left here, unasked */
};

struct counters {
	__u64 switches, kicks, timers, arms, arm_failures, late_max_ns;
	__u64 used_up;		/* periods that left nothing of cpu.max */
};

#endif
