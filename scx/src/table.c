// SPDX-License-Identifier: GPL-2.0-only
/* The reservations that were admitted, and the rule, in integers. */
#include "table.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* So long a queue of a slot that became free may have tasks of its last owner. */
#define REST_S 2

__u32 table_ppm(const struct table *t, __u32 runtime_us, __u32 period_us)
{
	__u64 used = ((__u64)runtime_us + 2 * t->switch_us) * PPM;

	return (used + period_us - 1) / period_us;
}

__u32 table_free_ppm(const struct table *t, int cpu)
{
	__u32 held = t->cpus[cpu].held_ppm;

	return held < t->ceiling_ppm ? t->ceiling_ppm - held : 0;
}

struct reservation *table_find(struct table *t, const char *path)
{
	size_t i;

	for (i = 0; i < t->nr; i++) {
		if (!strcmp(t->all[i]->path, path))
			return t->all[i];
	}
	return NULL;
}

/* The lowest slot that is surely empty, else the one that has been free longest. */
static int free_slot(const struct cpu_row *row, __u32 now_s)
{
	int i, best = 0;

	for (i = 1; i < MAX_SERVERS; i++) {
		if (row->used[i])
			continue;
		if (!row->ever[i] || now_s - row->freed_s[i] >= REST_S)
			return i;
		if (!best || row->freed_s[i] < row->freed_s[best])
			best = i;
	}
	return best;
}

static int slot_on(const struct reservation *r, int cpu)
{
	__u32 i;

	for (i = 0; r && i < r->where.nr; i++) {
		if (r->where.at[i].cpu == cpu)
			return r->where.at[i].slot;
	}
	return 0;
}

static bool refuse(struct refusal *no, int err, int cpu, const char *what, __u32 asked,
		   const char *bound, __u32 value)
{
	*no = (struct refusal){ err, cpu, what, asked, bound, value };
	return false;
}

static bool is_valid(const struct table *t, const struct reservation *want, struct refusal *no)
{
	__u32 i, j;

	if (want->period_us < MIN_PERIOD_US)
		return refuse(no, EINVAL, -1, "period_us", want->period_us, "least",
			      MIN_PERIOD_US);
	if (want->period_us > MAX_PERIOD_US)
		return refuse(no, EINVAL, -1, "period_us", want->period_us, "most",
			      MAX_PERIOD_US);
	if (want->runtime_us < MIN_RUNTIME_US)
		return refuse(no, EINVAL, -1, "runtime_us", want->runtime_us, "least",
			      MIN_RUNTIME_US);
	if (want->runtime_us > want->period_us)
		return refuse(no, EINVAL, -1, "runtime_us", want->runtime_us, "most",
			      want->period_us);
	if (table_ppm(t, want->runtime_us, want->period_us) < MIN_PPM)
		return refuse(no, EINVAL, -1, "ppm",
			      table_ppm(t, want->runtime_us, want->period_us), "least", MIN_PPM);
	if (!want->where.nr || want->where.nr > MAX_GROUP_CPUS)
		return refuse(no, EINVAL, -1, "cpus", want->where.nr, "most", MAX_GROUP_CPUS);
	for (i = 0; i < want->where.nr; i++) {
		int cpu = want->where.at[i].cpu;

		if ((__u32)cpu >= t->nr_cpus)
			return refuse(no, EINVAL, cpu, "cpu", cpu, "most", t->nr_cpus - 1);
		for (j = 0; j < i; j++) {
			if (want->where.at[j].cpu == cpu)
				return refuse(no, EINVAL, cpu, "servers_of_the_group", 2, "most", 1);
		}
	}
	return true;
}

static bool fits(const struct table *t, const struct reservation *want,
		 const struct reservation *had, __u32 now_s, struct refusal *no)
{
	__u32 asked = table_ppm(t, want->runtime_us, want->period_us), i;

	for (i = 0; i < want->where.nr; i++) {
		int cpu = want->where.at[i].cpu;
		__u32 free = table_free_ppm(t, cpu);

		if (slot_on(had, cpu))
			free += table_ppm(t, had->runtime_us, had->period_us);
		else if (!free_slot(&t->cpus[cpu], now_s))
			return refuse(no, ENOSPC, cpu, "servers", 1, "free", 0);
		if (asked > free)
			return refuse(no, EBUSY, cpu, "ppm", asked, "free", free);
	}
	if (!had && t->nr == MAX_RESERVATIONS)
		return refuse(no, ENOSPC, -1, "reservations", 1, "free", 0);
	return true;
}

static void release(struct table *t, const struct reservation *r, const struct reservation *kept,
		    __u32 now_s)
{
	__u32 i;

	for (i = 0; i < r->where.nr; i++) {
		int cpu = r->where.at[i].cpu, slot = r->where.at[i].slot;
		struct cpu_row *row = &t->cpus[cpu];

		row->held_ppm -= table_ppm(t, r->runtime_us, r->period_us);
		if (slot_on(kept, cpu))
			continue;
		row->used[slot] = false;
		row->freed_s[slot] = now_s;
	}
}

struct reservation *table_set(struct table *t, const struct reservation *want, __u32 now_s,
			      struct reservation *old, struct refusal *no)
{
	struct reservation *r = table_find(t, want->path);
	__u32 i;

	memset(old, 0, sizeof(*old));
	memset(no, 0, sizeof(*no));
	if (!is_valid(t, want, no) || !fits(t, want, r, now_s, no))
		return NULL;
	if (r) {
		*old = *r;
	} else {
		r = malloc(sizeof(*r));
		if (!r) {
			refuse(no, ENOMEM, -1, "bytes", sizeof(*r), "free", 0);
			return NULL;
		}
		t->all[t->nr++] = r;
	}
	*r = *want;
	if (old->where.nr)
		release(t, old, want, now_s);
	for (i = 0; i < r->where.nr; i++) {
		struct cpu_row *row = &t->cpus[r->where.at[i].cpu];
		int slot = slot_on(old, r->where.at[i].cpu);

		if (!slot)
			slot = free_slot(row, now_s);
		row->used[slot] = true;
		row->ever[slot] = true;
		row->held_ppm += table_ppm(t, r->runtime_us, r->period_us);
		r->where.at[i].slot = slot;
	}
	return r;
}

void table_clear(struct table *t, struct reservation *r, __u32 now_s)
{
	size_t i;

	for (i = 0; t->all[i] != r; i++)
		;
	release(t, r, NULL, now_s);
	t->all[i] = t->all[--t->nr];
	free(r);
}
