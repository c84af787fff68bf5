// SPDX-License-Identifier: GPL-2.0-only
/* What the daemon does for a request, and what it remembers over a restart. */
#include "service.h"
#include <errno.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

static __u32 now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

static const char *name_of(int err)
{
	const char *name = strerrorname_np(err);

	return name ? name : "EIO";
}

static void fail(FILE *out, int err, const char *text)
{
	fprintf(out, "error %s %s\n", name_of(err), text);
}

static void refuse(FILE *out, const struct refusal *no)
{
	fprintf(out, "error %s what=%s asked=%u %s=%u rule=asked%s%s", name_of(no->err), no->what,
		no->asked, no->bound, no->value, strcmp(no->bound, "least") ? "<=" : ">=",
		no->bound);
	if (no->cpu >= 0)
		fprintf(out, " cpu=%d", no->cpu);
	fputc('\n', out);
}

/* The ID of a group; 0 with errno if it is not there, or is not one. */
static __u64 group_id(const struct service *s, const char *path)
{
	char full[MAX_PATH + 256];
	struct statfs fs;
	struct stat st;

	snprintf(full, sizeof(full), "%s%s", s->cgroup_root, path);
	if (statfs(full, &fs) || stat(full, &st))
		return 0;
	if (fs.f_type != CGROUP2_SUPER_MAGIC) {
		errno = ENOTSUP;
		return 0;
	}
	return st.st_ino;
}

/* The first line of a group's file; false if there is none. */
static bool read_file(const struct service *s, const char *path, const char *file, char *out,
		      size_t size)
{
	char full[MAX_PATH + 256];
	FILE *f;
	bool ok;

	snprintf(full, sizeof(full), "%s%s/%s", s->cgroup_root, path, file);
	f = fopen(full, "re");
	ok = f && fgets(out, size, f);
	if (f)
		fclose(f);
	if (ok)
		out[strcspn(out, "\n")] = 0;
	return ok;
}

/* Without this controller the kernel takes the tasks for those of an ancestor. */
static bool has_cpu_controller(const struct service *s, const char *path)
{
	char text[512], *rest = text, *word;

	if (!read_file(s, path, "cgroup.controllers", text, sizeof(text)))
		return false;
	while ((word = strsep(&rest, " "))) {
		if (!strcmp(word, "cpu"))
			return true;
	}
	return false;
}

static bool effective_cpus(const struct service *s, const char *path, struct group *where)
{
	char text[4096];

	if (read_file(s, path, "cpuset.cpus.effective", text, sizeof(text)))
		return parse_cpus(text, where);
	/* No cpuset: the group runs on all. */
	return read_file(&(struct service){ .cgroup_root = "/sys/devices/system" }, "/cpu",
			 "online", text, sizeof(text)) &&
	       parse_cpus(text, where);
}

static bool save_one(FILE *f, const struct reservation *r)
{
	char cpus[1024];

	format_cpus(&r->where, cpus, sizeof(cpus));
	return fprintf(f, "%llu set %s %u %u %s\n", (unsigned long long)r->cgid, r->path,
		       r->runtime_us, r->period_us, cpus) > 0;
}

static bool save(const struct service *s)
{
	const struct kept *kept;
	char new[4096];
	bool ok = true;
	FILE *f;
	size_t i;

	snprintf(new, sizeof(new), "%s.new", s->state);
	f = fopen(new, "we");
	if (!f)
		return false;
	for (i = 0; i < s->table.nr; i++)
		ok &= save_one(f, s->table.all[i]);
	for (kept = s->kept; kept; kept = kept->next)
		ok &= save_one(f, &kept->r);
	ok &= !fclose(f);
	return ok && !rename(new, s->state);
}

static void save_or_say(const struct service *s)
{
	if (!save(s))
		fprintf(stderr, "cannot write %s: %s; a restart would lose changes\n", s->state,
			strerror(errno));
}

static void keep(struct service *s, const struct reservation *r)
{
	struct kept *kept = malloc(sizeof(*kept));

	if (!kept) {
		fprintf(stderr, "%s: no memory to remember the reservation\n", r->path);
		return;
	}
	*kept = (struct kept){ s->kept, *r };
	s->kept = kept;
}

