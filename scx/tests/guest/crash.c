// SPDX-License-Identifier: GPL-2.0-only
/*
 * The daemon is killed, or the kernel ends the scheduler: fair scheduling goes on at
 * once, and the daemon that starts again restores the reservation.
 */
#include "guest.h"

#define LENGTH (1800 * MS)
#define WHEN (300 * MS)
#define FAIR (700 * MS)		/* until the daemon starts again */
#define SLICE (20 * MS)

static void kill_daemon(void)
{
	kill(daemon_pid, SIGKILL);
}

static void eject(void)
{
	int err = put("/proc/sysrq-trigger", "S");

	check(!err, "SysRq-S: %s", strerror(err));
}

/*
 * Where a period of its server begins, after @t: the server that the new daemon has
 * made goes by its own start, not by the hog's.
 */
static uint64_t next_period(const struct hog *h, uint64_t t)
{
	uint64_t i;

	for (i = 1; i < h->n; i++) {
		if (h->run[i].from > t && h->run[i].from - h->run[i - 1].to > h->p / 2)
			return h->run[i].from;
	}
	return t;
}

static void report(uint64_t from, uint64_t to, uint64_t back)
{
	uint64_t hint, t, got, worst = ~0ULL;
	struct verdict v;
	int i;

	/* Five tasks share the CPU: each moves on in 20 slices' time. */
	for (i = 0; i < 5; i++) {
		hint = 0;
		for (t = from; t + SLICE <= to; t += SLICE) {
			got = service(&hogs[i], t, t + SLICE, &hint);
			if (got < worst)
				worst = got;
		}
	}
	check(worst > 0, "fair scheduling: least of a task in 20 ms %.1f us", worst / 1e3);
	v = judge(&hogs[0], next_period(&hogs[0], back), hogs[0].t0 + LENGTH);
	check(v.periods && !v.shorts, "after the restart: periods %d short %d min %.1f", v.periods,
	      v.shorts, v.min / 1e3);
}

static void break_it(void (*how)(void), int code)
{
	struct hog *h = new_hog(0, "a");
	uint64_t t0, broken, ended, disabled, back;
	int got;

	make_group("a");
	check(start_daemon(), "the scheduler is loaded");
	reserve("a", 3000, 10000, "0");
	h->q = 3 * MS;
	h->p = 10 * MS;
	t0 = now_ns() + 60 * MS;
	start_hogs(add_beside(1, "oooo"), t0, LENGTH);
	set_fifo(99);
	sleep_until(t0 + WHEN);
	broken = now_ns();
	how();
	while (!scheduler_is("disabled") && now_ns() < broken + SEC)
		usleep(100);
	disabled = now_ns();
	check(scheduler_is("disabled"), "the scheduler is gone after %.1f ms",
	      (disabled - broken) / 1e6);
	got = wait_daemon();
	ended = now_ns() - broken;
	check(got == code && ended < 200 * MS, "the daemon ended with %d after %.1f ms", got,
	      ended / 1e6);
	sleep_until(t0 + FAIR);
	back = now_ns();
	check(start_daemon(), "it starts again");
	printf("---- ready %.1f ms after its start\n", (now_ns() - back) / 1e6);
	back = now_ns();
	set_fifo(0);
	reap_hogs(5);
	check(value_of(ask_first("status"), "reservations") == 1, "the reservation is restored");
	report(disabled, t0 + FAIR, back + 20 * MS);
	check(stop_daemon() == 0, "the daemon stops");
}

void test_kill(const char *arg)
{
	(void)arg;
	break_it(kill_daemon, 256 + SIGKILL);
}

void test_eject(const char *arg)
{
	(void)arg;
	break_it(eject, 75);
}
