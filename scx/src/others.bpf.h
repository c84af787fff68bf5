/* SPDX-License-Identifier: GPL-2.0-only */
/* Tasks without reservation: a queue for each CPU, by virtual time and weight. */
#ifndef OTHERS_BPF_H
#define OTHERS_BPF_H

/*
 * The virtual time of a task in a queue that is at @base: at the end of a round if it is
 * new there, else not so far behind that it keeps others out, nor too far ahead.
 */
static u64 vtime_in(struct task_struct *p, struct task_ctx *t, u64 queue, u64 base)
{
	u64 vtime = p->scx.dsq_vtime;

	if (t->queue != queue)
		vtime = base + TURN;
	else if (time_before(vtime, base - TURN))
		vtime = base - TURN;
	else if (time_before(base + MAX_AHEAD, vtime))
		vtime = base + MAX_AHEAD;
	t->queue = queue;
	return vtime;
}

/* A turn of a task in @queue, which gets @ppm of this CPU, and @most. */
static u64 turn_in(struct task_ctx *t, u64 queue, u64 ppm, u64 most)
{
	u64 turn = round_ns / 1000000 * ppm / (scx_bpf_dsq_nr_queued(queue) + 1);

	t->turn = turn < least_turn_ns ? least_turn_ns : turn < most ? turn : most;
	return t->turn;
}

/* After @ran ns. */
static void advance_task(struct task_struct *p, struct task_ctx *t, u64 ran)
{
	u64 weight = p->scx.weight, turn = t->turn ?: slice_ns;

	weight = weight < MIN_WEIGHT ? MIN_WEIGHT : weight > MAX_WEIGHT ? MAX_WEIGHT : weight;
	scx_bpf_task_set_dsq_vtime(p, p->scx.dsq_vtime + ran * TURN / turn * 100 / weight);
}

/* Whether the task that runs comes before all that wait in its queue. */
static bool comes_first(struct cpu_ctx *c, struct task_struct *p, u64 queue, u64 now)
{
	struct task_struct *first;
	struct task_ctx *t = task_of(p);

	if (!t)
		return false;
	advance_task(p, t, now - c->began);
	c->began = now;
	if (!scx_bpf_dsq_nr_queued(queue))
		return true;
	if (t->queue != queue)
		return false;
	first = __COMPAT_scx_bpf_dsq_peek(queue);
	return first && time_before(p->scx.dsq_vtime, first->scx.dsq_vtime);
}

/* How far this CPU is with such tasks, to compare CPUs: by the ns of each round. */
static void advance_clock(struct cpu_ctx *c, u64 delta)
{
	c->clock += delta;
	if (time_before(others_clock, c->clock))
		others_clock = c->clock;
}

static void advance_queue(struct cpu_ctx *c, struct task_ctx *t, u64 vtime)
{
	if (!time_before(c->vtime, vtime))
		return;
	advance_clock(c, (vtime - c->vtime) * t->turn / TURN);
	c->vtime = vtime;
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
	s32 idle;

	/* After a pause of this CPU its clock is an old one. */
	if (c->idle && time_before(c->clock, others_clock) && !scx_bpf_dsq_nr_queued(queue))
		c->clock = others_clock;
	turn_in(t, queue, rest_ppm, slice_ns);
	carry_lag(p, t, c, queue);
	vtime = vtime_in(p, t, queue, c->vtime);
	urgent = c->cur == 0 && (enq_flags & SCX_ENQ_WAKEUP) &&
		 ((p->flags & PF_KTHREAD) || time_before(vtime + LAG, c->at));
	scx_bpf_dsq_insert_vtime(p, queue, t->turn, vtime, enq_flags);
	scx_bpf_kick_cpu(cpu, urgent ? SCX_KICK_PREEMPT : SCX_KICK_IDLE);
	if (c->cur >= 0 && p->nr_cpus_allowed > 1) {
		idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
		if (idle >= 0)
			scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
	}
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
	s32 i, queued;

	bpf_for(i, 0, MAX_CPUS) {
		if (i >= nr_cpus)
			break;
		queued = scx_bpf_dsq_nr_queued(DSQ_OTHERS(i));
		if (queued > 0 && queued <= long_queue &&
		    scx_bpf_dsq_move_to_local(DSQ_OTHERS(i), 0))
			return true;
	}
	return false;
}

#endif