static bool is_gone(const struct service *s, const struct reservation *r)
{
	__u64 id = group_id(s, r->path);

	/* Any other error says nothing about the group. */
	return id != r->cgid && (id || errno == ENOENT);
}

/* Forget what was kept of groups that are gone, or of @path. Whether anything was. */
static bool forget_kept(struct service *s, const char *path)
{
	struct kept **at = &s->kept, *kept;
	bool any = false;

	while ((kept = *at)) {
		if (path ? strcmp(kept->r.path, path) : !is_gone(s, &kept->r)) {
			at = &kept->next;
			continue;
		}
		*at = kept->next;
		free(kept);
		any = true;
	}
	return any;
}

/* Admit and apply. 0 or an errno; then @no says more if its err is set. */
static int set(struct service *s, struct reservation *want, struct refusal *no)
{
	struct reservation old, *had = table_find(&s->table, want->path), *r;
	int err;

	*no = (struct refusal){ 0 };
	if (had && had->cgid != want->cgid) {
		/* Another group of the same name. */
		kernel_clear(s->kernel, had);
		table_clear(&s->table, had, now_s());
	}
	r = table_set(&s->table, want, now_s(), &old, no);
	if (!r)
		return no->err;
	err = kernel_apply(s->kernel, &old, r, s->table.switch_us);
	if (err) {
		kernel_clear(s->kernel, r);
		table_clear(&s->table, r, now_s());
	}
	return err;
}

static void do_set(struct service *s, struct request *q, FILE *out)
{
	struct refusal no;
	int err;

	q->want.cgid = group_id(s, q->want.path);
	if (!q->want.cgid) {
		fail(out, errno, "no control group (version 2) has this path");
		return;
	}
	if (!has_cpu_controller(s, q->want.path)) {
		fail(out, ENOTSUP, "the controller cpu is not enabled for the group");
		return;
	}
	if (!q->has_cpus && !effective_cpus(s, q->want.path, &q->want.where)) {
		fail(out, E2BIG, "the group's cpuset has more CPUs than one reservation: name them");
		return;
	}
	err = set(s, &q->want, &no);
	if (no.err) {
		refuse(out, &no);
	} else if (err) {
		fail(out, err, "the kernel refused the change of a map");
	} else {
		forget_kept(s, q->want.path);
		save_or_say(s);
		fprintf(out, "ok\n");
	}
}

static void do_clear(struct service *s, const char *path, FILE *out)
{
	struct reservation *r = table_find(&s->table, path);

	if (!forget_kept(s, path) && !r) {
		fail(out, ENOENT, "the group has no reservation");
		return;
	}
	if (r) {
		kernel_clear(s->kernel, r);
		table_clear(&s->table, r, now_s());
	}
	save_or_say(s);
	fprintf(out, "ok\n");
}

static void do_list(struct service *s, FILE *out)
{
	char cpus[1024];
	size_t i;

	for (i = 0; i < s->table.nr; i++) {
		const struct reservation *r = s->table.all[i];

		format_cpus(&r->where, cpus, sizeof(cpus));
		fprintf(out, "reservation path=%s runtime_us=%u period_us=%u cpus=%s\n", r->path,
			r->runtime_us, r->period_us, cpus);
	}
	fprintf(out, "ok\n");
}

static int stat_one(struct service *s, const struct reservation *r, FILE *out)
{
	struct server v;
	__u32 i;
	int err;

	for (i = 0; i < r->where.nr; i++) {
		err = kernel_server(s->kernel, r->where.at[i].cpu, r->where.at[i].slot, &v);
		if (err)
			return err;
		fprintf(out,
			"server path=%s cpu=%u runtime_us=%u period_us=%u used_ns=%llu periods=%llu throttles=%llu throttled_ns=%llu shorts=%llu short_ns=%llu taken_ns=%llu overrun_max_ns=%llu\n",
			r->path, r->where.at[i].cpu, r->runtime_us, r->period_us,
			(unsigned long long)v.used_ns, (unsigned long long)v.periods,
			(unsigned long long)v.throttles, (unsigned long long)v.throttled_ns,
			(unsigned long long)v.shorts, (unsigned long long)v.short_ns,
			(unsigned long long)v.taken_ns, (unsigned long long)v.overrun_max_ns);
	}
	return 0;
}

