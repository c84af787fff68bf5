// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reservations (Q, P) of control groups by a sched_ext scheduler.
 *
 * A group has a constant bandwidth server (Abeni and Buttazzo, 1998) on each CPU
 * where it has a reservation: budget, deadline, and a queue of the group's tasks
 * on that CPU. Of the servers with budget the earliest deadline runs; after them
 * all other tasks of the host by virtual time and weight.
 *
 * One timer per CPU is set to the next event: the end of the running server's
 * budget, or a replenishment. It only kicks: all state of a CPU is changed under
 * the lock of its run queue, by the operations below. User space writes `confs`
 * and `groups`, then `generation`, and reads the rest.
 */
#include <scx/common.bpf.h>
#include "rsv.h"

char _license[] SEC("license") = "GPL";
UEI_DEFINE(uei);

#include "state.bpf.h"
#include "bandwidth.bpf.h"
#include "units.bpf.h"
#include "group.bpf.h"
#include "cbs.bpf.h"
#include "server.bpf.h"
#include "others.bpf.h"

/* A CPU for a task of a group; -1: it may run on none of those with a server. */
static s32 place(struct task_struct *p, struct group *g, s32 prev_cpu)
{
	u64 now = bpf_ktime_get_ns();
	s32 best = -1, least = 0, i;
	u32 slot = slot_at(g, prev_cpu);

	if (slot && bpf_cpumask_test_cpu(prev_cpu, p->cpus_ptr)) {
		if (g->nr == 1 || is_free(prev_cpu, slot, now))
			return prev_cpu;
		best = prev_cpu;
		least = scx_bpf_dsq_nr_queued(DSQ_SERVER(slot, prev_cpu));
	}
	bpf_for(i, 0, MAX_GROUP_CPUS) {
		s32 cpu, queued;

		if (i >= g->nr)
			break;
		cpu = g->at[i].cpu;
		slot = g->at[i].slot & (MAX_SERVERS - 1);
		if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr) || is_offline(cpu))
			continue;
		if (is_free(cpu, slot, now))
			return cpu;
		queued = scx_bpf_dsq_nr_queued(DSQ_SERVER(slot, cpu));
		if (best < 0 || queued < least) {
			best = cpu;
			least = queued;
		}
	}
	return best;
}

s32 BPF_STRUCT_OPS(rsv_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct task_ctx *t = task_of(p);
	bool is_idle = false;
	struct group *g;
	s32 cpu;

	g = t ? group_of(p, t) : NULL;
	if (g) {
		cpu = place(p, g, prev_cpu);
		if (cpu >= 0)
			return cpu;
	}
	if (t && !g && stopped_by(p, t))
		return prev_cpu;
	cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
	if (is_idle && !g) {
		if (t)
			t->left = t->turn;
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
	}
	return cpu;
}

/* A task waits here that a server elsewhere could run. */
static void kick_sibling(struct task_struct *p, struct group *g, s32 here, u64 now)
{
	s32 i;

	bpf_for(i, 0, MAX_GROUP_CPUS) {
		s32 cpu;

		if (i >= g->nr)
			break;
		cpu = g->at[i].cpu;
		if (cpu != here && bpf_cpumask_test_cpu(cpu, p->cpus_ptr) &&
		    is_free(cpu, g->at[i].slot & (MAX_SERVERS - 1), now)) {
			struct cpu_ctx *c = ctx_of(cpu);

			scx_bpf_kick_cpu(cpu, c && c->cur == 0 ? SCX_KICK_PREEMPT : SCX_KICK_IDLE);
			return;
		}
	}
}

