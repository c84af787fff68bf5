// SPDX-License-Identifier: Apache-2.0
/*
 * Supply: what the hogs of reservations get, period by period. All sets of one
 * to three of the sizes that a CPU can hold, with the same and with different
 * priorities, beside what is in the root group: FIFO-99 hogs (f), fair hogs (c)
 * and deadline tasks (d).
 */
#include "guest.h"

#define MAX_SET 3
#define CEILING 950000	/* ppm */

struct size {
	int q, p;	/* us */
};

static const struct size sizes[] = {
	{ 3000, 10000 }, { 1400, 2000 }, { 700, 1000 }, { 100, 500 }, { 40000, 100000 },
};

static const struct size deadlines[] = { { 1000, 20000 }, { 2500, 50000 } };

/* Sets that fill the CPU in other ways. */
static const struct size more[][2] = {
	{ { 4000, 10000 }, { 5000, 10000 } },
	{ { 400, 1000 }, { 500, 1000 } },
	{ { 3500, 10000 }, { 6000, 10000 } },	/* the ceiling itself */
};

static const char * const besides[] = { "", "fc", "dfc", "f", "c", "d", "ddfc" };

static const char * const groups[MAX_SET] = { "g0", "g1", "g2" };

static bool judged, brief;
static unsigned int nr_cases, nr_variants;

static int ppm(struct size s)
{
	return (int64_t)s.q * 1000000 / s.p;
}

/* Each budget of another that a period meets may interrupt it once. */
static int interruptions(int which, int n)
{
	int i, sum = 0;

	for (i = 0; i < n; i++) {
		if (i != which && (hogs[i].group || hogs[i].policy == DEADLINE))
			sum += hogs[which].p / hogs[i].p + 1;
	}
	return sum;
}

static void one_case(const struct size *set, int n_set, bool same_prio, const char *beside)
{
	static const int prios[MAX_SET] = { 10, 50, 90 };
	uint64_t len = 400 * MS;
	unsigned int nr = nr_cases++;
	struct verdict v;
	const char *b;
	int j, n, deadline = 0, err = 0;

	for (n = 0; n < n_set; n++) {
		make_group(groups[n]);
		err = reserve(groups[n], set[n].q, set[n].p);
		if (err) {
			/* The control may: its admission knows no CPUs. */
			printf("%s %3u %s refused: %s\n", judged ? "FAIL" : "----", nr,
			       groups[n], strerror(err));
			failures += judged;
			goto out;
		}
		hogs[n] = (struct hog){
			.group = groups[n], .policy = SCHED_FIFO,
			.prio = prios[same_prio ? 0 : n], .q = set[n].q, .p = set[n].p,
		};
		if (set[n].p == 100000)
			len = 1000 * MS;
	}
	for (b = beside; *b; b++, n++) {
		hogs[n] = (struct hog){
			.policy = *b == 'f' ? SCHED_FIFO : *b == 'c' ? SCHED_OTHER : DEADLINE,
			.prio = *b == 'f' ? 99 : 0, .q = 1, .p = 1000,
		};
		if (*b == 'd') {
			hogs[n].q = deadlines[deadline].q;
			hogs[n].p = deadlines[deadline++].p;
		}
	}
	for (j = 0; j < n; j++) {
		hogs[j].interruptions = interruptions(j, n);
		/* It preempts once in a period, since it never sleeps. */
		hogs[j].paid_ns = hogs[j].group ? switch_cost() : 0;
	}
	run_hogs(n, len);
	for (j = 0; j < n; j++) {
		struct hog *h = &hogs[j];
		bool ok;

		if (h->err || !h->nr_runs) {
			printf("%s %3u %s did not run: %s\n", judged ? "FAIL" : "----", nr,
			       h->group ?: "root", strerror(h->err));
			failures += judged;
			continue;
		}
		if (!h->group && h->policy != DEADLINE)
			continue;
		judge(h, len, &v);
		ok = kept(h->q, h->p, (h->interruptions + 1) * h->paid_ns, &v);
		printf("%s ", !judged ? "----" : ok ? "ok  " : "FAIL");
		printf("%3u %s %5d %6d %2d %-4s %4d %llu.%03llu %llu.%03llu %d %d %llu %lld %s\n",
		       nr, h->group ?: "dl", h->q, h->p, h->prio, *beside ? beside : "-",
		       v.periods, (unsigned long long)v.min / US, (unsigned long long)v.min % US,
		       (unsigned long long)v.max / US, (unsigned long long)v.max % US,
		       v.shorts, v.overs, (unsigned long long)v.gap / US, (long long)v.acct_ppm,
		       ok ? "kept" : "broken");
		failures += judged && !ok;
		if (judged && !ok)
			print_period(h, v.shortest);
	}
out:
	for (n = 0; n < n_set; n++)
		remove_group(groups[n]);
	usleep(20000);
}

static bool fits(const struct size *set, int n, const char *beside)
{
	int sum = 0, d = 0;

	while (n)
		sum += ppm(set[--n]);
	for (; *beside; beside++) {
		if (*beside == 'd')
			sum += ppm(deadlines[d++]);
	}
	return sum <= CEILING;
}

/* A set with everything beside it; in the brief test with one thing each. */
static void variant(const struct size *set, int n, bool same_prio)
{
	unsigned int i, turn = nr_variants++ % ARRAY(besides);

	for (i = 0; i < ARRAY(besides); i++) {
		if ((!brief || i == turn) && fits(set, n, besides[i]))
			one_case(set, n, same_prio, besides[i]);
	}
	if (brief && !fits(set, n, besides[turn]))
		one_case(set, n, same_prio, "fc");
}

static void all_sets(struct size *set, int n, unsigned int from)
{
	unsigned int i;

	if (n) {
		variant(set, n, true);
		if (n > 1)
			variant(set, n, false);
	}
	for (i = from; n < MAX_SET && i < ARRAY(sizes); i++) {
		set[n] = sizes[i];
		if (fits(set, n + 1, ""))
			all_sets(set, n + 1, i);
	}
}

static void supply(const char *arg)
{
	struct size set[MAX_SET];
	unsigned int i;

	brief = !strcmp(arg, "brief");
	printf("case group Q P prio beside periods min max short over gap acct_ppm promise\n");
	all_sets(set, 0, 0);
	for (i = 0; i < ARRAY(more); i++) {
		variant(more[i], 2, true);
		variant(more[i], 2, false);
	}
	printf("%u cases\n", nr_cases);
}

void test_supply(const char *arg)
{
	int cost = switch_cost();

	/* About what one costs here (bounds.c): the kernel has measured it. */
	check(cost > 2000 && cost < 9000, "switch cost %d ns", cost);
	judged = true;
	supply(arg);
}

/* The same on a kernel that promises nothing. */
void test_control(const char *arg)
{
	supply(arg);
}