static void do_stat(struct service *s, const char *path, FILE *out)
{
	bool found = false;
	int err = 0;
	size_t i;

	for (i = 0; i < s->table.nr && !err; i++) {
		if (*path && strcmp(path, s->table.all[i]->path))
			continue;
		found = true;
		err = stat_one(s, s->table.all[i], out);
	}
	if (err)
		fail(out, err, "the kernel's counters cannot be read");
	else if (*path && !found)
		fail(out, ENOENT, "the group has no reservation");
	else
		fprintf(out, "ok\n");
}

static void do_status(struct service *s, FILE *out)
{
	struct counters c = kernel_counters(s->kernel);
	char why[1024];

	if (kernel_ended(s->kernel, why, sizeof(why))) {
		fail(out, EIO, why);
		return;
	}
	fprintf(out,
		"status state=enabled reservations=%zu ceiling_ppm=%u switch_us=%u switches=%llu kicks=%llu timers=%llu arms=%llu arm_failures=%llu timer_late_max_ns=%llu used_up=%llu\n",
		s->table.nr, s->table.ceiling_ppm, s->table.switch_us,
		(unsigned long long)c.switches, (unsigned long long)c.kicks,
		(unsigned long long)c.timers, (unsigned long long)c.arms,
		(unsigned long long)c.arm_failures, (unsigned long long)c.late_max_ns,
		(unsigned long long)c.used_up);
	fprintf(out, "ok\n");
}

static void do_cpus(struct service *s, FILE *out)
{
	__u32 i;

	for (i = 0; i < s->table.nr_cpus; i++)
		fprintf(out, "cpu cpu=%u ceiling_ppm=%u held_ppm=%u free_ppm=%u\n", i,
			s->table.ceiling_ppm, s->table.cpus[i].held_ppm,
			table_free_ppm(&s->table, i));
	fprintf(out, "ok\n");
}

void answer(struct service *s, char *line, bool may_change, FILE *out)
{
	static struct request q;
	const char *wrong = parse_request(line, &q);

	if (wrong) {
		fail(out, EINVAL, wrong);
		return;
	}
	if (!may_change && (q.verb == SET || q.verb == CLEAR)) {
		fail(out, EPERM, "only root changes reservations");
		return;
	}
	switch (q.verb) {
	case SET:
		do_set(s, &q, out);
		break;
	case CLEAR:
		do_clear(s, q.want.path, out);
		break;
	case LIST:
		do_list(s, out);
		break;
	case STAT:
		do_stat(s, q.want.path, out);
		break;
	case STATUS:
		do_status(s, out);
		break;
	case CPUS:
		do_cpus(s, out);
		break;
	}
}

void restore(struct service *s)
{
	FILE *f = fopen(s->state, "re");
	char line[MAX_PATH + 1200], *rest;
	static struct request q;
	struct refusal no;
	__u64 cgid;
	int err;

	if (!f) {
		if (errno != ENOENT)
			fprintf(stderr, "cannot read %s: %s\n", s->state, strerror(errno));
		return;
	}
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		cgid = strtoull(line, &rest, 10);
		if (*rest != ' ' || parse_request(rest + 1, &q) || q.verb != SET || !q.has_cpus) {
			fprintf(stderr, "%s: a line is damaged and was left out\n", s->state);
			continue;
		}
		q.want.cgid = cgid;
		if (is_gone(s, &q.want)) {
			fprintf(stderr, "%s is gone, and so is its reservation\n", q.want.path);
			continue;
		}
		err = group_id(s, q.want.path) ? set(s, &q.want, &no) : errno;
		if (err) {
			fprintf(stderr,
				"%s: the reservation was not restored, and stays in the file: %s\n",
				q.want.path, strerror(err));
			keep(s, &q.want);
		}
	}
	fclose(f);
	fprintf(stderr, "%zu reservations restored\n", s->table.nr);
	save_or_say(s);
}

void prune(struct service *s)
{
	bool changed = forget_kept(s, NULL);
	size_t i = 0;

	while (i < s->table.nr) {
		struct reservation *r = s->table.all[i];

		if (!is_gone(s, r)) {
			i++;
			continue;
		}
		kernel_clear(s->kernel, r);
		table_clear(&s->table, r, now_s());
		changed = true;
	}
	if (changed)
		save_or_say(s);
}
