/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cpu.max of groups without reservation: a quota in each period, for all CPUs together.
 *
 * A CPU takes what a task may run from the quota of each of the task's limits beforehand,
 * and gives back what was not used. What was used besides is missing in the next period.
 * Who finds a limit used up waits in that limit's queue, and is brought back by its timer.
 */
#ifndef BANDWIDTH_BPF_H
#define BANDWIDTH_BPF_H

#define MAX_LIMITS 1024		/* limit 0: none */
#define DSQ_PARKED(n) (0x2000ULL + (n))
/* The timer brings back so many tasks at a time, and waits for a reservation's end first. */
#define BATCH 8
#define BATCH_NS 100000
#define DEFER_NS 500000
/* The last of a quota is not divided into smaller pieces. */
#define LEAST_GRANT_NS 100000
/*
 * A task that has waited for so long is run, and its limits owe that: for the kernel it
 * waits until it has run, and every wait may end where there is nothing left once more.
 */
#define OVERDUE_NS 10000000000ULL
#define SIGNAL_GROUP_EXIT 4	/* linux/sched/signal.h */

struct limit {
	struct bpf_timer timer;
	u64 quota, period, burst;	/* ns; a quota of 0: none now */
	s64 left;		/* for this period, without what CPUs have taken */
	u64 end;		/* of the period */
	s64 tasks;		/* that are runnable and not parked */
	u64 parks, seen;	/* times that a task was parked; as the timer knows it */
	u32 armed;
	u32 used;		/* 0: this number is free */
	u32 unit;		/* that it counts for; 0: none */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_LIMITS);
	__type(key, u32);
	__type(value, struct limit);
} limits SEC(".maps");

/* By the ID of the control group. It keeps its number when cpu.max becomes "max". */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_LIMITS);
	__type(key, u64);
	__type(value, u32);
} limit_numbers SEC(".maps");

/* Kernels before 6.17 do not tell a scheduler of cpu.max. */
const volatile bool has_limits = true;
static u32 limits_used;

/* How many limits each unit's groups have. */
static u32 unit_limits[MAX_UNITS];

static u32 *limits_in(u64 unit)
{
	BOUND_UNIT(unit);
	return &unit_limits[unit];
}

static struct limit *limit_of(u32 n)
{
	return n ? bpf_map_lookup_elem(&limits, &n) : NULL;
}

#define for_each_limit(i, l, t)						\
	bpf_for(i, 0, MAX_NESTED)					\
		if (!((l) = limit_of((t)->limits[i])))			\
			break;						\
		else

static void wake_at(struct limit *l, u64 at)
{
	l->armed = 1;
	if (bpf_timer_start(&l->timer, at, BPF_F_TIMER_ABS | BPF_F_TIMER_CPU_PIN))
		__sync_fetch_and_add(&counters.arm_failures, 1);
}

/*
 * Only one CPU gives a period its quota. No more than one quota is owed: where tasks could
 * not be stopped for long, the others may not have to wait for seconds.
 */
static void refill(struct limit *l, u64 now)
{
	u64 end = l->end, quota = l->quota, n, gain;
	s64 left, from, most = quota + l->burst;

	if (!quota || time_before(now, end))
		return;
	n = (now - end) / l->period + 1;
	if (__sync_val_compare_and_swap(&l->end, end, end + n * l->period) != end)
		return;
	left = l->left;
	if (left <= 0)
		__sync_fetch_and_add(&counters.used_up, 1);
	if (left >= most)
		return;
	from = left < -(s64)quota ? -(s64)quota : left;
	gain = most - from;
	if (n <= gain / quota)
		gain = n * quota;
	__sync_fetch_and_add(&l->left, from - left + gain);
}

static bool must_end(struct task_struct *p)
{
	return (p->flags & PF_EXITING) || (p->signal->flags & SIGNAL_GROUP_EXIT);
}

/* The whole host may wait for readers of RCU. The current task is one here in any case. */
static bool must_go_on(struct task_struct *p)
{
	return must_end(p) || (bpf_core_field_exists(p->rcu_read_lock_nesting) &&
			       p->rcu_read_lock_nesting > 0);
}

static bool is_overdue(struct task_ctx *t, u64 now)
{
	return t->waits && time_before(t->waits + OVERDUE_NS, now);
}

/* Functions that are not static are verified once, and not for each call. */
__noinline u32 used_up(struct task_ctx *t)
{
	u64 now = bpf_ktime_get_ns();
	struct limit *l;
	s32 i;

	if (!t)
		return 0;
	for_each_limit(i, l, t) {
		refill(l, now);
		if (l->quota && l->left <= 0)
			return t->limits[i];
	}
	return 0;
}

