// SPDX-License-Identifier: GPL-2.0-only
/* What cpu.max leaves to tasks without reservation, here and under EEVDF. */
#include "guest.h"

#define LENGTH (2 * SEC)	/* and so a period more or less is 0.01 */
#define PERIOD (100 * MS)

static struct {
	uint64_t seen, resumed;
} *watched;

static void limit(const char *group, int quota_us, int period_us)
{
	int err = quota_us ? put(cg(group, "cpu.max"), "%d %d", quota_us, period_us) :
			     put(cg(group, "cpu.max"), "max");

	if (err)
		check(false, "cpu.max of %s: %s", group, strerror(err));
}

static double sum_of(int from, int to)
{
	double sum = 0;

	for (; from < to; from++)
		sum += hogs[from].cpu_ns;
	return sum / LENGTH;
}

static void run_hogs(int n)
{
	start_hogs(n, now_ns() + 50 * MS, LENGTH);
	reap_hogs(n);
}

/* One task: its share, and the least and most in a period, in ms. */
static void alone(double *out)
{
	struct hog *h = new_hog(0, "s/a");
	struct verdict v;

	h->cpu = 1;
	h->q = 20 * MS;
	h->p = PERIOD;
	run_hogs(1);
	v = judge(h, h->t0 + PERIOD, h->t0 + LENGTH);
	out[0] = sum_of(0, 1);
	out[1] = v.min / 1e6;
	out[2] = v.max / 1e6;
}

/* Four tasks of a group on all CPUs, that sleep if @off, and one of the root beside them. */
static void four(uint64_t off, double *share, double *other)
{
	int i;

	for (i = 0; i < 4; i++) {
		struct hog *h = new_hog(i, "s/a");

		h->on = off ? 2 * MS : 0;
		h->off = off;
	}
	new_hog(4, "")->cpu = 1;
	run_hogs(other ? 5 : 4);
	*share = sum_of(0, 4);
	if (other)
		*other = sum_of(4, 5);
}

/* Half a CPU for two groups, of which one has no limit of its own: both, and the other. */
static void nested(double *both, double *inner)
{
	limit("s", 50000, 100000);
	new_hog(0, "s/a");
	new_hog(1, "s/b");
	new_hog(2, "s/b");
	run_hogs(3);
	limit("s", 0, 0);
	*both = sum_of(0, 3);
	*inner = sum_of(0, 1);
}

/* A limit that comes while the task runs, and goes. */
static void changed(double *out)
{
	struct hog *h = new_hog(0, "s/b");
	uint64_t t0 = now_ns() + 50 * MS, hint = 0;
	int i;

	h->cpu = 1;
	start_hogs(1, t0, 1500 * MS);
	for (i = 1; i < 3; i++) {
		sleep_until(t0 + i * 500 * MS);
		limit("s/b", i == 1 ? 20000 : 0, 100000);
	}
	reap_hogs(1);
	for (i = 0; i < 3; i++) {
		uint64_t from = t0 + i * 500 * MS + 10 * MS;

		out[i] = service(h, from, from + 400 * MS, &hint) / 4e8;
	}
}

/* After three periods without use, and with 20 ms of burst: its time in 80 ms of one period. */
static void burst(double *ms)
{
	struct hog *h = new_hog(0, "s/a");
	uint64_t t0, hint = 0;

	/* Which begins a period. */
	if (put(cg("s/a", "cpu.max.burst"), "20000"))
		check(false, "cpu.max.burst");
	t0 = now_ns() + 410 * MS;
	h->cpu = 1;
	start_hogs(1, t0, 100 * MS);
	reap_hogs(1);
	*ms = service(h, t0, t0 + 80 * MS, &hint) / 1e6;
	put(cg("s/a", "cpu.max.burst"), "0");
}

static void watched_main(const char *group)
{
	uint64_t t;

	if (enter(group) || pin(0))
		_exit(1);
	for (;;) {
		t = now_ns();
		if (t - watched->seen > 5 * MS)
			watched->resumed = t;
		watched->seen = t;
	}
}

