/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Units: the control groups of the second level, as systemd has them below its slices,
 * the services and the scopes of containers. They share what is left of a CPU by their
 * cpu.weight, however many tasks and groups each of them has. A tenant cannot make one
 * where, as libvirt's, containers are on the second level.
 */
#ifndef UNITS_BPF_H
#define UNITS_BPF_H

/* Unit 0: the root, whose tasks count as a unit each, as in the kernel's scheduler. */
#define DEFAULT_WEIGHT 100
#define MAX_TRIES 64

/* What the tasks of a unit on one CPU weigh, and the unit itself, in one word. */
#define UNIT_CPU(load, weight) ((u64)(load) << 32 | (weight))
#define UNIT_LOAD(word) ((word) >> 32)
#define UNIT_WEIGHT(word) ((word) & 0xffffffff)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_UNITS);	/* times nr_cpus */
	__type(key, u32);
	__type(value, u64);
} unit_cpus SEC(".maps");

/* The number of a control group of the first or second level. */
struct {
	__uint(type, BPF_MAP_TYPE_CGRP_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u32);
} unit_numbers SEC(".maps");

struct unit {
	u32 weight;		/* cpu.weight; 0: this number is free */
	u32 slice;		/* the unit above; 0: none */
	u32 idle;		/* cpu.idle */
};

static struct unit units[MAX_UNITS];

static struct unit *unit_of(u64 n)
{
	BOUND_UNIT(n);
	return &units[n];
}

/* NULL if the group has no number, or it cannot be looked up now. */
static u32 *number_at(struct cgroup *cgrp)
{
	return cgrp->level && cgrp->level <= UNIT_LEVEL ?
		       bpf_cgrp_storage_get(&unit_numbers, cgrp, 0, 0) : NULL;
}

/* -1 if it cannot be looked up now. */
static s32 number_of(struct cgroup *cgrp)
{
	u32 *n;

	if (!cgrp->level)
		return 0;
	n = number_at(cgrp);
	return n ? *n : -1;
}

/* The unit that the tasks of a control group belong to, or -1. */
static s32 find_unit(struct cgroup *cgrp)
{
	struct cgroup *a;
	s32 n;

	if (cgrp->level <= UNIT_LEVEL)
		return number_of(cgrp);
	a = bpf_cgroup_ancestor(cgrp, UNIT_LEVEL);
	if (!a)
		return -1;
	n = number_of(a);
	bpf_cgroup_release(a);
	return n;
}

/* The unit whose tenant may have made a group; 0: none. */
static u32 tenant_of(struct cgroup *cgrp)
{
	s32 n = cgrp->level > UNIT_LEVEL ? find_unit(cgrp) : 0;

	return n > 0 ? n : 0;
}

/* By that of its slice, too. One that is idle has the least. */
static u32 unit_weight(u32 n)
{
	struct unit *u = unit_of(n), *slice = unit_of(u->slice);
	u64 weight = u->idle ? 1 : u->weight;

	if (u->slice)
		weight = weight * (slice->idle ? 1 : slice->weight) / DEFAULT_WEIGHT;
	return weight ?: 1;
}

static u64 *unit_at(u32 unit, s32 cpu)
{
	u32 key = unit * nr_cpus + cpu;

	return bpf_map_lookup_elem(&unit_cpus, &key);
}

/* Change what a unit's tasks on a CPU weigh, and with it what all units there do. */
static void load(u32 unit, s32 cpu, s32 change)
{
	struct cpu_ctx *c = ctx_of(cpu);
	u64 *at = unit_at(unit, cpu);
	s32 i;

	if (!c || !at)
		return;
	if (!unit) {
		__sync_fetch_and_add(&c->weights, (s64)change);
		return;
	}
	bpf_for(i, 0, MAX_TRIES) {
		u64 old = *(volatile u64 *)at, sum = UNIT_LOAD(old) + change;
		u64 weight = sum ? unit_weight(unit) : 0;

		if (__sync_val_compare_and_swap(at, old, UNIT_CPU(sum, weight)) != old)
			continue;
		__sync_fetch_and_add(&c->weights, weight - UNIT_WEIGHT(old));
		return;
	}
}

/* Whether a task waits for, or has, what is left of a CPU, and how much it weighs there. */
static void count(struct task_ctx *t, s32 change)
{
	s32 cpu = (t->counted & 0xffff) - 1;
	struct cpu_ctx *c = ctx_of(cpu);

	if (c)
		__sync_fetch_and_add(&c->counted, (s64)change);
	load(t->counted >> 16, cpu, change * (s32)t->weight);
	count_limited(t, change);
}

static void uncount(struct task_ctx *t)
{
	if (t->counted)
		count(t, -1);
	t->counted = 0;
}

/* Where a task counts, in one word. */
static u32 counted_at(struct task_ctx *t, s32 cpu)
{
	return t->unit << 16 | (cpu + 1);
}

static void count_at(struct task_struct *p, struct task_ctx *t, s32 cpu)
{
	u32 counted = counted_at(t, cpu), weight = bounded_weight(p);

	if (t->counted == counted && t->weight == weight)
		return;
	uncount(t);
	t->counted = counted;
	t->weight = weight;
	count(t, 1);
}

/* By its nice value and the share of its unit; 100 is the average of all on this CPU. */
static u64 weight_of(struct cpu_ctx *c, struct task_ctx *t, s32 cpu)
{
	u64 *at, word, sum = DEFAULT_WEIGHT, of_unit = DEFAULT_WEIGHT, all = c->weights;

	if (t->counted != counted_at(t, cpu))
		return t->weight;
	at = t->unit ? unit_at(t->unit, cpu) : NULL;
	if (at) {
		word = *(volatile u64 *)at;
		sum = UNIT_LOAD(word);
		of_unit = UNIT_WEIGHT(word);
		/* It may have been changed while none of the unit's tasks slept. */
		if (of_unit != unit_weight(t->unit))
			load(t->unit, cpu, 0);
	}
	return sum && all ? 100 * c->counted * of_unit * t->weight / (sum * all) : 100;
}

/* One for that there is no number, or no memory, has the root's. */
static void add_unit(struct cgroup *cgrp, u32 weight, bool idle)
{
	struct cgroup *above;
	u32 *number;
	s32 i, slice = 0;

	if (!cgrp->level || cgrp->level > UNIT_LEVEL)
		return;
	number = bpf_cgrp_storage_get(&unit_numbers, cgrp, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!number)
		return;
	if (cgrp->level == UNIT_LEVEL) {
		above = bpf_cgroup_ancestor(cgrp, UNIT_LEVEL - 1);
		if (above) {
			slice = number_of(above);
			bpf_cgroup_release(above);
		}
	}
	*number = 0;
	bpf_for(i, 1, MAX_UNITS) {
		struct unit *u = unit_of(i);

		if (__sync_val_compare_and_swap(&u->weight, 0, weight ?: 1))
			continue;
		u->slice = slice > 0 ? slice : 0;
		u->idle = idle;
		*number = i;
		return;
	}
}

static void set_unit_weight(struct cgroup *cgrp, u32 weight)
{
	u32 *n = number_at(cgrp);

	if (n && *n)
		unit_of(*n)->weight = weight ?: 1;
}

static void set_unit_idle(struct cgroup *cgrp, bool idle)
{
	u32 *n = number_at(cgrp);

	if (n && *n)
		unit_of(*n)->idle = idle;
}

static void remove_unit(struct cgroup *cgrp)
{
	u32 *n = number_at(cgrp);

	if (n && *n)
		unit_of(*n)->weight = 0;
	if (n)
		*n = 0;
}

#endif
