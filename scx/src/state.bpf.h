/* SPDX-License-Identifier: GPL-2.0-only */
/* Parameters, maps, and what is in them. */
#ifndef STATE_BPF_H
#define STATE_BPF_H

#define DSQ_OTHERS(cpu)	 (0x1000ULL + (cpu))
#define DSQ_SERVER(slot, cpu) (0x100000ULL + ((__u64)(slot) << 12) + (cpu))
#define CLOCK_MONOTONIC 1

const volatile u32 nr_cpus = 1;
/*
 * The kernel ends a scheduler that lets a task wait for 30 s, and it is not hard to
 * have many tasks. So virtual time counts turns, not ns, and turns are the shorter the
 * more tasks wait: a round of them all takes round_ns on a CPU that gives the queue its
 * bandwidth alone, and nobody is more than MAX_AHEAD rounds ahead, whatever its weight.
 */
#define TURN (1ULL << 20)
#define MAX_AHEAD (4 * TURN)
/* Who wakes up this far behind the task that runs takes its place. */
#define LAG (TURN / 8)
#define MIN_WEIGHT 25		/* 100 is that of nice 0 */
#define MAX_WEIGHT 200
const volatile u64 round_ns = 2000000000;
const volatile u64 least_turn_ns = 10000;
/* The turn where few wait: of a task without reservation, and of one with. */
const volatile u64 slice_ns = 3000000;
const volatile u64 turn_ns = 10000000;
/* Of the groups with cpu.max that a task is in, the outermost ones count. */
#define MAX_NESTED 4
/* Where units.bpf.h finds units, and how many at most. */
#define UNIT_LEVEL 2
#define MAX_UNITS 1024
#define BOUND_UNIT(n) asm volatile("%0 &= 1023" : "+r"(n))
_Static_assert(MAX_UNITS == 1024, "BOUND_UNIT");
/* No more levels of groups are looked at, from the root. */
#define MAX_LEVELS 17
/* What tasks without reservation have of a CPU for sure. */
const volatile u64 rest_ppm = 50000;
/* Who looks for a task that another CPU may run passes no more than so many others. */
const volatile u32 long_queue = 1024;
/* The same for one of a reservation, where another one may wait meanwhile. */
const volatile u32 long_pull = 256;
/* To the next tick, if a timer cannot be set. */
const volatile u64 tick_ns = 1;
/* Who preempts another server with budget left pays so much to it. */
const volatile u64 switch_ns = 2000;
/* A deadline missed by more is a short period. */
const volatile u64 late_ns = 50000;

u64 generation = 1;
struct counters counters;
static u64 others_clock;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__type(value, struct cpu_conf);
} confs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__type(value, struct cpu_ctx);
} cpus SEC(".maps");

/* Becomes readable when the scheduler has ended. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} ended SEC(".maps");

struct timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__type(value, struct timer);
} timers SEC(".maps");

/* By the ID of the control group. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, struct group);
} groups SEC(".maps");

struct task_ctx {
	u64 generation;		/* that the rest is of */
	u64 cgid;		/* of the group with a reservation; 0: none */
	u64 queue, turn;	/* that dsq_vtime is of, and the turn in ns there */
	u64 left;		/* of the turn */
	u64 debt;		/* of a new task, for having been put before others */
	u64 sharers;		/* of that queue, with this task, when the turn was found */
	u32 cpu, slot;
	u32 unit;		/* units.bpf.h */
	u32 counted;		/* unit << 16 | 1 + CPU where this task counts; 0: nowhere */
	u32 weight;		/* that it counts with, by its nice value */
	u32 limits[MAX_NESTED];	/* bandwidth.bpf.h; the first 0 ends them */
	u64 waits;		/* since when, for a limit that was used up; 0: it has run */
	u64 active;		/* the queue of the server that knows of its being runnable */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} tasks SEC(".maps");

/* A slot that the verifier believes to be one; kernels before 7.0 forget it. */
#define BOUND(n) asm volatile("%0 &= 31" : "+r"(n))
_Static_assert(MAX_SERVERS == 32, "BOUND");

static struct server *server_of(struct cpu_ctx *c, u64 n)
{
	BOUND(n);
	return &c->servers[n];
}

/* @slot of 0: of the tasks without reservation. */
static u64 queue_at(u64 slot, s32 cpu)
{
	return slot ? DSQ_SERVER(slot, cpu) : DSQ_OTHERS(cpu);
}

/* The virtual time of that queue: the average of its tasks. */
static u64 *base_of(struct cpu_ctx *c, u64 slot)
{
	return slot ? &server_of(c, slot)->vtime : &c->vtime;
}

static u64 rate_of(struct cpu_conf *conf, u64 n)
{
	BOUND(n);
	return conf->rate[n];
}

static struct cpu_ctx *ctx_of(s32 cpu)
{
	u32 key = cpu;

	return bpf_map_lookup_elem(&cpus, &key);
}

static struct cpu_conf *conf_of(s32 cpu)
{
	u32 key = cpu;

	return bpf_map_lookup_elem(&confs, &key);
}

static struct task_ctx *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, 0, 0);
}

extern const struct cpuhp_cpu_state cpuhp_state __ksym;

/*
 * False from the moment on at which a CPU begins to go offline, well before
 * rsv_cpu_offline(): the kernel waits for a grace period in between. It puts all tasks on the
 * CPU's own queue, and calls dispatch() only when that is empty. Step by step, as in
 * sched_cpu_deactivate() of the kernel, which is called when the state is lower already.
 */
static bool is_active(s32 cpu)
{
	const struct cpuhp_cpu_state *hotplug = bpf_per_cpu_ptr(&cpuhp_state, cpu);

	return !hotplug ||
	       hotplug->state >= bpf_core_enum_value(enum cpuhp_state, CPUHP_AP_ACTIVE);
}

static u32 bounded_weight(struct task_struct *p)
{
	u32 weight = p->scx.weight;

	return weight < MIN_WEIGHT ? MIN_WEIGHT : weight > MAX_WEIGHT ? MAX_WEIGHT : weight;
}

/* A task that its CPU does not run at once can be had by another one. */
static void kick_another(struct task_struct *p, struct cpu_ctx *c)
{
	s32 idle;

	if (c->idle || p->nr_cpus_allowed == 1)
		return;
	idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (idle >= 0)
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
}

static u32 slot_at(struct group *g, s32 cpu)
{
	s32 i;

	bpf_for(i, 0, MAX_GROUP_CPUS) {
		if (i >= g->nr)
			break;
		if (g->at[i].cpu == cpu)
			return g->at[i].slot & (MAX_SERVERS - 1);
	}
	return 0;
}

#endif