/* A task that has to wait for most of a second is moved away, or killed: the ms it takes. */
static void freed(double *moved, double *killed)
{
	uint64_t t;
	pid_t pid;
	int i;

	limit("s/b", 1000, 1000000);
	for (i = 0; i < 2; i++) {
		watched->seen = now_ns();
		pid = fork_flushed();
		if (!pid)
			watched_main("s/b");
		usleep(300000);
		t = now_ns();
		if (i) {
			end(pid);
			remove_group("s/b");
			*killed = (now_ns() - t) / 1e6;
			break;
		}
		put(cg("", "cgroup.procs"), "%d", pid);
		usleep(20000);
		*moved = watched->resumed > t ? (watched->resumed - t) / 1e6 : 1000;
		end(pid);
	}
	make_group("s/b");
}

static void toggle_cpu(double *share)
{
	int i;

	for (i = 0; i < 4; i++)
		new_hog(i, "s/a");
	start_hogs(4, now_ns() + 50 * MS, LENGTH);
	for (i = 0; i < 6; i++) {
		usleep(130000);
		if (put("/sys/devices/system/cpu/cpu1/online", "%d", i % 2))
			check(false, "CPU 1 goes on- or offline");
	}
	reap_hogs(4);
	*share = sum_of(0, 4);
}

#define MEASURES 15

static const struct {
	const char *name;
	double least, most;
} measures[MEASURES] = {
	{ "share of a task with 20/100 ms", 0.19, 0.215 },
	{ "least of it in 100 ms, ms", 19, 20.5 },
	{ "most of it in 100 ms, ms", 19.5, 21 },
	{ "share of four with 20/100 ms", 0.19, 0.215 },
	{ "share of four that sleep, with 20/100 ms", 0.19, 0.215 },
	{ "share of one beside four with 20/100 ms", 0.77, 1 },
	{ "share of two groups with 50/100 ms", 0.48, 0.53 },
	{ "that of one in it with 20/100 ms", 0.13, 0.215 },
	{ "share without limit", 0.98, 1 },
	{ "after 20/100 ms was set", 0.19, 0.21 },
	{ "after it was taken away", 0.98, 1 },
	{ "a task that waits is moved away, ms", 0, 20 },
	{ "a group that waits is killed, ms", 0, 1000 },
	{ "share of four while a CPU goes and comes", 0, 0.22 },
	{ "most in a period with 20 ms of burst, ms", 38, 41 },
};

static void measure(double *out, bool two)
{
	limit("s/a", 20000, 100000);
	alone(&out[0]);
	four(0, &out[3], NULL);
	/* Two CPUs count the time of the virtual clock twice on the way in and out of idle. */
	four(two ? 0 : MS, &out[4], &out[5]);
	nested(&out[6], &out[7]);
	changed(&out[8]);
	freed(&out[11], &out[12]);
	out[13] = 0;
	if (two)
		toggle_cpu(&out[13]);
	burst(&out[14]);
}

/* A reservation has its runtime beside tasks with limits, and each of these has its own. */
static void beside_reservation(void)
{
	struct hog *h = new_hog(0, "v");
	struct verdict v;
	int i;

	make_group("v");
	reserve("v", 4000, 10000, "0");
	h->cpu = 1;
	h->q = 4 * MS;
	h->p = 10 * MS;
	for (i = 1; i < 5; i++)
		new_hog(i, i < 3 ? "s/a" : "s/b")->cpu = 1;
	limit("s/b", 2000, 10000);
	run_hogs(5);
	v = judge(h, h->t0 + h->p, h->t0 + LENGTH);
	check(!v.shorts && v.periods, "beside limits %d of %d periods of (4, 10) ms are short",
	      v.shorts, v.periods);
	check(sum_of(1, 3) > 0.19 && sum_of(1, 3) < 0.215 && sum_of(3, 5) > 0.17 &&
	      sum_of(3, 5) < 0.215, "beside it 20/100 and 2/10 ms have %.3f and %.3f",
	      sum_of(1, 3), sum_of(3, 5));
	limit("s/b", 0, 0);
	unreserve("v");
}

