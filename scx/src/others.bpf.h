/* SPDX-License-Identifier: GPL-2.0-only */
/* Tasks without reservation: a queue for each CPU, by virtual time and weight. */
#ifndef OTHERS_BPF_H
#define OTHERS_BPF_H

/* Turns of so many are as short as they get: a round is long, and weights count no more. */
static bool is_full(struct task_ctx *t)
{
	return t->turn && t->turn <= least_turn_ns;
}

/*
 * The tasks of @queue beside one that is about to go there. One of them may run, or have
 * been taken out to be the next.
 */
static u64 rivals(struct cpu_ctx *c, s32 cpu, u64 queue)
{
	return scx_bpf_dsq_nr_queued(queue) +
	       (c->taken == queue || (c->cur >= 0 && queue_at(c->cur, cpu) == queue));
}

/* A turn of a task beside so many others, which have @ppm of this CPU, and @most. */
static u64 turn_beside(struct task_ctx *t, u64 others, u64 ppm, u64 most)
{
	u64 turn;

	t->sharers = others + 1;
	turn = round_ns / 1000000 * ppm / t->sharers;
	t->turn = turn < least_turn_ns ? least_turn_ns : turn < most ? turn : most;
	t->left = t->turn;
	return t->turn;
}

/*
 * The kernel ends turns at a tick, which is too long for short ones. A task that changes
 * its own parameters stops and goes on, and has what is left.
 */
static u64 turn_end(struct task_ctx *t, u64 now)
{
	return t->sharers > 1 && t->turn && t->turn < slice_ns ? now + t->left : 0;
}

/*
 * The virtual time of a task in a queue that is at @base on average: half a turn before
 * the average if it is new there, which it pays when it runs, else not so far behind that
 * it keeps others out, nor too far ahead.
 */
static u64 vtime_in(struct task_struct *p, struct task_ctx *t, u64 queue, u64 base)
{
	u64 vtime = p->scx.dsq_vtime, most = is_full(t) ? TURN : MAX_AHEAD;

	if (t->queue != queue) {
		vtime = base - TURN / 2;
		t->debt = TURN / 2;
	} else if (time_before(vtime, base - TURN)) {
		vtime = base - TURN;
	} else if (time_before(base + most, vtime)) {
		vtime = base + most;
	}
	t->queue = queue;
	return vtime;
}

/*
 * The average, if it has run away from a task that has just had its whole turn since @at:
 * tasks that sleep leave @queue and come back at another time, so that it drifts.
 */
static u64 base_after(struct task_struct *p, struct task_ctx *t, u64 queue, u64 base, u64 at)
{
	u64 vtime = p->scx.dsq_vtime, most = vtime - TURN / 4;

	return !p->scx.slice && t->queue == queue && t->sharers > 1 &&
	       time_before(at + TURN / 2, vtime) && time_before(most, base) ? most : base;
}

/* How far this CPU is with such tasks, to compare CPUs: by the ns of each round. */
static void advance_clock(struct cpu_ctx *c, u64 delta)
{
	c->clock += delta;
	if (time_before(others_clock, c->clock))
		others_clock = c->clock;
}

/*
 * After the time until @now. Whatever runs moves the average of its queue on by its part,
 * so that new tasks, however many, cannot hold it back.
 */
static void advance_task(struct cpu_ctx *c, struct task_struct *p, struct task_ctx *t, s32 cpu,
			 u64 now)
{
	u64 turn = t->turn ?: slice_ns, ran = now - c->began, step = ran * TURN / turn, weight;
	u32 slot = c->cur > 0 ? c->cur & (MAX_SERVERS - 1) : 0;

	weight = is_full(t) ? 100 : slot ? bounded_weight(p) : weight_of(c, t, cpu);
	if (weight < MIN_WEIGHT)
		weight = MIN_WEIGHT;
	c->began = now;
	t->left -= ran < t->left ? ran : t->left;
	scx_bpf_task_set_dsq_vtime(p, p->scx.dsq_vtime + step * 100 / weight);
	/* Of tasks without reservation the average weight is 100. */
	if (slot)
		step = step * 100 / weight;
	if (!t->sharers || t->queue != queue_at(slot, cpu))
		return;
	*base_of(c, slot) += step / t->sharers;
	if (!slot)
		advance_clock(c, ran / t->sharers);
}

/* Whether the task that runs comes before all that wait in its queue. */
static bool comes_first(struct cpu_ctx *c, struct task_struct *p, s32 cpu, u64 queue, u64 now)
{
	struct task_struct *first;
	struct task_ctx *t = task_of(p);

	if (!t)
		return false;
	give_back(c, t, now);
	/* It has to pass enqueue(), which may ask for its group. */
	if (!c->cur && (t->generation != generation || stopped_by(p, t)))
		return false;
	advance_task(c, p, t, cpu, now);
	if (!scx_bpf_dsq_nr_queued(queue))
		return true;
	if (t->queue != queue)
		return false;
	first = __COMPAT_scx_bpf_dsq_peek(queue);
	return first && time_before(p->scx.dsq_vtime, first->scx.dsq_vtime);
}

