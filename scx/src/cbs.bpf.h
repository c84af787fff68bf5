/* SPDX-License-Identifier: GPL-2.0-only */
/* The rules of a constant bandwidth server. tests/test_cbs.c has them, too. */
#ifndef CBS_BPF_H
#define CBS_BPF_H

/*
 * Go by another rate. What is given now would be a second budget in one period:
 * more comes with the next deadline. Less takes effect at once, since others may
 * have been given the difference.
 */
static void adopt(struct server *s, u64 rate, u64 now)
{
	u64 runtime = RATE_RUNTIME(rate), period = RATE_PERIOD(rate);

	if (!s->rate) {
		s->budget = runtime;
		s->deadline = now + period;
		s->throttled = 0;
	} else if (time_before(now, s->deadline)) {
		u64 left = s->deadline - now;

		if (left > period) {
			left = period;
			s->deadline = now + period;
		}
		/* In us: runtimes of seconds have to fit. */
		left = (left / 1000) * (runtime / 1000) / (period / 1000) * 1000;
		if (s->budget > (s64)left)
			s->budget = left;
	}
	s->rate = rate;
	s->late = 0;
}

static void replenish(struct server *s, u64 rate, u64 now)
{
	u64 n;

	if (s->rate != rate)
		adopt(s, rate, now);
	if (!s->throttled || time_before(now, s->deadline))
		return;
	/* More than one if nobody looked, or if what ran could not be stopped, which is owed. */
	n = (now - s->deadline) / RATE_PERIOD(rate) + 1;
	s->periods++;
	s->throttled_ns += now - s->throttled_at;
	s->throttled_at = now;
	s->late = 0;
	s->budget += n * RATE_RUNTIME(rate);
	s->deadline = n > 1 ? now + RATE_PERIOD(rate) : s->deadline + RATE_PERIOD(rate);
	if (s->budget > (s64)RATE_RUNTIME(rate))
		s->budget = RATE_RUNTIME(rate);
	s->throttled = s->budget <= 0;
}

/* A server that has had no task gets one: the rule of the constant bandwidth server. */
static void activate(struct server *s, u64 rate, u64 now)
{
	u64 runtime = RATE_RUNTIME(rate), period = RATE_PERIOD(rate);

	replenish(s, rate, now);
	if (s->throttled)
		return;
	if (time_before(now, s->deadline)) {
		u64 left = s->deadline - now;

		/* Exact, or a task would be given a budget that it has not slept for. */
		if (s->budget <= 0 || (u64)s->budget * period <= left * runtime)
			return;
	}
	s->deadline = now + period;
	s->budget = runtime;
	s->periods++;
	s->late = 0;
}

#endif
