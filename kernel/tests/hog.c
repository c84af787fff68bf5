// SPDX-License-Identifier: Apache-2.0
/* Hogs that note when they have the CPU, and what they got of it. */
#include "guest.h"

/*
 * A break in the hog's view of the clock that is longer is lost work: a switch takes
 * longer, and so does a tick. Its kernel accounts for some of that as the hog's time.
 */
#define GAP_NS (1 * US)

struct hog *hogs;

void make_hogs(void)
{
	hogs = mmap(NULL, NR_HOGS * sizeof(*hogs), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (hogs == MAP_FAILED)
		die("memory");
}

static void hog_main(struct hog *h, uint64_t start, uint64_t end)
{
	uint64_t t, last, cpu0;
	int i;

	if (h->group)
		h->err = enter(h->group);
	if (!h->err && h->policy == DEADLINE)
		h->err = set_deadline(h->q * US, h->p * US);
	else if (!h->err && h->policy != SCHED_OTHER)
		h->err = set_policy(0, h->policy, h->prio);
	if (h->err)
		_exit(1);

	/* Here, since a page fault on the way would be taken for lost service. */
	for (i = 0; i < MAX_RUNS; i += 4096 / sizeof(h->runs[0]))
		h->runs[i] = (struct run){ 0 };
	sleep_until(start);
	cpu0 = now_ns(CLOCK_THREAD_CPUTIME_ID);
	last = now_ns(CLOCK_MONOTONIC);
	/*
	 * The server's first period begins when the task wakes up, not when it
	 * gets the CPU: windows of P that begin later have no claim to Q.
	 */
	h->t0 = start;
	h->runs[0].from = last;
	for (;;) {
		t = now_ns(CLOCK_MONOTONIC);
		if (t >= end)
			break;
		if (t - last > GAP_NS) {
			h->runs[h->nr_runs].to = last;
			if (h->nr_runs + 1 < MAX_RUNS)
				h->nr_runs++;
			h->runs[h->nr_runs].from = t;
		}
		last = t;
	}
	h->cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu0;
	h->runs[h->nr_runs++].to = last;
	_exit(0);
}

uint64_t service(struct hog *h, uint64_t from, uint64_t to, int *hint)
{
	uint64_t sum = 0;
	int i;

	for (i = *hint; i < h->nr_runs && h->runs[i].from < to; i++) {
		uint64_t a = h->runs[i].from, b = h->runs[i].to;

		if (b <= from) {
			*hint = i + 1;
			continue;
		}
		if (a < from)
			a = from;
		if (b > to)
			b = to;
		sum += b - a;
	}
	return sum;
}

void judge(struct hog *h, uint64_t len, struct verdict *v)
{
	uint64_t p = h->p * US, q = h->q * US, t, got;
	uint64_t tol = h->policy == DEADLINE ?
		task_tolerance(h->q, h->p, h->interruptions) :
		tolerance(h->q, h->p, h->interruptions);
	int hint = 0, i;

	memset(v, 0, sizeof(*v));
	v->min = UINT64_MAX;
	for (t = h->t0; t + p <= h->t0 + len; t += p) {
		got = service(h, t, t + p, &hint);
		v->periods++;
		v->shorts += got + h->paid_ns + tol < q;
		v->overs += got > q + tol;
		if (got < v->min) {
			v->min = got;
			v->shortest = t;
		}
		if (got > v->max)
			v->max = got;
	}
	for (i = 1; i < h->nr_runs; i++) {
		t = h->runs[i].from - h->runs[i - 1].to;
		if (t > v->gap)
			v->gap = t;
	}
	if (v->periods)
		v->acct_ppm = (int64_t)(h->cpu_ns / US) * 1000000 /
			      ((int64_t)(len / p) * h->q) - 1000000;
}

void print_period(struct hog *h, uint64_t from)
{
	uint64_t to = from + h->p * US;
	int i, n = 0;

	printf("     in period %llu:", (unsigned long long)((from - h->t0) / (h->p * US)));
	for (i = 0; i < h->nr_runs && h->runs[i].from < to && n < 20; i++) {
		if (h->runs[i].to < from)
			continue;
		printf(" %.3f-%.3f", ((double)h->runs[i].from - from) / US,
		       ((double)h->runs[i].to - from) / US);
		n++;
	}
	printf("\n");
}

/*
 * All hogs at once, for @len_ns from a common start. The length is a multiple
 * of every period, so that whole periods are compared.
 */
void run_hogs(int n, uint64_t len_ns)
{
	uint64_t start = now_ns(CLOCK_MONOTONIC) + 20 * MS;
	int i;

	for (i = 0; i < n; i++) {
		hogs[i].nr_runs = 0;
		hogs[i].err = 0;
		hogs[i].cpu_ns = 0;
		if (!fork())
			hog_main(&hogs[i], start, start + len_ns);
	}
	while (wait(NULL) > 0)
		;
}
