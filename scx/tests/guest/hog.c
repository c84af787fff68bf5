// SPDX-License-Identifier: GPL-2.0-only
/* Hogs that note when they have the CPU, and what they got of it. */
#include "guest.h"

/* A longer break in the view of the clock is time without the CPU. */
#define GAP_NS (20 * US)

struct hog *hogs;
static pid_t pids[MAX_HOGS];

void make_hogs(void)
{
	hogs = mmap(NULL, MAX_HOGS * sizeof(*hogs), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (hogs == MAP_FAILED)
		power_off();
}

struct hog *new_hog(int i, const char *group)
{
	struct hog *h = &hogs[i];

	memset(h, 0, offsetof(struct hog, run));
	snprintf(h->group, sizeof(h->group), "%s", group);
	return h;
}

int add_beside(int n, const char *beside)
{
	for (; *beside; beside++, n++) {
		struct hog *h = new_hog(n, "");

		if (*beside == 'f') {
			h->fifo = 50;
			h->on = 100 * US;
			h->off = 900 * US;
		}
	}
	return n;
}

static uint64_t used_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * SEC + t.tv_nsec;
}

static void hog_main(struct hog *h, uint64_t t0, uint64_t end)
{
	uint64_t t, last, next, cpu0, i;
	int err = 0;

	/* Here: a page fault on the way would be taken for lost time. */
	for (i = 0; i < MAX_RUNS; i += 4096 / sizeof(h->run[0]))
		h->run[i].from = 0;
	if (*h->group)
		err = enter(h->group);
	if (!err && h->cpu)
		err = pin(h->cpu - 1);
	if (!err && h->fifo)
		err = set_fifo(h->fifo);
	if (!err && h->nice)
		err = setpriority(PRIO_PROCESS, 0, h->nice) ? errno : 0;
	if (err)
		_exit(err);
	h->t0 = t0 + h->offset;
	sleep_until(h->t0);
	cpu0 = used_ns();
	last = now_ns();
	next = h->t0;
	h->run[0].from = last;
	while ((t = now_ns()) < end) {
		h->work++;
		if (t - last > GAP_NS) {
			h->run[h->n].to = last;
			if (h->n + 1 < MAX_RUNS)
				h->n++;
			h->run[h->n].from = t;
		}
		last = t;
		if (h->on && t - next >= h->on) {
			next += h->on + h->off;
			sleep_until(next);
		}
	}
	h->run[h->n++].to = last;
	h->cpu_ns = used_ns() - cpu0;
	_exit(0);
}

void start_hogs(int n, uint64_t t0, uint64_t len)
{
	int i;

	for (i = 0; i < n; i++) {
		pids[i] = fork_flushed();
		if (!pids[i])
			hog_main(&hogs[i], t0, t0 + len);
	}
}

void move_hog(int i, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(pids[i], sizeof(set), &set))
		check(false, "hog %d goes to CPU %d: %s", i, cpu, strerror(errno));
}

/* By their IDs: init inherits others, too. */
void reap_hogs(int n)
{
	int status;

	while (n--) {
		waitpid(pids[n], &status, 0);
		if (status) {
			printf("FAIL hog %d of group %s ended with %#x\n", n, hogs[n].group, status);
			failures++;
		}
	}
}

uint64_t service(const struct hog *h, uint64_t a, uint64_t b, uint64_t *hint)
{
	uint64_t sum = 0, i;

	for (i = *hint; i < h->n && h->run[i].from < b; i++) {
		uint64_t x = h->run[i].from, y = h->run[i].to;

		if (y <= a) {
			*hint = i + 1;
			continue;
		}
		sum += (y > b ? b : y) - (x < a ? a : x);
	}
	return sum;
}

/*
 * What a period may lack: 15 us or 1.5 % on one CPU, and half a switch for each cut that no
 * other reservation pays for: the interrupt and the way out. Ticks take more
 * of a runtime where CPUs share the clock. It may have two switches more, which its server has.
 */
uint64_t tolerance(const struct hog *h)
{
	uint64_t least = h->q * (10 + 5 * nr_cpus) / 1000;
	uint64_t floor = (nr_cpus > 1 ? 25 : 15) * US * nr_cpus;

	return (least > floor ? least : floor) + h->cuts * switch_us * US / 2;
}

struct verdict judge(const struct hog *h, uint64_t from, uint64_t to)
{
	uint64_t may = tolerance(h), t, got, hint = 0, i;
	struct verdict v = { .min = ~0ULL };

	for (t = from; t + h->p <= to; t += h->p) {
		got = service(h, t, t + h->p, &hint);
		v.periods++;
		v.shorts += got + may < h->q;
		v.overs += got > h->q + may + 2 * switch_us * US;
		v.sum += got;
		if (got < v.min)
			v.min = got;
		if (got > v.max)
			v.max = got;
	}
	for (i = 1; i < h->n; i++) {
		t = h->run[i].from - h->run[i - 1].to;
		if (h->run[i].from > from && h->run[i].from < to && t > v.gap)
			v.gap = t;
	}
	v.mean = v.periods ? v.sum / v.periods : 0;
	return v;
}