void BPF_STRUCT_OPS(rsv_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_conf *conf = conf_of(cpu);
	struct cpu_ctx *c = ctx_of(cpu);
	struct task_ctx *t = task_of(p);
	u64 now, rate, queue, vtime;
	struct server *s;
	struct group *g;
	bool waits;
	u32 slot, cur;

	if (!c || !conf || !t) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, slice_ns, enq_flags);
		return;
	}
	slot = slot_of(p, t, cpu);
	rate = rate_of(conf, slot);
	if (!slot || !rate) {
		t->active = 0;
		enqueue_other(p, t, c, cpu, enq_flags);
		return;
	}

	uncount(t);
	now = bpf_ktime_get_ns();
	s = server_of(c, slot);
	queue = DSQ_SERVER(slot, cpu);
	waits = (t->active == queue && !(enq_flags & SCX_ENQ_WAKEUP)) || c->cur == slot ||
		c->held == slot || scx_bpf_dsq_nr_queued(queue);
	if (waits)
		replenish(s, rate, now);
	else
		activate(s, rate, now);
	t->active = queue;
	turn_beside(t, rivals(c, cpu, queue), RATE_PPM(rate), turn_ns);
	if (!(enq_flags & SCX_ENQ_WAKEUP))
		s->vtime = base_after(p, t, queue, s->vtime, c->at);
	vtime = vtime_in(p, t, queue, s->vtime);
	scx_bpf_dsq_insert_vtime(p, queue, t->turn, vtime, enq_flags);

	cur = c->cur & (MAX_SERVERS - 1);
	if (s->throttled || c->cur < 0) {
		/* A queue that becomes full while the timer waits needs nothing. */
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	} else if (!cur || (cur != slot && time_before(s->deadline, server_of(c, cur)->deadline)) ||
		   (cur == slot && (enq_flags & SCX_ENQ_WAKEUP) &&
		    time_before(vtime + LAG, c->at))) {
		__sync_fetch_and_add(&counters.kicks, 1);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
	if (waits || s->throttled) {
		g = group_of(p, t);
		if (g && g->nr > 1)
			kick_sibling(p, g, cpu, now);
	}
}

/*
 * A server that has budget and no task takes one that waits for the same group's
 * server on another CPU.
 */
static bool pull(struct cpu_ctx *c, struct cpu_conf *conf, s32 cpu, u32 mine, u64 now)
{
	u32 top = conf->top;
	s32 i, j, queued, passed = 0;

	bpf_for(i, 1, MAX_SERVERS) {
		u64 n = i, id;
		struct group *g;

		if (i > top)
			break;
		BOUND(n);
		id = conf->cgid[n];
		if (!conf->rate[n] || n == mine || server_of(c, n)->throttled)
			continue;
		g = bpf_map_lookup_elem(&groups, &id);
		if (!g || g->nr < 2)
			continue;
		bpf_for(j, 0, MAX_GROUP_CPUS) {
			u64 queue;

			if (j >= g->nr)
				break;
			queue = DSQ_SERVER(g->at[j].slot, g->at[j].cpu);
			queued = scx_bpf_dsq_nr_queued(queue);
			if (g->at[j].cpu == cpu || queued <= 0 || passed + queued > long_pull)
				continue;
			passed += queued;
			activate(server_of(c, n), conf->rate[n], now);
			if (scx_bpf_dsq_move_to_local(queue, 0))
				return true;
		}
	}
	return false;
}

/*
 * Queues of reservations that were given back, for the last time: what is enqueued
 * on this CPU after earliest() has seen the free slot goes to the others.
 */
static bool drain(struct cpu_ctx *c, struct cpu_conf *conf, s32 cpu)
{
	u32 top = conf->top;
	s32 i;

	bpf_for(i, 1, MAX_SERVERS) {
		if (i > top)
			break;
		if (!server_of(c, i)->drain)
			continue;
		if (!rate_of(conf, i) && scx_bpf_dsq_move_to_local(DSQ_SERVER(i, cpu), 0))
			return true;
		server_of(c, i)->drain = 0;
	}
	return false;
}

/* The virtual time of the queue that a task runs from, if it is one of this CPU. */
static void advance_base(struct cpu_ctx *c, s32 cpu, struct task_struct *p, struct task_ctx *t)
{
	u64 vtime = p->scx.dsq_vtime, *base = base_of(c, c->cur);

	if (t->debt) {
		vtime += t->debt;
		t->debt = 0;
		scx_bpf_task_set_dsq_vtime(p, vtime);
	}
	if (t->queue != queue_at(c->cur, cpu))
		vtime = *base;
	else if (time_before(*base, vtime))
		*base = vtime;
	c->at = vtime;
}

/* Another turn for the task that runs. It does not pass running(). */
static __always_inline void go_on(struct cpu_ctx *c, struct cpu_conf *conf, s32 cpu,
				  struct task_struct *p, u64 now)
{
	struct task_ctx *t = task_of(p);
	u64 queue, others;