/* The limit that a task has to wait for, or 0. */
static u32 stopped_by(struct task_struct *p, struct task_ctx *t)
{
	return t->limits[0] && !must_end(p) ? used_up(t) : 0;
}

/* What @t may run of a limit. Where it has many tasks its turn is short, see TURN. */
static u64 part_of(struct limit *l, u32 n, struct task_ctx *t)
{
	s64 tasks = l->tasks + scx_bpf_dsq_nr_queued(DSQ_PARKED(n)), left = l->left;
	u64 part, turn;

	if (tasks < 1)
		tasks = 1;
	turn = round_ns / l->period * l->quota / tasks;
	if (turn < least_turn_ns)
		turn = least_turn_ns;
	if (t->turn > turn)
		t->turn = turn;
	if (tasks > nr_cpus)
		tasks = nr_cpus;
	part = left > 0 ? left : 0;
	if (part / tasks > LEAST_GRANT_NS)
		part /= tasks;
	else if (part > LEAST_GRANT_NS)
		part = LEAST_GRANT_NS;
	if (part > turn)
		part = turn;
	return part < least_turn_ns ? least_turn_ns : part;
}

/* @must: for so long, whatever is left; 0: as much as there is. */
__noinline u64 take_part(struct task_ctx *t, u64 must)
{
	u64 granted = slice_ns;
	struct limit *l;
	s32 i;

	if (!t)
		return 0;
	for_each_limit(i, l, t) {
		u64 part;

		part = must ?: l->quota ? part_of(l, t->limits[i], t) : granted;
		if (granted > part)
			granted = part;
	}
	for_each_limit(i, l, t) {
		__sync_fetch_and_add(&l->left, -(s64)granted);
	}
	return granted;
}

/* What a task without reservation may run from now on; its turn ends then, at the latest. */
static void take(struct cpu_ctx *c, struct task_struct *p, struct task_ctx *t, u64 now)
{
	u64 granted = 0, must;

	if (!t->limits[0] || c->offline)
		return;
	must = must_go_on(p) ? LEAST_GRANT_NS : is_overdue(t, now) ? least_turn_ns : 0;
	if (must || !stopped_by(p, t)) {
		t->waits = 0;
		granted = take_part(t, must);
	}
	c->limited = 1;
	c->granted = granted;
	c->granted_at = now;
	if (!c->turn_end || time_before(now + granted, c->turn_end))
		c->turn_end = now + granted;
}

__noinline int give_part(struct task_ctx *t, s64 rest)
{
	struct limit *l;
	s32 i;

	if (!t)
		return 0;
	for_each_limit(i, l, t) {
		s64 left;

		left = __sync_fetch_and_add(&l->left, rest);
		/* Another CPU may have found nothing meanwhile. */
		if (left <= 0 && left + rest > LEAST_GRANT_NS &&
		    scx_bpf_dsq_nr_queued(DSQ_PARKED(t->limits[i])))
			wake_at(l, bpf_ktime_get_ns());
	}
	return 0;
}

/* What is left of what was granted. The task that runs has nothing from now on. */
static void give_back(struct cpu_ctx *c, struct task_ctx *t, u64 now)
{
	if (!c->limited)
		return;
	give_part(t, c->granted - (now - c->granted_at));
	c->granted = 0;
	c->granted_at = now;
}

__noinline int count_limits(struct task_ctx *t, s64 change)
{
	struct limit *l;
	s32 i;

	if (!t)
		return 0;
	for_each_limit(i, l, t) {
		__sync_fetch_and_add(&l->tasks, change);
	}
	return 0;
}

static void count_limited(struct task_ctx *t, s64 change)
{
	if (t->limits[0])
		count_limits(t, change);
}

/* Before a task goes to that queue: its place there, by how long it has waited. */
__noinline u64 park(struct task_ctx *t, u32 n)
{
	struct limit *l = limit_of(n);

	if (!t)
		return 0;
	if (!t->waits)
		t->waits = bpf_ktime_get_ns();
	t->queue = DSQ_PARKED(n);
	if (l) {
		__sync_fetch_and_add(&l->parks, 1);
		if (!__sync_lock_test_and_set(&l->armed, 1))
			wake_at(l, l->end);
	}
	return t->waits;
}

