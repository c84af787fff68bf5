// SPDX-License-Identifier: Apache-2.0
/* Supply: what the hogs of reservations get, period by period. */
#include "guest.h"

struct supply_case {
	const char *beside;	/* f: FIFO-99 hog, c: CFS hog, d: deadline task */
	bool same_prio;
	int n;
	struct { int q, p; } g[3];
};

static const struct supply_case supply_cases[] = {
	{ "", 1, 1, { { 3000, 10000 } } },
	{ "", 1, 1, { { 1400, 2000 } } },
	{ "", 1, 1, { { 700, 1000 } } },
	{ "", 1, 1, { { 100, 500 } } },
	{ "", 1, 1, { { 40000, 100000 } } },
	{ "fc", 1, 1, { { 3000, 10000 } } },
	{ "fc", 1, 1, { { 1400, 2000 } } },
	{ "fc", 1, 1, { { 700, 1000 } } },
	{ "fc", 1, 1, { { 100, 500 } } },
	{ "fc", 1, 1, { { 40000, 100000 } } },
	{ "c", 1, 2, { { 4000, 10000 }, { 5000, 10000 } } },
	{ "fc", 0, 2, { { 4000, 10000 }, { 5000, 10000 } } },
	{ "fc", 1, 2, { { 400, 1000 }, { 500, 1000 } } },
	{ "fc", 0, 2, { { 3000, 10000 }, { 40000, 100000 } } },
	{ "fc", 0, 2, { { 1400, 2000 }, { 100, 500 } } },
	{ "fc", 0, 2, { { 40000, 100000 }, { 100, 500 } } },
	{ "fc", 1, 3, { { 3000, 10000 }, { 3000, 10000 }, { 3000, 10000 } } },
	{ "fc", 0, 3, { { 3000, 10000 }, { 100, 500 }, { 40000, 100000 } } },
	{ "d", 1, 1, { { 3000, 10000 } } },
	{ "dfc", 0, 2, { { 1400, 2000 }, { 100, 500 } } },
	{ "dfc", 0, 2, { { 3000, 10000 }, { 40000, 100000 } } },
};

static void supply(bool judged)
{
	static const int prios[] = { 10, 50, 90 };
	struct verdict v;
	unsigned int i;
	int j, n;

	printf("case group Q P beside periods min max short over gap acct_ppm\n");
	for (i = 0; i < ARRAY(supply_cases); i++) {
		const struct supply_case *c = &supply_cases[i];
		uint64_t len = 400 * MS;
		const char *b;
		char name[16];

		for (n = 0; n < c->n; n++) {
			struct hog *h = &hogs[n];

			snprintf(name, sizeof(name), "g%d", n);
			make_group(name);
			h->err = reserve(name, c->g[n].q, c->g[n].p);
			if (h->err) {
				check(!judged, "case %u group %d: %s", i, n, strerror(h->err));
				break;
			}
			h->group = n == 0 ? "g0" : n == 1 ? "g1" : "g2";
			h->policy = SCHED_FIFO;
			h->prio = prios[c->same_prio ? 0 : n];
			h->q = c->g[n].q;
			h->p = c->g[n].p;
			if (h->p == 100000)
				len = 1000 * MS;
		}
		if (n == c->n) {
			for (b = c->beside; *b; b++, n++) {
				struct hog *h = &hogs[n];

				h->group = NULL;
				h->policy = *b == 'f' ? SCHED_FIFO : *b == 'c' ? SCHED_OTHER : DEADLINE;
				h->prio = 99;
				h->q = 1000;
				h->p = 20000;
			}
			run_hogs(n, len);
			for (j = 0; j < n; j++) {
				struct hog *h = &hogs[j];

				if (!h->group && h->policy != DEADLINE)
					continue;
				if (h->err || !h->nr_runs) {
					check(!judged, "case %u hog %d: err %d, ran %d times",
					      i, j, h->err, h->nr_runs);
					continue;
				}
				judge(h, len, &v);
				if (!v.periods)
					v.min = 0;
				uint64_t gap = 2ULL * (h->p - h->q) * US + 15 * US;
				bool ok = v.periods && !v.shorts && v.gap <= gap &&
					  v.acct_ppm < 1000 && v.acct_ppm > -1000;

				printf("%s %2u %s %5d %6d %-4s %4d %llu.%03llu %llu.%03llu %d %d %llu %lld\n",
				       !judged ? "----" : ok || h->policy == DEADLINE ? "ok  " : "FAIL",
				       i, h->group ?: "dl", h->q, h->p, c->beside,
				       v.periods, v.min / US, v.min % US, v.max / US, v.max % US,
				       v.shorts, v.overs, v.gap / US, (long long)v.acct_ppm);
				failures += judged && !ok && h->policy != DEADLINE;
			}
		}
		for (n = 0; n < c->n; n++) {
			snprintf(name, sizeof(name), "g%d", n);
			remove_group(name);
		}
		usleep(20000);
	}
}

void test_supply(__attribute__((unused)) const char *arg)
{
	supply(true);
}

/* The same on a kernel that promises nothing. */
void test_control(__attribute__((unused)) const char *arg)
{
	supply(false);
}