	if (!t)
		return;
	c->since = now;
	queue = queue_at(c->cur, cpu);
	others = scx_bpf_dsq_nr_queued(queue);
	if (c->cur)
		turn_beside(t, others, RATE_PPM(rate_of(conf, c->cur)), turn_ns);
	else
		turn_beside(t, others, rest_ppm, slice_ns);
	if (t->queue != queue) {
		/* It has come here without having been in the queue. */
		t->queue = queue;
		scx_bpf_task_set_dsq_vtime(p, *base_of(c, c->cur));
	}
	advance_base(c, cpu, p, t);
	c->turn_end = turn_end(t, now);
	if (!c->cur)
		take(c, p, t, now);
	scx_bpf_task_set_slice(p, arm(c, conf, cpu, now) ? t->turn : tick_ns);
}

void BPF_STRUCT_OPS(rsv_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cpu_conf *conf = conf_of(cpu);
	struct cpu_ctx *c = ctx_of(cpu);
	u64 now = bpf_ktime_get_ns();
	bool runs = prev && (prev->scx.flags & SCX_TASK_QUEUED);
	u32 mine = 0, best;

	if (!c || !conf)
		return;
	if (runs) {
		/* Not slot_of(): prev's group must not be asked for here. */
		if (c->cur > 0)
			mine = c->cur & (MAX_SERVERS - 1);
		charge(c, now);
	}
	best = earliest(c, conf, cpu, mine, now);
	if (best) {
		u64 queue = DSQ_SERVER(best, cpu);

		if (runs && best == mine && comes_first(c, prev, cpu, queue, now)) {
			go_on(c, conf, cpu, prev, now);
			return;
		}
		if (scx_bpf_dsq_move_to_local(queue, 0)) {
			c->taken = queue;
			return;
		}
	}
	if (pull(c, conf, cpu, mine, now))
		return;
	if (drain(c, conf, cpu))
		return;
	if (balance(c, cpu))
		return;
	if (runs && !mine && comes_first(c, prev, cpu, DSQ_OTHERS(cpu), now)) {
		go_on(c, conf, cpu, prev, now);
		return;
	}
	if (take_other(cpu)) {
		c->taken = DSQ_OTHERS(cpu);
		return;
	}
	if (steal(cpu))
		return;
	c->cur = -1;
	c->idle = 1;
	c->stopped_at = 0;
	/* Who was interrupted here has been taken away. */
	c->held = 0;
	c->cut = 0;
	arm(c, conf, cpu, now);
}