/* In each period, until a whole one has gone by in which nobody was parked. */
static int refill_fn(void *map, u32 *key, struct limit *l)
{
	struct cpu_ctx *here = ctx_of(bpf_get_smp_processor_id());
	u64 now = bpf_ktime_get_ns(), seen = l->seen;
	struct task_struct *p;
	s32 n = 0;

	refill(l, now);
	if (here && here->cur > 0 && time_before(now, l->end - l->period / 8 * 7)) {
		wake_at(l, now + DEFER_NS);
		return 0;
	}
	l->seen = l->parks;
	bpf_for_each(scx_dsq, p, DSQ_PARKED(*key), 0) {
		struct task_ctx *t = task_of(p);
		s32 cpu = scx_bpf_task_cpu(p);
		struct cpu_ctx *c = ctx_of(cpu);
		u32 by;

		if (!t || !c || n++ == BATCH)
			break;
		by = is_overdue(t, now) ? 0 : stopped_by(p, t);
		if (by == *key)
			break;
		if (by) {
			scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, park(t, by));
			scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, DSQ_PARKED(by), 0);
			continue;
		}
		if (c->offline) {
			scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL_ON | cpu, 0);
			scx_bpf_kick_cpu(cpu, 0);
			continue;
		}
		t->queue = DSQ_OTHERS(cpu);
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, c->vtime);
		scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, DSQ_OTHERS(cpu), 0);
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		kick_another(p, c);
	}
	if (n > BATCH || (!l->quota && scx_bpf_dsq_nr_queued(DSQ_PARKED(*key)))) {
		wake_at(l, now + BATCH_NS);
	} else if (l->parks != seen || scx_bpf_dsq_nr_queued(DSQ_PARKED(*key))) {
		wake_at(l, l->end);
	} else {
		/* Both here and in park() one sees what the other has written. */
		__sync_lock_test_and_set(&l->armed, 0);
		if (l->parks != seen && !__sync_lock_test_and_set(&l->armed, 1))
			wake_at(l, l->end);
	}
	return 0;
}

/*
 * @unit: whose tenant may have made the group; 0: none. It has no more than a quarter of
 * what others leave, so that neither it nor a few of them use up all numbers.
 */
static u32 new_limit(u64 id, u32 unit)
{
	s32 i;

	if (unit && *limits_in(unit) >= (MAX_LIMITS - limits_used) / 4)
		return 0;

	bpf_for(i, 1, MAX_LIMITS) {
		struct limit *l = limit_of(i);
		u32 n = i;

		if (!l || __sync_val_compare_and_swap(&l->used, 0, 1))
			continue;
		if (bpf_map_update_elem(&limit_numbers, &id, &n, BPF_ANY)) {
			l->used = 0;
			return 0;
		}
		l->tasks = 0;
		l->unit = unit;
		if (unit)
			__sync_fetch_and_add(limits_in(unit), 1);
		__sync_fetch_and_add(&limits_used, 1);
		return n;
	}
	return 0;
}

/* @tenant: its unit. A change begins a new period, as in the kernel's own scheduler. */
static void set_limit(struct cgroup *cgrp, u32 tenant, u64 period_us, u64 quota_us, u64 burst_us)
{
	u64 id = cgrp->kn->id, most = period_us * nr_cpus, now = bpf_ktime_get_ns();
	u32 *number = bpf_map_lookup_elem(&limit_numbers, &id), n = number ? *number : 0;
	bool none = quota_us > most;
	struct limit *l;

	if (!n && !none)
		n = new_limit(id, tenant);
	l = limit_of(n);
	if (!l)
		return;
	l->period = period_us * 1000;
	l->burst = (burst_us < most ? burst_us : most) * 1000;
	l->left = quota_us * 1000;
	l->end = now + l->period;
	WRITE_ONCE(l->quota, none ? 0 : quota_us * 1000);
	/* Its tasks do not know of it yet. */
	if (!number)
		__sync_fetch_and_add(&generation, 1);
	wake_at(l, now);
}

static void remove_limit(struct cgroup *cgrp)
{
	u64 id = cgrp->kn->id;
	u32 *number = bpf_map_lookup_elem(&limit_numbers, &id);
	struct limit *l = number ? limit_of(*number) : NULL;

	if (!l)
		return;
	if (l->unit)
		__sync_fetch_and_add(limits_in(l->unit), -1);
	bpf_map_delete_elem(&limit_numbers, &id);
	__sync_fetch_and_add(&limits_used, -1);
	l->quota = 0;
	l->used = 0;
}

static s32 init_limits(void)
{
	s32 i, err;

	bpf_for(i, 1, MAX_LIMITS) {
		struct limit *l = limit_of(i);

		if (!l)
			return -ENOENT;
		err = scx_bpf_create_dsq(DSQ_PARKED(i), -1) ?:
		      bpf_timer_init(&l->timer, &limits, CLOCK_MONOTONIC);
		if (err)
			return err;
		bpf_timer_set_callback(&l->timer, refill_fn);
	}
	return 0;
}

#endif
