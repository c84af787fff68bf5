// SPDX-License-Identifier: GPL-2.0-only
/*
 * Supply on one CPU: what the hogs of reservations get, period by period, beside
 * ordinary hogs (o) and a FIFO task (f) that takes 0.1 of each ms. The control is
 * the same with the kernel's own fair scheduler, cpu.max and the greatest weight.
 */
#include "guest.h"

#define MAX_SET 5		/* on one CPU */
#define CEILING 950000		/* ppm */
#define FIFO 110000		/* what the FIFO task and its switches take */

struct size {
	uint64_t q, p;		/* us */
	uint64_t offset;	/* ns */
	int cpu;
};

static const struct size sizes[] = {
	{ 3000, 10000, 0, 0 }, { 1400, 2000, 0, 0 }, { 700, 1000, 0, 0 }, { 100, 500, 0, 0 },
	{ 40000, 100000, 0, 0 },
};

/* Sets that fill the CPU in other ways. */
static const struct size more[][2] = {
	{ { 4000, 10000, 0, 0 }, { 5000, 10000, 0, 0 } },
	{ { 400, 1000, 0, 0 }, { 490, 1000, 0, 0 } },
};

/* Of four CPUs, where a switch takes four times as long. */
static const struct size wide[] = {
	{ 3000, 10000, 0, 0 }, { 5500, 10000, 0, 0 }, { 700, 1000, 0, 1 }, { 1500, 2000, 0, 2 },
	{ 40000, 100000, 0, 3 }, { 5000, 10000, 0, 3 },
};

static const char *beside;
static bool judged;
static int nr_sets, nr_periods, nr_shorts, nr_overs, nr_members, nr_broken;
static uint64_t worst_ppm = 1000000;

static uint64_t ppm(const struct size *s)
{
	return ((s->q + 2 * switch_us) * 1000000 + s->p - 1) / s->p;
}

static bool fits(const struct size *set, int n)
{
	uint64_t sum = strchr(beside, 'f') ? FIFO : 0;

	while (n--)
		sum += ppm(&set[n]);
	return sum <= CEILING;
}

/*
 * With a FIFO task above it, what a CPU has left is not the same in each interval:
 * whether the demand of the reservations fits into all that begin together.
 */
static bool fits_beside_fifo(const struct size *set, int n, uint64_t len_us)
{
	uint64_t t, need;
	int i, j;

	if (!strchr(beside, 'f'))
		return true;
	for (i = 0; i < n; i++) {
		for (t = set[i].p; t <= len_us; t += set[i].p) {
			need = (t + 999) / 1000 * 116 + 116;
			for (j = 0; j < n; j++)
				need += t / set[j].p * (set[j].q + 2 * switch_us);
			if (need > t)
				return false;
		}
	}
	return true;
}

static bool set_up(const char *group, const struct size *s)
{
	make_group(group);
	if (judged)
		return reserve(group, s->q, s->p, (char[]){ '0' + s->cpu, 0 });
	put(cg(group, "cpu.weight"), "10000");
	/* It refuses quotas below 1 ms: that group has its weight only. */
	put(cg(group, "cpu.max"), "%llu %llu", (unsigned long long)s->q,
	    (unsigned long long)s->p);
	return true;
}

static bool report(const struct hog *h, uint64_t end)
{
	struct verdict v = judge(h, h->t0, end);
	bool ok = !v.shorts && !v.overs && v.periods;
	uint64_t least = h->q ? v.min * 1000000 / h->q : 0;

	printf("%s %s %d %s %llu %llu beside %s periods %d short %d over %d min %.1f max %.1f mean %.1f gap %.1f tolerance %.1f\n",
	       !judged ? "----" : ok ? "ok  " : "FAIL", judged ? "rsv" : "fair", nr_sets, h->group,
	       h->q / US, h->p / US, beside, v.periods, v.shorts, v.overs, v.min / 1e3, v.max / 1e3,
	       v.mean / 1e3, v.gap / 1e3, tolerance(h) / 1e3);
	nr_members++;
	nr_periods += v.periods;
	nr_shorts += v.shorts;
	nr_overs += v.overs;
	nr_broken += v.shorts > 0;
	if (least < worst_ppm)
		worst_ppm = least;
	failures += judged && !ok;
	return ok;
}

static void one_set(const struct size *set, int n, uint64_t len)
{
	bool fifo = strchr(beside, 'f');
	uint64_t t0;
	int i, all;

	for (i = 0; i < n; i++) {
		char group[] = { 'g', 'a' + i, 0 };
		struct hog *h = new_hog(i, group);

		h->q = set[i].q * US;
		h->p = set[i].p * US;
		h->offset = set[i].offset;
		h->cuts = fifo ? h->p / MS + 2 : 0;
		if (!set_up(group, &set[i]))
			goto out;
	}
	all = add_beside(n, beside);
	t0 = now_ns() + LEAD;
	start_hogs(all, t0, len);
	reap_hogs(all);
	for (i = 0; i < n; i++) {
		bool ok = report(&hogs[i], t0 + len);

		if (judged && !ok)
			printf("---- %s\n", ask_first("stat /%s", hogs[i].group));
	}
	nr_sets++;
out:
	for (i = 0; i < n; i++) {
		if (judged)
			unreserve(hogs[i].group);
		remove_group(hogs[i].group);
	}
}