/* A task that comes from another CPU is as far ahead or behind here as it was there. */
static void carry_lag(struct task_struct *p, struct task_ctx *t, struct cpu_ctx *c, u64 queue)
{
	u64 from = t->queue - DSQ_OTHERS(0);
	struct cpu_ctx *old;

	if (t->queue == queue || from >= MAX_CPUS)
		return;
	old = ctx_of(from);
	if (!old)
		return;
	scx_bpf_task_set_dsq_vtime(p, p->scx.dsq_vtime - old->vtime + c->vtime);
	t->queue = queue;
}

static void enqueue_other(struct task_struct *p, struct task_ctx *t, struct cpu_ctx *c, s32 cpu,
			  u64 enq_flags)
{
	u64 queue = DSQ_OTHERS(cpu), vtime;
	bool urgent;
	u32 limit;

	/* After a pause of this CPU its clock is an old one. */
	if (c->idle && time_before(c->clock, others_clock) && !scx_bpf_dsq_nr_queued(queue))
		c->clock = others_clock;
	turn_beside(t, rivals(c, cpu, queue), rest_ppm, slice_ns);
	/* One that has just run waits for take_other(), when it is not the current task. */
	limit = stopped_by(p, t);
	if (limit && (enq_flags & SCX_ENQ_WAKEUP)) {
		uncount(t);
		scx_bpf_dsq_insert_vtime(p, DSQ_PARKED(limit), t->turn, park(t, limit), enq_flags);
		return;
	}
	count_at(p, t, cpu);
	carry_lag(p, t, c, queue);
	if (!(enq_flags & SCX_ENQ_WAKEUP))
		c->vtime = base_after(p, t, queue, c->vtime, c->at);
	vtime = vtime_in(p, t, queue, c->vtime);
	urgent = c->cur == 0 && (enq_flags & SCX_ENQ_WAKEUP) &&
		 ((p->flags & PF_KTHREAD) || time_before(vtime + LAG, c->at));
	scx_bpf_dsq_insert_vtime(p, queue, t->turn, vtime, enq_flags);
	scx_bpf_kick_cpu(cpu, urgent ? SCX_KICK_PREEMPT : SCX_KICK_IDLE);
	if (!limit)
		kick_another(p, c);
}

/* The next task of this CPU; those in front of it that a limit stops are parked. */
static bool take_other(s32 cpu)
{
	u64 now = bpf_ktime_get_ns();
	struct task_struct *p;
	s32 n = 0;

	if (limits_used) {
		bpf_for_each(scx_dsq, p, DSQ_OTHERS(cpu), 0) {
			struct task_ctx *t = task_of(p);
			u32 limit = t && !must_go_on(p) && !is_overdue(t, now) ?
					    stopped_by(p, t) : 0;

			if (!limit || scx_bpf_task_cpu(p) != cpu)
				break;
			if (n++ == BATCH) {
				scx_bpf_kick_cpu(cpu, 0);
				return false;
			}
			uncount(t);
			scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, park(t, limit));
			scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, DSQ_PARKED(limit), 0);
		}
	}
	return scx_bpf_dsq_move_to_local(DSQ_OTHERS(cpu), 0);
}

/*
 * A task of a CPU whose tasks without reservation have had less, for instance since
 * more of it is reserved. One other CPU is looked at in each round.
 */
static bool balance(struct cpu_ctx *c, s32 cpu)
{
	s32 victim = c->victim + 1 < nr_cpus ? c->victim + 1 : 0;
	struct cpu_ctx *v = ctx_of(victim);
	s32 queued = scx_bpf_dsq_nr_queued(DSQ_OTHERS(victim));

	c->victim = victim;
	return v && victim != cpu && queued > 0 && queued <= long_queue &&
	       time_before(v->clock + 2 * slice_ns, c->clock) &&
	       scx_bpf_dsq_move_to_local(DSQ_OTHERS(victim), 0);
}

/* Before this CPU becomes idle. */
static bool steal(s32 cpu)
{
	s32 i, victim = cpu, queued, passed = 0;

	bpf_for(i, 1, MAX_CPUS) {
		if (i >= nr_cpus)
			break;
		victim = victim + 1 < nr_cpus ? victim + 1 : 0;
		queued = scx_bpf_dsq_nr_queued(DSQ_OTHERS(victim));
		if (queued <= 0 || passed + queued > long_queue)
			continue;
		passed += queued;
		if (scx_bpf_dsq_move_to_local(DSQ_OTHERS(victim), 0))
			return true;
	}
	return false;
}

#endif
