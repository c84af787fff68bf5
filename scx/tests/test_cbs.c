// SPDX-License-Identifier: GPL-2.0-only
/* Whatever tasks do, a server does not run for more than its bandwidth and one budget. */
#include <linux/types.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include "rsv.h"

typedef __u64 u64;
typedef __s64 s64;

static bool time_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

#include "cbs.bpf.h"

#define LENGTH 1000000000ULL
#define START 5000000000ULL

/* Tasks that stop and go on each @step ns, or so, and sleep for up to @nap in each @each steps. */
static void dodge(u64 rate, u64 step, u64 nap, int each)
{
	struct server s = { 0 };
	u64 now = START, ran = 0, most;
	int n;

	srandom(1);
	for (n = 1; now < START + LENGTH; n++) {
		u64 x = step + random() % 64;

		activate(&s, rate, now);
		if (s.throttled) {
			now = s.deadline;
			continue;
		}
		now += x;
		ran += x;
		s.budget -= x;
		if (s.budget <= 0) {
			s.throttled = 1;
			s.throttled_at = now;
		} else if (nap && n % each == 0) {
			now += random() % nap;
		}
	}
	most = (LENGTH / RATE_PERIOD(rate) + 2) * RATE_RUNTIME(rate);
	if (ran > most) {
		printf("%llu of %llu us, steps of %llu ns, naps of %llu: %.3f of a CPU\n",
		       rate >> 32, rate & 0xffffffff, step, nap, (double)ran / LENGTH);
		exit(1);
	}
}

/* What could not be stopped for @late ns is owed, however many periods it takes. */
static void overrun(u64 rate, u64 late)
{
	struct server s = { 0 };
	u64 now = START, ran = 0, most;

	while (now < START + LENGTH) {
		activate(&s, rate, now);
		if (s.throttled) {
			now = s.deadline;
			continue;
		}
		ran += s.budget + late;
		now += s.budget + late;
		s.budget = -(s64)late;
		s.throttled = 1;
		s.throttled_at = now;
	}
	most = (LENGTH / RATE_PERIOD(rate) + 2) * RATE_RUNTIME(rate) + late;
	if (ran > most) {
		printf("%llu of %llu us, %llu ns late: %.3f of a CPU\n", rate >> 32,
		       rate & 0xffffffff, late, (double)ran / LENGTH);
		exit(1);
	}
}

int main(void)
{
	static const unsigned int q[] = { 3000, 9000, 50000, 25000, 50, 950000, 16115 };
	static const unsigned int p[] = { 10000, 10000, 100000, 100000, 200, 1000000, 17024 };
	unsigned int i;
	u64 step;

	for (i = 0; i < sizeof(q) / sizeof(*q); i++) {
		u64 rate = RATE(q[i] + 6, p[i]);

		for (step = 200; step < 20000; step += step / 3) {
			dodge(rate, step, 0, 1);
			dodge(rate, step, 40000, 1);
			dodge(rate, step, 40000, 50);
		}
		for (step = 100000; step < 5000000; step += step / 2)
			overrun(rate, step);
	}
	printf("servers: no more than their bandwidth\n");
	return 0;
}