static void all_sets(struct size *set, int n, unsigned int from)
{
	unsigned int i;

	if (n && fits_beside_fifo(set, n, 400000))
		one_set(set, n, set[n - 1].p == 100000 ? 600 * MS : 300 * MS);
	for (i = from; n < 3 && i < ARRAY(sizes); i++) {
		set[n] = sizes[i];
		if (fits(set, n + 1))
			all_sets(set, n + 1, i);
	}
}

static void sum_up(const char *name)
{
	check(nr_sets && (!judged || !failures),
	      "SUM %s %s: sets %d reservations %d periods %d short %d over %d broken %d worst %.4f of Q",
	      name, beside, nr_sets, nr_members, nr_periods, nr_shorts, nr_overs, nr_broken,
	      worst_ppm / 1e6);
}

static void supply(void)
{
	struct size set[MAX_SET];
	unsigned int i;

	all_sets(set, 0, 0);
	for (i = 0; i < ARRAY(more); i++) {
		if (fits(more[i], 2) && fits_beside_fifo(more[i], 2, 400000))
			one_set(more[i], 2, 300 * MS);
	}
}

void test_supply(const char *arg)
{
	beside = arg;
	judged = true;
	check(start_daemon(), "the scheduler is loaded");
	supply();
	check(scheduler_is("enabled"), "the scheduler is still there");
	printf("---- %s\n", ask_first("status"));
	check(stop_daemon() == 0, "the daemon stops");
	sum_up("supply");
}

void supply_wide(const char *tasks)
{
	beside = tasks;
	judged = true;
	one_set(wide, ARRAY(wide), 600 * MS);
	sum_up("wide");
}

void test_control(const char *arg)
{
	beside = arg;
	supply();
	/* If this kept what it cannot promise, the measure would measure nothing. */
	check(nr_shorts > 0, "the control falls short");
	sum_up("control");
}

/*
 * Another kernel: whether it is told from one that can run the scheduler, and what
 * the first sets get if it is.
 */
void test_kernel(const char *arg)
{
	bool usable = !strcmp(arg, "usable");
	int code = run_daemon("--check");

	check(code == (usable ? 0 : 69), "--check says %d on a kernel that is %s", code, arg);
	if (!usable) {
		code = run_daemon("");
		check(code == 69, "the daemon ends with %d", code);
		return;
	}
	beside = "oooo";
	judged = true;
	check(start_daemon(), "the scheduler is loaded");
	one_set(&sizes[0], 1, 300 * MS);
	one_set(&sizes[2], 1, 300 * MS);
	one_set(more[0], 2, 300 * MS);
	one_set(more[1], 2, 300 * MS);
	check(scheduler_is("enabled"), "the scheduler is still there");
	check(stop_daemon() == 0, "the daemon stops");
	sum_up("kernel");
}

/* @base to the power of @exponent, from 0 to 1; there is no libm here. */
static double power(double base, double exponent)
{
	double result = exponent >= 1 ? base : 1, root = base;
	int bit, i;

	for (bit = 0; exponent < 1 && bit < 40; bit++) {
		double x = root > 1 ? root : 1;

		for (i = 0; i < 30; i++)
			x = (x + root / x) / 2;
		root = x;
		exponent *= 2;
		if (exponent >= 1) {
			result *= root;
			exponent -= 1;
		}
	}
	return result;
}

static double uniform(void)
{
	return (random_below(1ULL << 53) + 1) / (double)(1ULL << 53);
}

/* UUniFast; again if a runtime is too short. Periods are log-uniform, 1 to 100 ms. */
static int draw(struct size *set, int cpu, int most)
{
	int n, i;
	bool again;

	do {
		double left = 0.95 * (0.3 + 0.7 * uniform());

		if (strchr(beside, 'f'))
			left *= 0.85;
		again = false;
		n = 1 + random_below(most);
		for (i = 0; i < n; i++) {
			double rest = i + 1 < n ? left * power(uniform(), 1.0 / (n - i - 1)) : 0;

			set[i].p = 1000 * power(100, uniform());
			set[i].q = (left - rest) * set[i].p;
			set[i].offset = random_below(set[i].p * US);
			set[i].cpu = cpu;
			again |= set[i].q < 100 || ppm(&set[i]) < 5000;
			left = rest;
		}
		again |= !fits(set, n) || !fits_beside_fifo(set, n, 700000);
	} while (again);
	return n;
}

/* @arg: seed, number of sets, beside: "1:20:oooo". */
static void random_sets(const char *arg)
{
	struct size set[MAX_HOGS];
	unsigned long seed, count;
	int most = nr_cpus > 1 ? 3 : MAX_SET, cpu;
	char *rest;

	seed = strtoul(arg, &rest, 10);
	count = strtoul(rest + 1, &rest, 10);
	beside = rest + 1;
	random_seed(seed);
	while (count--) {
		int n = 0;

		for (cpu = 0; cpu < nr_cpus; cpu++)
			n += draw(set + n, cpu, most);
		one_set(set, n, 700 * MS);
	}
}

void test_random(const char *arg)
{
	judged = true;
	check(start_daemon(), "the scheduler is loaded");
	random_sets(arg);
	check(scheduler_is("enabled"), "the scheduler is still there");
	printf("---- %s\n", ask_first("status"));
	check(stop_daemon() == 0, "the daemon stops");
	sum_up("random");
}

void test_random_control(const char *arg)
{
	random_sets(arg);
	check(nr_shorts > 0, "the control falls short");
	sum_up("random control");
}
