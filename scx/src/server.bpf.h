/* SPDX-License-Identifier: GPL-2.0-only */
/* Constant bandwidth servers of one CPU: which one runs, what it is charged, the timer. */
#ifndef SERVER_BPF_H
#define SERVER_BPF_H

/*
 * Charge the server that runs, by the clock: the kernel may skip the update of the
 * run queue's clock when it reschedules (wakeup_preempt() asks for that, for instance
 * on the way out of idle), and then sum_exec_runtime stands still.
 */
static void charge(struct cpu_ctx *c, u64 now)
{
	u64 delta = now - c->since;
	struct server *s;

	if (c->cur <= 0)
		return;
	s = server_of(c, c->cur);
	c->since = now;
	s->budget -= delta;
	s->used_ns += delta;
	if (s->budget > 0 || s->throttled)
		return;
	if ((u64)-s->budget > s->overrun_max_ns)
		s->overrun_max_ns = -s->budget;
	s->throttled = 1;
	s->throttled_at = now;
	s->throttles++;
}

/* False if the timer could not be set; the slice has to end what runs then. */
static bool arm(struct cpu_ctx *c, struct cpu_conf *conf, s32 cpu, u64 now)
{
	u32 key = cpu, top = conf->top;
	struct timer *timer;
	u64 next = 0;
	s32 i;

	if (c->cur > 0) {
		s64 budget = server_of(c, c->cur)->budget;

		next = c->since + (budget > 0 ? budget : 0);
	}
	if (c->turn_end && (!next || time_before(c->turn_end, next)))
		next = c->turn_end;
	bpf_for(i, 1, MAX_SERVERS) {
		struct server *s = server_of(c, i);

		if (i > top)
			break;
		/* One that is due already is seen at the next round, at the latest then. */
		if (!rate_of(conf, i) || !s->throttled || !time_before(now, s->deadline))
			continue;
		if (!next || time_before(s->deadline, next))
			next = s->deadline;
	}
	if (!next || next == c->timer_at || c->offline)
		return true;
	timer = bpf_map_lookup_elem(&timers, &key);
	if (!timer)
		return false;
	c->timer_at = next;
	__sync_fetch_and_add(&counters.arms, 1);
	if (!bpf_timer_start(&timer->timer, next, BPF_F_TIMER_ABS | BPF_F_TIMER_CPU_PIN))
		return true;
	__sync_fetch_and_add(&counters.arm_failures, 1);
	c->timer_at = 0;
	return false;
}

/* Whether the server that runs may go on, whatever is to be replenished. */
static bool goes_on(struct cpu_ctx *c, struct cpu_conf *conf, u64 now)
{
	u32 top = conf->top;
	struct server *cur;
	s32 i;

	if (c->cur <= 0 || (c->turn_end && !time_before(now, c->turn_end)))
		return false;
	cur = server_of(c, c->cur);
	if (cur->budget <= (s64)(now - c->since))
		return false;
	bpf_for(i, 1, MAX_SERVERS) {
		struct server *s = server_of(c, i);
		u64 rate = rate_of(conf, i);

		if (i > top)
			break;
		if (rate && s->throttled && !time_before(now, s->deadline) &&
		    time_before(s->deadline + RATE_PERIOD(rate), cur->deadline))
			return false;
	}
	return true;
}

/* Give the tasks of a queue to the CPU's own one; false if there are more of them. */
static bool release(u64 queue, s32 cpu)
{
	struct task_struct *p;
	s32 n = 0;

	/* For kernels before 6.17. */
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue, 0) {
		if (scx_bpf_task_cpu(p) != cpu)
			continue;
		if (n++ == BATCH)
			break;
		scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL_ON | cpu, 0);
	}
	bpf_rcu_read_unlock();
	return n <= BATCH;
}

/* On a CPU that goes offline the kernel runs nothing else, and moves what it runs. */
static void release_all(struct cpu_conf *conf, struct timer *timer, s32 cpu)
{
	bool done = release(DSQ_OTHERS(cpu), cpu);
	u32 top = conf->top;
	s32 i;

	bpf_for(i, 1, MAX_SERVERS) {
		if (i > top)
			break;
		done = release(DSQ_SERVER(i, cpu), cpu) && done;
	}
	if (!done)
		bpf_timer_start(&timer->timer, BATCH_NS, BPF_F_TIMER_CPU_PIN);
	scx_bpf_kick_cpu(cpu, 0);
}

/* A round through the scheduler costs whoever runs; not if it would change nothing. */
static int timer_fn(void *map, u32 *key, struct timer *timer)
{
	u64 now = bpf_ktime_get_ns(), late;
	s32 cpu = *key;
	struct cpu_conf *conf = conf_of(cpu);
	struct cpu_ctx *c = ctx_of(cpu);

	if (!c || !conf)
		return 0;
	__sync_fetch_and_add(&counters.timers, 1);
	late = now - c->timer_at;
	if (c->timer_at && (s64)late > 0 && late > counters.late_max_ns)
		counters.late_max_ns = late;
	c->timer_at = 0;
	if (c->offline) {
		release_all(conf, timer, cpu);
		return 0;
	}
	/* Elsewhere, after its CPU went offline: nothing here may be looked at. */
	if (bpf_get_smp_processor_id() != cpu || !goes_on(c, conf, now) ||
	    !arm(c, conf, cpu, now))
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	return 0;
}

/* The server that should run, or 0. @mine has a task besides its queue. */
static u32 earliest(struct cpu_ctx *c, struct cpu_conf *conf, s32 cpu, u32 mine, u64 now)
{
	u32 best = 0, top = conf->top;
	s32 i;

	bpf_for(i, 1, MAX_SERVERS) {
		struct server *s = server_of(c, i);
		u64 rate = rate_of(conf, i);

		if (i > top)
			break;
		if (!rate) {
			s->drain |= s->rate != 0;
			s->rate = 0;
			continue;
		}
		replenish(s, rate, now);
		if (s->throttled || (i != mine && !scx_bpf_dsq_nr_queued(DSQ_SERVER(i, cpu))))
			continue;
		if (!s->late && time_before(s->deadline + late_ns, now)) {
			s->late = 1;
			s->shorts++;
			s->short_ns += s->budget;
		}
		if (!best || time_before(s->deadline, server_of(c, best)->deadline))
			best = i;
	}
	return best & (MAX_SERVERS - 1);
}

static bool is_offline(s32 cpu)
{
	struct cpu_ctx *c = ctx_of(cpu);

	return !c || c->offline;
}

/* Whether a server of the group could run a task on that CPU at once. */
static bool is_free(s32 cpu, u32 slot, u64 now)
{
	struct cpu_conf *conf = conf_of(cpu);
	struct cpu_ctx *c = ctx_of(cpu);
	struct server *s;

	if (!c || !conf || !rate_of(conf, slot))
		return false;
	s = server_of(c, slot);
	return !c->offline && c->cur != slot && c->held != slot &&
	       !(s->throttled && time_before(now, s->deadline)) &&
	       !scx_bpf_dsq_nr_queued(DSQ_SERVER(slot, cpu));
}

#endif