void BPF_STRUCT_OPS(rsv_running, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_conf *conf = conf_of(cpu);
	struct cpu_ctx *c = ctx_of(cpu);
	struct task_ctx *t = task_of(p);
	u64 now = bpf_ktime_get_ns();
	u32 slot, best, cut;

	if (!c || !conf || !t)
		return;
	__sync_fetch_and_add(&counters.switches, 1);
	slot = slot_of(p, t, cpu);
	if (!rate_of(conf, slot))
		slot = 0;
	cut = c->cut & (MAX_SERVERS - 1);
	if (slot) {
		struct server *s = server_of(c, slot);

		uncount(t);
		/* One that was moved into the group, or here, while it ran. */
		if (t->active != DSQ_SERVER(slot, cpu) &&
		    !scx_bpf_dsq_nr_queued(DSQ_SERVER(slot, cpu)))
			activate(s, rate_of(conf, slot), now);
		t->active = DSQ_SERVER(slot, cpu);
		/* The way here, else nobody's; but not what a higher class took, nor on it. */
		if (c->held == slot)
			s->taken_ns += now - c->held_at;
		else if (c->stopped_at)
			s->budget -= now - c->stopped_at < switch_ns ? now - c->stopped_at :
								       switch_ns;
		if (cut && cut != slot) {
			s->budget -= switch_ns;
			server_of(c, cut)->budget += switch_ns;
		}
	} else {
		t->active = 0;
		count_at(p, t, cpu);
		if (p->scx.slice > slice_ns)
			scx_bpf_task_set_slice(p, slice_ns);
	}
	c->held = 0;
	c->cut = 0;
	c->taken = 0;
	c->stopped_at = 0;
	c->cur = slot;
	c->since = now;
	c->began = now;
	advance_base(c, cpu, p, t);
	c->turn_end = turn_end(t, now);
	if (!slot)
		take(c, p, t, now);
	if (!arm(c, conf, cpu, now))
		scx_bpf_task_set_slice(p, tick_ns);
	/*
	 * Out of idle the next update of the run queue's clock is skipped (see
	 * charge()), and with it the accounting of all that runs until then.
	 * An empty round through the scheduler now takes the skip.
	 */
	if (c->idle) {
		if (time_before(c->clock, others_clock))
			c->clock = others_clock;
		c->idle = 0;
		scx_bpf_kick_cpu(cpu, 0);
	}
	/* After a higher class the task that it interrupted comes back unasked. */
	best = earliest(c, conf, cpu, slot, now);
	if (best && best != slot && !c->offline) {
		__sync_fetch_and_add(&counters.kicks, 1);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
}

/*
 * The thread that takes this CPU offline is the first one that stops then. It waits for
 * readers of RCU, which may be among the tasks that wait here: kernels before 7.3 do not call
 * dispatch() any more. They also go idle beside the last task if that is put back.
 */
static void leave(struct cpu_ctx *c, struct task_struct *p, s32 cpu, bool runnable)
{
	struct timer *timer;
	u32 key = cpu;

	if (!c->offline && (p->flags & PF_KTHREAD) && p->nr_cpus_allowed == 1 && !is_active(cpu)) {
		c->offline = 1;
		timer = bpf_map_lookup_elem(&timers, &key);
		if (timer)
			bpf_timer_start(&timer->timer, 0, BPF_F_TIMER_CPU_PIN);
	}
	if (c->offline && runnable)
		scx_bpf_kick_cpu(cpu, 0);
}

void BPF_STRUCT_OPS(rsv_stopping, struct task_struct *p, bool runnable)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct task_ctx *t = task_of(p);
	struct cpu_ctx *c = ctx_of(cpu);
	u64 now = bpf_ktime_get_ns();

	if (!c || !t)
		return;
	advance_task(c, p, t, cpu, now);
	give_back(c, t, now);
	c->limited = 0;
	c->turn_end = 0;
	c->stopped_at = now;
	if (!runnable) {
		t->active = 0;
		uncount(t);
	}
	leave(c, p, cpu, runnable);
	if (c->cur > 0) {
		u32 slot = c->cur & (MAX_SERVERS - 1);

		charge(c, now);
		if (runnable && !server_of(c, slot)->throttled) {
			c->cut = slot;
			if (p->scx.slice) {
				c->held = slot;
				c->held_at = now;
			}
		}
	}
	c->cur = -1;
}

void BPF_STRUCT_OPS(rsv_enable, struct task_struct *p)
{
	struct task_ctx *t = task_of(p);

	if (t)
		t->queue = 0;
}

/* To another class, whether it runs or waits. */
void BPF_STRUCT_OPS(rsv_disable, struct task_struct *p)
{
	struct task_ctx *t = task_of(p);

	if (t)
		uncount(t);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(rsv_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_ctx *t = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t)
		return -ENOMEM;
	t->generation = 0;	/* found when it is first asked for */
	return 0;
}

