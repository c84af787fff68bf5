/* SPDX-License-Identifier: GPL-2.0-only */
/* Which server a task belongs to, which unit, and which limits. */
#ifndef GROUP_BPF_H
#define GROUP_BPF_H

/*
 * The innermost group with a reservation, down to @cgrp; 0: none. Limits count only
 * outside of those. From the root, since a tenant makes groups at the other end.
 */
static u64 find_group(struct cgroup *cgrp, struct task_ctx *t)
{
	s32 level = cgrp->level, i;
	u64 found = 0;
	u32 *n, nr = 0;

	bpf_for(i, 1, MAX_LEVELS) {
		struct cgroup *a;
		u64 id;

		if (i > level)
			break;
		a = bpf_cgroup_ancestor(cgrp, i);
		if (!a)
			break;
		id = a->kn->id;
		bpf_cgroup_release(a);
		if (bpf_map_lookup_elem(&groups, &id))
			found = id;
		n = limits_used ? bpf_map_lookup_elem(&limit_numbers, &id) : NULL;
		if (n && nr < MAX_NESTED)
			t->limits[nr++] = *n;
	}
	if (found)
		t->limits[0] = 0;
	return found;
}

/* Only of the task that the operation is about: its group may be asked for. */
static struct group *group_of(struct task_struct *p, struct task_ctx *t)
{
	struct cgroup *cgrp;
	s32 unit;
	u64 id;

	if (t->generation != generation) {
		uncount(t);
		t->generation = generation;
		t->cpu = -1;
		__builtin_memset(t->limits, 0, sizeof(t->limits));
		cgrp = scx_bpf_task_cgroup(p);
		t->cgid = cgrp ? find_group(cgrp, t) : 0;
		/* As in the kernel, which stops tasks only on their way to user space. */
		if (p->flags & PF_KTHREAD)
			t->limits[0] = 0;
		unit = cgrp ? find_unit(cgrp) : -1;
		if (cgrp)
			bpf_cgroup_release(cgrp);
		t->unit = unit > 0 ? unit : 0;
		if (unit < 0)
			t->generation = 0;
	}
	id = t->cgid;
	return id ? bpf_map_lookup_elem(&groups, &id) : NULL;
}

static u32 slot_of(struct task_struct *p, struct task_ctx *t, s32 cpu)
{
	if (t->generation == generation && t->cpu == cpu)
		return t->slot & (MAX_SERVERS - 1);
	{
		struct group *g = group_of(p, t);

		t->slot = g ? slot_at(g, cpu) : 0;
		t->cpu = cpu;
	}
	return t->slot & (MAX_SERVERS - 1);
}

#endif