void test_limits(const char *arg)
{
	double fair[MEASURES], ours[MEASURES];
	int i;

	watched = mmap(NULL, sizeof(*watched), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	check(!make_group("s") && !put(cg("s", "cgroup.subtree_control"), "+cpu") &&
	      !make_group("s/a") && !make_group("s/b"), "two groups");
	sleep_until(3 * SEC);
	measure(fair, *arg);
	check(start_daemon(), "the scheduler is loaded");
	measure(ours, *arg);
	beside_reservation();
	check(scheduler_is("enabled"), "the scheduler is still there");
	printf("---- %s\n", ask_first("status"));
	check(stop_daemon() == 0, "the daemon stops");
	for (i = 0; i < MEASURES; i++) {
		bool ok = ours[i] >= measures[i].least && ours[i] <= measures[i].most;

		printf("%s ORDINARY %-40s EEVDF %12.3f nova_rt %12.3f\n", ok ? "ok  " : "FAIL",
		       measures[i].name, fair[i], ours[i]);
		failures += !ok;
	}
}

/* How often a task has come to a CPU. */
static long runs_of(pid_t pid)
{
	char path[64];
	long runs = 0;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", pid);
	sscanf(get(path), "%*s %*s %ld", &runs);
	return runs;
}

/* Many tasks with 1 ms in each second, for a while beside @hogs: how many have nothing for 25 s. */
static int starved(pid_t *pids, int n, int hogs)
{
	uint64_t t0 = now_ns() + 2 * SEC;
	long was[n], least = 0, runs;
	int i, count = 0;

	limit("s", 1000, 1000000);
	for (i = 0; i < n; i++) {
		pids[i] = fork_flushed();
		if (!pids[i]) {
			sleep_until(t0);
			busy_until(~0ULL);
		}
		/* Who entered by itself would keep the others out while it has to wait. */
		if (pids[i] < 0 || put(cg("s", "cgroup.procs"), "%d", pids[i]))
			check(false, "task %d is there", i);
	}
	sleep_until(t0 + 20 * SEC);
	for (i = 0; i < n; i++)
		was[i] = runs_of(pids[i]);
	run_hogs(hogs);
	sleep_until(t0 + 45 * SEC);
	for (i = 0; i < n; i++) {
		runs = runs_of(pids[i]) - was[i];
		count += !runs;
		if (!i || runs < least)
			least = runs;
	}
	printf("---- cpu.stat %s, %ld runs at least\n", get(cg("s", "cpu.stat")), least);
	put(cg("s", "cgroup.kill"), "1");
	for (i = 0; i < n; i++)
		waitpid(pids[i], NULL, 0);
	limit("s", 0, 0);
	return count;
}

/* The kernel ends a scheduler that lets a task wait for 30 s. */
void test_paupers(const char *arg)
{
	struct hog *h = new_hog(0, "v");
	int n = atoi(arg), count;
	struct verdict v;
	pid_t pids[n];

	check(!make_group("s"), "a group");
	printf("---- EEVDF: %d of %d tasks had nothing\n", starved(pids, n, 0), n);
	check(start_daemon(), "the scheduler is loaded");
	make_group("v");
	reserve("v", 4000, 10000, "0");
	h->cpu = 1;
	h->q = 4 * MS;
	h->p = 10 * MS;
	count = starved(pids, n, 1);
	v = judge(h, h->t0 + h->p, h->t0 + LENGTH);
	check(!v.shorts && v.periods, "beside them %d of %d periods of (4, 10) ms are short, least %llu us",
	      v.shorts, v.periods, (unsigned long long)v.min / 1000);
	check(!count, "%d of %d tasks had nothing", count, n);
	check(scheduler_is("enabled"), "the scheduler is still there");
	check(!remove_group("s"), "the group is removed");
	check(stop_daemon() == 0, "the daemon stops");
}