void BPF_STRUCT_OPS(rsv_cgroup_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	struct task_ctx *t = task_of(p);

	if (t)
		t->generation = 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(rsv_cgroup_init, struct cgroup *cgrp,
			     struct scx_cgroup_init_args *args)
{
	add_unit(cgrp, args->weight, bpf_core_field_exists(args->sched_idle) && args->sched_idle);
	if (bpf_core_field_exists(args->bw_quota_us))
		set_limit(cgrp, tenant_of(cgrp), args->bw_period_us, args->bw_quota_us, args->bw_burst_us);
	return 0;
}

void BPF_STRUCT_OPS(rsv_cgroup_set_weight, struct cgroup *cgrp, u32 weight)
{
	set_unit_weight(cgrp, weight);
}

void BPF_STRUCT_OPS(rsv_cgroup_set_idle, struct cgroup *cgrp, bool idle)
{
	set_unit_idle(cgrp, idle);
}

void BPF_STRUCT_OPS(rsv_cgroup_set_bandwidth, struct cgroup *cgrp, u64 period_us, u64 quota_us,
		    u64 burst_us)
{
	set_limit(cgrp, tenant_of(cgrp), period_us, quota_us, burst_us);
}

void BPF_STRUCT_OPS_SLEEPABLE(rsv_cgroup_exit, struct cgroup *cgrp)
{
	remove_limit(cgrp);
	remove_unit(cgrp);
}

/* The kernel moves the tasks of a CPU that goes; without these two it ends the scheduler. */
void BPF_STRUCT_OPS(rsv_cpu_online, s32 cpu)
{
	struct cpu_ctx *c = ctx_of(cpu);

	/* It runs tasks already, without timers. */
	if (c) {
		c->held = 0;
		c->cut = 0;
		c->stopped_at = 0;
		c->timer_at = 0;
		c->offline = 0;
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
}

/*
 * Neither budgets nor deadlines are kept there, see is_active(). A timer or a kick for them
 * would come again at once, so that a task that cannot leave would never get further.
 */
void BPF_STRUCT_OPS(rsv_cpu_offline, s32 cpu)
{
	struct cpu_ctx *c = ctx_of(cpu);

	if (c)
		c->offline = 1;
}

/* Those that come later have rsv_cpu_online(). */
static void find_offline(void)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	s32 cpu;

	bpf_for(cpu, 0, MAX_CPUS) {
		struct cpu_ctx *c = ctx_of(cpu);

		if (cpu >= nr_cpus || !c)
			break;
		c->offline = !bpf_cpumask_test_cpu(cpu, online);
	}
	scx_bpf_put_cpumask(online);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(rsv_init)
{
	s32 cpu, slot, err;

	find_offline();
	bpf_for(cpu, 0, MAX_CPUS) {
		struct cpu_ctx *c = ctx_of(cpu);
		struct timer *timer;
		u32 key = cpu;

		if (cpu >= nr_cpus || !c)
			break;
		err = scx_bpf_create_dsq(DSQ_OTHERS(cpu), -1);
		if (err)
			return err;
		bpf_for(slot, 1, MAX_SERVERS) {
			err = scx_bpf_create_dsq(DSQ_SERVER(slot, cpu), -1);
			if (err)
				return err;
		}
		c->cur = -1;
		timer = bpf_map_lookup_elem(&timers, &key);
		if (!timer)
			return -ENOENT;
		err = bpf_timer_init(&timer->timer, &timers, CLOCK_MONOTONIC);
		if (err)
			return err;
		bpf_timer_set_callback(&timer->timer, timer_fn);
	}
	return has_limits ? init_limits() : 0;
}

void BPF_STRUCT_OPS(rsv_exit, struct scx_exit_info *ei)
{
	u32 kind = ei->kind;

	UEI_RECORD(uei, ei);
	bpf_ringbuf_output(&ended, &kind, sizeof(kind), BPF_RB_FORCE_WAKEUP);
}

SCX_OPS_DEFINE(rsv_ops,
	       .select_cpu	= (void *)rsv_select_cpu,
	       .enqueue		= (void *)rsv_enqueue,
	       .dispatch	= (void *)rsv_dispatch,
	       .running		= (void *)rsv_running,
	       .stopping	= (void *)rsv_stopping,
	       .enable		= (void *)rsv_enable,
	       .disable		= (void *)rsv_disable,
	       .init_task	= (void *)rsv_init_task,
	       .cgroup_init	= (void *)rsv_cgroup_init,
	       .cgroup_exit	= (void *)rsv_cgroup_exit,
	       .cgroup_set_weight = (void *)rsv_cgroup_set_weight,
	       .cgroup_set_bandwidth = (void *)rsv_cgroup_set_bandwidth,
	       .cgroup_set_idle = (void *)rsv_cgroup_set_idle,
	       .cgroup_move	= (void *)rsv_cgroup_move,
	       .cpu_online	= (void *)rsv_cpu_online,
	       .cpu_offline	= (void *)rsv_cpu_offline,
	       .init		= (void *)rsv_init,
	       .exit		= (void *)rsv_exit,
	       .timeout_ms	= 30000,
	       .name		= "nova_rt");
