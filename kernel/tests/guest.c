// SPDX-License-Identifier: Apache-2.0
/*
 * The guest's init: runs the test that the kernel command line names (t=...),
 * prints one line per result on the console and powers off.
 *
 * Times are printed in microseconds. Nothing here may depend on anything but
 * the virtual clock: the log has to be the same from run to run.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define US 1000ULL
#define MS 1000000ULL
#define SEC 1000000000ULL
#define ARRAY(a) (sizeof(a) / sizeof((a)[0]))

/* A break in the hog's view of the clock that is longer is lost service. */
#define GAP_NS (20 * US)
#define MAX_RUNS 60000

static int failures;

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * SEC + ts.tv_nsec;
}

static void sleep_until(uint64_t t)
{
	struct timespec ts = { t / SEC, t % SEC };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

static void die(const char *what)
{
	printf("FATAL %s: %s\n", what, strerror(errno));
	fflush(stdout);
	reboot(RB_AUTOBOOT);
	_exit(1);
}

/* 0 or the errno of the write. */
static int put(const char *path, const char *fmt, ...)
{
	char buf[256];
	va_list ap;
	int fd, n, err = 0;

	va_start(ap, fmt);
	n = vsnprintf(buf, sizeof(buf), fmt, ap);
	va_end(ap);

	fd = open(path, O_WRONLY);
	if (fd < 0)
		return errno;
	if (write(fd, buf, n) != n)
		err = errno;
	close(fd);
	return err;
}

static char *get(const char *path)
{
	static char buf[4096];
	int fd = open(path, O_RDONLY), n;

	if (fd < 0)
		return "";
	n = read(fd, buf, sizeof(buf) - 1);
	close(fd);
	if (n < 0)
		n = 0;
	buf[n] = 0;
	while (n && buf[n - 1] == '\n')
		buf[--n] = 0;
	return buf;
}

static void check(bool ok, const char *fmt, ...)
{
	va_list ap;

	printf("%s ", ok ? "ok  " : "FAIL");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	failures += !ok;
}

static void expect(int got, int want, const char *what)
{
	check(got == want, "%s: %s%s%s", what, got ? strerror(got) : "accepted",
	      got == want ? "" : ", wanted ", got == want ? "" :
	      want ? strerror(want) : "accepted");
}

/* ---- cgroups: the version 2 tree if the kernel has cpu.rt.max there ---- */

static bool v2;

static void mount_cgroups(bool want_v2)
{
	mkdir("/cg", 0755);
	v2 = want_v2;
	if (v2) {
		if (mount("cgroup2", "/cg", "cgroup2", 0, NULL))
			die("mount cgroup2");
		if (put("/cg/cgroup.subtree_control", "+cpuset +cpu"))
			die("subtree_control");
	} else if (mount("cgroup", "/cg", "cgroup", 0, "cpu")) {
		die("mount cgroup");
	}
}

static char *cg(const char *group, const char *file)
{
	static char buf[4][128];
	static int i;

	i = (i + 1) % 4;
	snprintf(buf[i], sizeof(buf[i]), "/cg/%s%s%s", group, *group ? "/" : "", file);
	return buf[i];
}

static int make_group(const char *group)
{
	return mkdir(cg(group, ""), 0755) ? errno : 0;
}

static int remove_group(const char *group)
{
	return rmdir(cg(group, "")) ? errno : 0;
}

/* In the order that works from any state: off, period, runtime. */
static int reserve(const char *group, long long q_us, long long p_us)
{
	int err;

	if (v2)
		return put(cg(group, "cpu.rt.max"), "%lld %lld", q_us, p_us);

	err = put(cg(group, "cpu.rt_runtime_us"), "0");
	if (!err)
		err = put(cg(group, "cpu.rt_period_us"), "%lld", p_us);
	if (!err)
		err = put(cg(group, "cpu.rt_runtime_us"), "%lld", q_us);
	return err;
}

static int enter(const char *group)
{
	return put(cg(group, v2 ? "cgroup.procs" : "tasks"), "%d", getpid());
}

static int set_policy(pid_t pid, int policy, int prio)
{
	struct sched_param sp = { .sched_priority = prio };

	return sched_setscheduler(pid, policy, &sp) ? errno : 0;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("setaffinity");
}

struct dl_attr {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t prio;
	uint64_t runtime, deadline, period;
};

static int set_deadline(uint64_t runtime, uint64_t period)
{
	struct dl_attr a = {
		.size = sizeof(a), .policy = 6,
		.runtime = runtime, .deadline = period, .period = period,
	};

	return syscall(SYS_sched_setattr, 0, &a, 0) ? errno : 0;
}

/* ---- supply: what a hog gets, period by period ---- */

struct run {
	uint64_t from, to;
};

struct hog {
	/* in: */
	const char *group;	/* NULL: the root */
	int policy, prio;	/* SCHED_FIFO, SCHED_OTHER, 6 for deadline */
	int q, p;		/* us */
	/* out: */
	int err;
	uint64_t cpu_ns;	/* accounted by the kernel */
	uint64_t t0;
	int nr_runs;
	struct run runs[MAX_RUNS];
};

static void hog_main(struct hog *h, uint64_t start, uint64_t end)
{
	uint64_t t, last, cpu0;

	if (h->group)
		h->err = enter(h->group);
	if (!h->err && h->policy == 6)
		h->err = set_deadline(h->q * US, h->p * US);
	else if (!h->err && h->policy != SCHED_OTHER)
		h->err = set_policy(0, h->policy, h->prio);
	if (h->err)
		_exit(1);

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

/* Service of @h within [from, to). */
static uint64_t service(struct hog *h, uint64_t from, uint64_t to, int *hint)
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

struct verdict {
	int periods, shorts, overs;
	uint64_t min, max, gap;
	int64_t acct_ppm;	/* accounted time against Q/P, over the run */
};

static void judge(struct hog *h, uint64_t len, struct verdict *v)
{
	uint64_t p = h->p * US, q = h->q * US, tol = 15 * US, t, got;
	int hint = 0, i;

	memset(v, 0, sizeof(*v));
	v->min = UINT64_MAX;
	if (q * 15 / 1000 > tol)
		tol = q * 15 / 1000;
	for (t = h->t0; t + p <= h->t0 + len; t += p) {
		got = service(h, t, t + p, &hint);
		v->periods++;
		v->shorts += got + tol < q;
		v->overs += got > q + tol;
		if (got < v->min)
			v->min = got;
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

static struct hog *hogs;

/*
 * All hogs at once, for @len_ns from a common start. The length is a multiple
 * of every period, so that whole periods are compared.
 */
static void run_hogs(int n, uint64_t len_ns)
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

static void test_supply(bool judged)
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
				h->policy = *b == 'f' ? SCHED_FIFO : *b == 'c' ? SCHED_OTHER : 6;
				h->prio = 99;
				h->q = 1000;
				h->p = 20000;
			}
			run_hogs(n, len);
			for (j = 0; j < n; j++) {
				struct hog *h = &hogs[j];

				if (!h->group && h->policy != 6)
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
				       !judged ? "----" : ok || h->policy == 6 ? "ok  " : "FAIL",
				       i, h->group ?: "dl", h->q, h->p, c->beside,
				       v.periods, v.min / US, v.min % US, v.max / US, v.max % US,
				       v.shorts, v.overs, v.gap / US, (long long)v.acct_ppm);
				failures += judged && !ok && h->policy != 6;
			}
		}
		for (n = 0; n < c->n; n++) {
			snprintf(name, sizeof(name), "g%d", n);
			remove_group(name);
		}
		usleep(20000);
	}
}

/* ---- refusals ---- */

static pid_t rt_child(const char *group, int *err)
{
	int p[2];
	pid_t pid;

	if (pipe(p))
		die("pipe");
	pid = fork();
	if (!pid) {
		int e = enter(group);

		if (!e)
			e = set_policy(0, SCHED_FIFO, 10);
		if (write(p[1], &e, sizeof(e)) != sizeof(e))
			_exit(1);
		for (;;)
			pause();
	}
	if (read(p[0], err, sizeof(*err)) != sizeof(*err))
		die("read");
	close(p[0]);
	close(p[1]);
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void test_refuse(void)
{
	pid_t pid;
	int err;

	make_group("a");
	expect(reserve("a", 1, 1000), EINVAL, "runtime below the minimum");
	expect(reserve("a", 2, 1000), 0, "runtime of 2 us");
	expect(reserve("a", 1001, 1000), EINVAL, "runtime above period");
	expect(reserve("a", 10, 50), EINVAL, "period below the minimum");
	expect(reserve("a", 1000, 5000000), EINVAL, "period above the maximum");
	expect(reserve("a", 1000, 18446744073709552LL), EINVAL, "period that overflows");
	expect(reserve("a", 18446744073709552LL, 1000000), EINVAL, "runtime that overflows");
	expect(reserve("a", 960, 1000), EBUSY, "above the CPU's ceiling");
	expect(reserve("a", 940, 1000), 0, "just below the ceiling");
	make_group("b");
	expect(reserve("b", 50, 1000), EBUSY, "second group above the ceiling");
	expect(reserve("a", 500, 1000), 0, "shrink");
	expect(reserve("b", 400, 1000), 0, "second group fits now");

	make_group("a/c");
	if (v2)
		expect(put(cg("a", "cgroup.subtree_control"), "+cpu"), 0, "delegate");
	expect(reserve("a/c", 600, 1000), EINVAL, "child above its parent");
	expect(reserve("a/c", 300, 1000), 0, "child below its parent");
	expect(reserve("a", 200, 1000), EINVAL, "parent below its child");
	pid = rt_child("a/c", &err);
	expect(err, 0, "RT task into the child");
	expect(reserve("a/c", 0, 1000), EBUSY, "runtime to 0 with an RT task inside");
	if (v2) {
		expect(put(cg("a/c", "cpu.rt.max"), "max"), EINVAL,
		       "reservation to max with an RT task inside");
	}
	end_child(pid);
	expect(reserve("a/c", 0, 1000), 0, "runtime to 0 when it has left");
	pid = rt_child("a/c", &err);
	expect(err, EPERM, "RT task into runtime 0");
	end_child(pid);
	if (v2) {
		expect(put(cg("a/c", "cpu.rt.max"), "max"), 0, "0 to max");
		pid = rt_child("a/c", &err);
		expect(err, 0, "RT task into max below a reservation");
		expect(reserve("a/c", 100, 1000), EINVAL,
		       "max to reservation with an RT task inside");
		end_child(pid);
		expect(put(cg("a/c", "cpu.rt.max"), "100"), 0, "runtime alone");
		check(!strcmp(get(cg("a/c", "cpu.rt.max")), "100 1000"),
		      "keeps the period: %s", get(cg("a/c", "cpu.rt.max")));
		expect(put(cg("a/c", "cpu.rt.max"), "x 1000"), EINVAL, "no number");
		expect(put(cg("a/c", "cpu.rt.max"), "-1 1000"), EINVAL, "negative");
		expect(put(cg("", "cpu.rt.max"), "850000 1000000"), EBUSY, "root below the sum");
		expect(put(cg("", "cpu.rt.max"), "910000 1000000"), 0, "root just above it");
		expect(reserve("b", 420, 1000), EBUSY, "group above the root's value");
		expect(put(cg("", "cpu.rt.max"), "1000000 1000000"), 0, "root back");
	}
	expect(remove_group("a/c"), 0, "rmdir child");
	expect(remove_group("a"), 0, "rmdir a");
	expect(remove_group("b"), 0, "rmdir b");
	usleep(50000);
	make_group("d");
	expect(reserve("d", 940, 1000), 0, "all bandwidth is back");
	/* sched_setattr() against reservations */
	pid = fork();
	if (!pid)
		_exit(set_deadline(1 * MS, 20 * MS));
	waitpid(pid, &err, 0);
	expect(WEXITSTATUS(err), EBUSY, "deadline task beside a full CPU");
	expect(reserve("d", 800, 1000), 0, "shrink");
	pid = fork();
	if (!pid)
		_exit(set_deadline(1 * MS, 20 * MS));
	waitpid(pid, &err, 0);
	expect(WEXITSTATUS(err), 0, "deadline task beside 0.8");
	remove_group("d");
}

/* ---- per-CPU sums (version 2, 4 CPUs) ---- */

static uint64_t burn(const char *group, int cpu, uint64_t len)
{
	uint64_t *out = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t end, c0, got;
	pid_t pid;

	pid = fork();
	if (!pid) {
		if (cpu >= 0)
			pin(cpu);
		if (enter(group) || set_policy(0, SCHED_FIFO, 10))
			_exit(1);
		c0 = now_ns(CLOCK_THREAD_CPUTIME_ID);
		end = now_ns(CLOCK_MONOTONIC) + len;
		while (now_ns(CLOCK_MONOTONIC) < end)
			;
		*out = now_ns(CLOCK_THREAD_CPUTIME_ID) - c0;
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	got = *out;
	munmap(out, 4096);
	return got;
}

static void test_percpu(void)
{
	char name[16], file[8];
	int i;

	for (i = 0; i < 5; i++) {
		snprintf(name, sizeof(name), "p%d", i);
		snprintf(file, sizeof(file), "%d", i % 4);
		make_group(name);
		expect(put(cg(name, "cpuset.cpus"), file), 0, "cpuset");
		printf("group %s on CPU %d, 0.9: ", name, i % 4);
		expect(reserve(name, 9000, 10000), i < 4 ? 0 : EBUSY, "reserve");
	}
	make_group("wide");
	expect(reserve("wide", 200, 1000), EBUSY, "0.2 on all CPUs");
	expect(reserve("wide", 40, 1000), 0, "0.04 on all CPUs");
	expect(put(cg("wide", "cpu.rt.max"), "max"), 0, "and back");
	/* moves */
	expect(put(cg("p1", "cpuset.cpus"), "0"), EBUSY, "cpuset to a full CPU");
	check(!strcmp(get(cg("p1", "cpuset.cpus")), "1"), "stays on CPU %s",
	      get(cg("p1", "cpuset.cpus")));
	expect(put(cg("p1", "cpuset.cpus"), "0-1"), EBUSY, "cpuset grows to a full CPU");
	expect(reserve("p2", 0, 10000), 0, "CPU 2 is emptied");
	expect(put(cg("p1", "cpuset.cpus"), "1-2"), 0, "cpuset grows to a free CPU");
	expect(reserve("p2", 1000, 10000), EBUSY, "which is full now");
	expect(put(cg("p1", "cpuset.cpus"), "2"), 0, "cpuset moves");
	expect(put(cg("p4", "cpuset.cpus"), "1"), 0, "another group's cpuset");
	expect(reserve("p4", 9000, 10000), 0, "takes the CPU that was left");
	expect(put("/sys/devices/system/cpu/cpu3/online", "0"), EBUSY, "offline a reserved CPU");
	for (i = 0; i < 5; i++) {
		uint64_t got;

		if (i == 2)
			continue;
		snprintf(name, sizeof(name), "p%d", i);
		got = burn(name, -1, 500 * MS);
		/* whole periods only; the last one may be cut */
		check(got > 449 * MS && got < 460 * MS, "%s: %llu us of 500000", name,
		      (unsigned long long)got / US);
	}
	for (i = 0; i < 5; i++) {
		snprintf(name, sizeof(name), "p%d", i);
		expect(remove_group(name), 0, "rmdir");
	}
	remove_group("wide");
	usleep(50000);
	expect(put("/sys/devices/system/cpu/cpu3/online", "0"), 0, "offline a free CPU");
	make_group("q");
	expect(reserve("q", 9, 10), EINVAL, "period too short");
	expect(reserve("q", 900, 1000), 0, "0.9 on three CPUs");
	expect(put("/sys/devices/system/cpu/cpu3/online", "1"), 0, "CPU 3 comes back");
	check(burn("q", 3, 200 * MS) > 178 * MS, "and serves the group as well");
	remove_group("q");
}

/* ---- tasks of one group on several CPUs (4 CPUs) ---- */

/*
 * @tasks hogs of the group for @len, in all so much CPU time as comes back.
 * They may go where the group's cpuset lets them.
 */
static uint64_t burn_many(const char *group, int tasks, uint64_t len)
{
	uint64_t *out = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t start = now_ns(CLOCK_MONOTONIC) + 20 * MS, c0, sum = 0;
	int i;

	for (i = 0; i < tasks; i++) {
		if (fork())
			continue;
		if (enter(group) || set_policy(0, SCHED_FIFO, 10))
			_exit(1);
		sleep_until(start);
		c0 = now_ns(CLOCK_THREAD_CPUTIME_ID);
		while (now_ns(CLOCK_MONOTONIC) < start + len)
			;
		out[i] = now_ns(CLOCK_THREAD_CPUTIME_ID) - c0;
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
	for (i = 0; i < tasks; i++)
		sum += out[i];
	munmap(out, 4096);
	return sum;
}

static void test_migrate(void)
{
	static const char * const cpus[] = { "0", "0-1", "0-2", "0-3" };
	uint64_t len = 400 * MS, got, want;
	int n;

	make_group("m");
	for (n = 1; n <= 4; n++) {
		expect(put(cg("m", "cpuset.cpus"), "%s", cpus[n - 1]), 0, cpus[n - 1]);
		expect(reserve("m", 3000, 10000), 0, "0.3 on each");
		got = burn_many("m", 5, len);
		want = n * len * 3 / 10;
		/* 0.01 of a CPU, and the budgets that the end cuts */
		check(got + 4 * MS > want && got < want + 4 * MS + n * 3 * MS,
		      "5 tasks on %d servers: %llu us, sum of the servers %llu",
		      n, (unsigned long long)got / US, (unsigned long long)want / US);
	}
	got = burn_many("m", 1, len);
	check(got > len / 2, "1 task on 4 servers of 0.3: %llu us of %llu",
	      (unsigned long long)got / US, (unsigned long long)len / US);
	printf("stat:\n%s\n", get(cg("m", "cpu.rt.stat")));
	expect(remove_group("m"), 0, "rmdir");
}

/* ---- priority inheritance ---- */

static pthread_mutex_t *pi_lock(void)
{
	pthread_mutex_t *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t a;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	if (pthread_mutex_init(m, &a))
		die("pi mutex");
	return m;
}

static void spin(uint64_t cpu_ns)
{
	uint64_t c0 = now_ns(CLOCK_THREAD_CPUTIME_ID);

	while (now_ns(CLOCK_THREAD_CPUTIME_ID) - c0 < cpu_ns)
		;
}

/*
 * A low task of @holder takes the lock for 5 ms of CPU time, a FIFO-50 task of
 * @waiter wants it 1 ms later, a FIFO-20 hog of the root is in between. Prints
 * how long the waiter waits, in us.
 */
static uint64_t inversion(const char *holder, bool rt_holder, const char *waiter)
{
	uint64_t *out = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0), waited;
	uint64_t start = now_ns(CLOCK_MONOTONIC) + 20 * MS;
	pthread_mutex_t *m = pi_lock();

	if (!fork()) {
		if (enter(holder) || (rt_holder && set_policy(0, SCHED_FIFO, 5)))
			_exit(1);
		sleep_until(start);
		pthread_mutex_lock(m);
		spin(5 * MS);
		pthread_mutex_unlock(m);
		_exit(0);
	}
	if (!fork()) {
		if (enter(waiter) || set_policy(0, SCHED_FIFO, 50))
			_exit(1);
		sleep_until(start + 1 * MS);
		out[0] = now_ns(CLOCK_MONOTONIC);
		pthread_mutex_lock(m);
		out[1] = now_ns(CLOCK_MONOTONIC);
		pthread_mutex_unlock(m);
		_exit(0);
	}
	if (!fork()) {
		if (set_policy(0, SCHED_FIFO, 20))
			_exit(1);
		sleep_until(start + 2 * MS);
		while (now_ns(CLOCK_MONOTONIC) < start + 300 * MS)
			;
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
	waited = out[1] - out[0];
	munmap(out, 4096);
	return waited / US;
}

static void test_pi(void)
{
	uint64_t us;

	make_group("h");
	make_group("w");
	expect(reserve("w", 5000, 10000), 0, "the waiter's group has 0.5");
	us = inversion("", false, "");
	check(us < 20000, "fair holder in the root, waiter in the root: %llu us",
	      (unsigned long long)us);
	us = inversion("", false, "w");
	check(us < 20000, "fair holder in the root, waiter in a group: %llu us",
	      (unsigned long long)us);
	expect(reserve("h", 0, 10000), 0, "the holder's group has nothing");
	us = inversion("h", false, "");
	check(us < 20000, "fair holder without budget, waiter in the root: %llu us",
	      (unsigned long long)us);
	us = inversion("h", false, "w");
	check(us < 20000, "fair holder without budget, waiter in a group: %llu us",
	      (unsigned long long)us);
	expect(reserve("h", 1000, 10000), 0, "the holder's group has 0.1");
	us = inversion("h", true, "w");
	check(us < 70000, "RT holder with 0.1, waiter in a group: %llu us",
	      (unsigned long long)us);
	us = inversion("h", false, "w");
	check(us < 70000, "fair holder beside 0.1, waiter in a group: %llu us",
	      (unsigned long long)us);
	remove_group("h");
	remove_group("w");
}

/* ---- random operations ---- */

static uint64_t rnd_state = 88172645463325252ULL;

static unsigned int rnd(unsigned int n)
{
	rnd_state ^= rnd_state << 13;
	rnd_state ^= rnd_state >> 7;
	rnd_state ^= rnd_state << 17;
	return (rnd_state >> 11) % n;
}

#define GROUPS 6
#define TASKS 16

static void robust_lock(pthread_mutex_t *m)
{
	if (pthread_mutex_lock(m) == EOWNERDEAD)
		pthread_mutex_consistent(m);
}

static void stress_task(pthread_mutex_t *m, unsigned int seed)
{
	rnd_state ^= seed * 2654435761U;
	for (;;) {
		switch (rnd(5)) {
		case 0:
			usleep(rnd(2000));
			break;
		case 1:
			robust_lock(&m[0]);
			spin(rnd(300) * US);
			if (rnd(2)) {
				robust_lock(&m[1]);
				spin(rnd(100) * US);
				pthread_mutex_unlock(&m[1]);
			}
			pthread_mutex_unlock(&m[0]);
			break;
		case 2:
			sched_yield();
			break;
		default:
			spin(rnd(1000) * US);
		}
	}
}

static void test_stress(int ops)
{
	pthread_mutex_t *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned int counts[12] = { 0 }, refused[12] = { 0 };
	pthread_mutexattr_t a;
	char before[4096], name[16];
	pid_t task[TASKS] = { 0 };
	int i, op, g, t, err;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&m[0], &a);
	pthread_mutex_init(&m[1], &a);
	/* This task has to get through whatever the others do. */
	set_policy(0, SCHED_FIFO, 99);
	strcpy(before, get(cg("", "cpu.rt.effective")));
	printf("before:\n%s\n", before);

	for (i = 0; i < ops; i++) {
		op = rnd(12);
		g = rnd(GROUPS);
		t = rnd(TASKS);
		snprintf(name, sizeof(name), "s%d", g);
		err = 0;
		switch (op) {
		case 0:
			err = make_group(name);
			break;
		case 1:
			err = remove_group(name);
			break;
		case 2:
		case 3:
			err = reserve(name, 1000 * rnd(6), 5000 + rnd(10) * 1000);
			break;
		case 4:
			err = rnd(3) ? put(cg(name, "cpuset.cpus"), "%d-%d", rnd(2), 2 + rnd(2)) :
				       put(cg(name, "cpuset.cpus"), "%d", rnd(4));
			break;
		case 5:
			if (task[t]) {
				kill(task[t], SIGKILL);
				waitpid(task[t], NULL, 0);
				task[t] = 0;
			} else {
				task[t] = fork();
				if (!task[t]) {
					struct sched_param sp = { 0 };

					sched_setscheduler(0, SCHED_OTHER, &sp);
					stress_task(m, i);
				}
			}
			break;
		case 6:
		case 7:
			if (task[t])
				err = put(cg(rnd(5) ? name : "", "cgroup.procs"), "%d", task[t]);
			break;
		case 8:
			if (task[t])
				err = set_policy(task[t], rnd(2) ? SCHED_FIFO : SCHED_RR, 1 + rnd(60));
			break;
		case 9:
			if (task[t])
				err = set_policy(task[t], SCHED_OTHER, 0);
			break;
		case 10:
			if (task[t]) {
				cpu_set_t set;
				int c;

				CPU_ZERO(&set);
				for (c = 0; c < 4; c++) {
					if (rnd(2))
						CPU_SET(c, &set);
				}
				err = sched_setaffinity(task[t], sizeof(set), &set) ? errno : 0;
			}
			break;
		case 11:
			if (rnd(4))
				err = put(cg(name, "cgroup.freeze"), "%d", rnd(2));
			else
				err = put("/sys/devices/system/cpu/cpu3/online", "%d", rnd(2));
			break;
		}
		counts[op]++;
		refused[op] += !!err;
		if (i % 4 == 0)
			usleep(200 + rnd(1000));
		if (i % 1000 == 999)
			printf("%d operations\n", i + 1);
	}

	put("/sys/devices/system/cpu/cpu3/online", "1");
	for (g = 0; g < GROUPS; g++) {
		snprintf(name, sizeof(name), "s%d", g);
		put(cg(name, "cgroup.freeze"), "0");
	}
	for (t = 0; t < TASKS; t++) {
		if (task[t]) {
			kill(task[t], SIGKILL);
			/* It may wait for a budget that nobody gives any more. */
			put(cg("", "cgroup.procs"), "%d", task[t]);
			waitpid(task[t], NULL, 0);
		}
	}
	usleep(50000);
	for (g = 0; g < GROUPS; g++) {
		snprintf(name, sizeof(name), "s%d", g);
		err = remove_group(name);
		check(!err || err == ENOENT, "rmdir %s", name);
	}
	usleep(300000);
	for (op = 0; op < 12; op++)
		printf("op %d: %u, refused %u\n", op, counts[op], refused[op]);
	check(!strcmp(before, get(cg("", "cpu.rt.effective"))), "bandwidth is as before:\n%s",
	      get(cg("", "cpu.rt.effective")));
}

/* ---- what those who reserve nothing see; the same lines on any kernel ---- */

static uint64_t ping_pong(int policy, uint64_t len)
{
	int a[2], b[2];
	uint64_t n = 0, end;
	char c = 0;
	pid_t pid;

	if (pipe(a) || pipe(b))
		die("pipe");
	pid = fork();
	if (!pid) {
		if (policy)
			set_policy(0, policy, 10);
		while (read(a[0], &c, 1) == 1 && write(b[1], &c, 1) == 1)
			;
		_exit(0);
	}
	if (policy)
		set_policy(0, policy, 10);
	usleep(10000);
	end = now_ns(CLOCK_MONOTONIC) + len;
	while (now_ns(CLOCK_MONOTONIC) < end) {
		if (write(a[1], &c, 1) != 1 || read(b[0], &c, 1) != 1)
			die("ping");
		n++;
	}
	set_policy(0, SCHED_OTHER, 0);
	end_child(pid);
	close(a[0]);
	close(a[1]);
	close(b[0]);
	close(b[1]);
	return n;
}

/* Worst and mean lateness in ns of 1000 timer wakeups of a FIFO task. */
static void wakeups(uint64_t *worst, uint64_t *mean)
{
	uint64_t t, late, sum = 0;
	int i;

	*worst = 0;
	set_policy(0, SCHED_FIFO, 80);
	t = now_ns(CLOCK_MONOTONIC) + MS;
	for (i = 0; i < 1000; i++, t += 300 * US) {
		sleep_until(t);
		late = now_ns(CLOCK_MONOTONIC) - t;
		sum += late;
		if (late > *worst)
			*worst = late;
	}
	*mean = sum / 1000;
	set_policy(0, SCHED_OTHER, 0);
}

static void test_regress(void)
{
	uint64_t worst, mean;
	struct verdict v;

	printf("value pipe_fair %llu\n",
	       (unsigned long long)ping_pong(SCHED_OTHER, 200 * MS));
	printf("value pipe_fifo %llu\n",
	       (unsigned long long)ping_pong(SCHED_FIFO, 200 * MS));
	wakeups(&worst, &mean);
	printf("value wakeup_worst_ns %llu\nvalue wakeup_mean_ns %llu\n",
	       (unsigned long long)worst, (unsigned long long)mean);

	/* FIFO-99 against fair: the fair server's share */
	hogs[0] = (struct hog){ .policy = SCHED_FIFO, .prio = 99, .q = 1, .p = 1000 };
	hogs[1] = (struct hog){ .policy = SCHED_OTHER, .q = 1, .p = 1000 };
	run_hogs(2, 3 * SEC);
	printf("value fifo_us %llu\nvalue fair_us %llu\n",
	       (unsigned long long)hogs[0].cpu_ns / US,
	       (unsigned long long)hogs[1].cpu_ns / US);
	check(hogs[1].cpu_ns > 120 * MS && hogs[1].cpu_ns < 180 * MS,
	      "fair has 5 %% beside FIFO-99, within 1 %%");

	/* and with a deadline task */
	hogs[0] = (struct hog){ .policy = SCHED_FIFO, .prio = 99, .q = 1, .p = 1000 };
	hogs[1] = (struct hog){ .policy = 6, .q = 3000, .p = 10000 };
	run_hogs(2, 1 * SEC);
	judge(&hogs[1], 1 * SEC, &v);
	printf("value deadline_us %llu\nvalue deadline_least_us %llu\nvalue fifo_beside_us %llu\n",
	       (unsigned long long)hogs[1].cpu_ns / US, (unsigned long long)v.min / US,
	       (unsigned long long)hogs[0].cpu_ns / US);
	check(hogs[1].cpu_ns > 292 * MS && hogs[1].cpu_ns < 308 * MS,
	      "deadline task has 30 %% within 2.5 %%");
	check(hogs[0].cpu_ns > 682 * MS, "root FIFO has the rest within 2.5 %%");
}

/*
 * While the group's hog runs for 1 s, change its parameters all the time. With
 * a bandwidth that never exceeds 0.5 it must not get more than that.
 */
static void run_resize(void)
{
	uint64_t *out = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0), end, c0;
	int i = 0;
	pid_t pid;

	pid = fork();
	if (!pid) {
		if (enter("r") || set_policy(0, SCHED_FIFO, 10))
			_exit(1);
		c0 = now_ns(CLOCK_THREAD_CPUTIME_ID);
		end = now_ns(CLOCK_MONOTONIC) + SEC;
		while (now_ns(CLOCK_MONOTONIC) < end)
			;
		*out = now_ns(CLOCK_THREAD_CPUTIME_ID) - c0;
		_exit(0);
	}
	end = now_ns(CLOCK_MONOTONIC) + SEC;
	while (now_ns(CLOCK_MONOTONIC) < end) {
		int p = 4000 + 1000 * (i++ % 7);

		if (put(cg("r", "cpu.rt.max"), "%d %d", p / 2, p))
			failures++;
		usleep(700);
	}
	waitpid(pid, NULL, 0);
	check(*out < 510 * MS && *out > 300 * MS,
	      "%d changes of (Q, P) at 0.5 in 1 s: %llu us", i, (unsigned long long)*out / US);
	munmap(out, 4096);
}

/* The root's FIFO and fair tasks beside a reservation of 0.5. */
static void test_beside(void)
{
	make_group("r");
	expect(reserve("r", 5000, 10000), 0, "0.5");
	hogs[0] = (struct hog){ .policy = SCHED_FIFO, .prio = 99, .q = 1, .p = 1000 };
	hogs[1] = (struct hog){ .policy = SCHED_OTHER, .q = 1, .p = 1000 };
	hogs[2] = (struct hog){ .group = "r", .policy = SCHED_FIFO, .prio = 1,
				.q = 5000, .p = 10000 };
	/* long, since the fair server runs once a second and late */
	run_hogs(3, 10 * SEC);
	check(hogs[2].cpu_ns > 4995 * MS && hogs[2].cpu_ns < 5005 * MS,
	      "group: %llu us of 5000000", (unsigned long long)hogs[2].cpu_ns / US);
	check(hogs[1].cpu_ns > 400 * MS && hogs[1].cpu_ns < 600 * MS,
	      "fair server: %llu us of 500000", (unsigned long long)hogs[1].cpu_ns / US);
	check(hogs[0].cpu_ns > 4250 * MS && hogs[0].cpu_ns < 4750 * MS,
	      "root FIFO: %llu us of 4500000", (unsigned long long)hogs[0].cpu_ns / US);

	/* A value that is written again and again gains nothing. */
	run_resize();
	remove_group("r");
}

int main(void)
{
	char *cmd, *t;

	mount("proc", "/proc", "proc", 0, NULL);
	mount("sysfs", "/sys", "sysfs", 0, NULL);
	mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	mkdir("/dev", 0755);
	setvbuf(stdout, NULL, _IOLBF, 0);
	cmd = get("/proc/cmdline");
	t = strstr(cmd, " t=");
	if (!t)
		die("no t= on the command line");
	t = strdup(t + 3);
	*strchrnul(t, ' ') = 0;

	hogs = mmap(NULL, 8 * sizeof(*hogs), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (hogs == MAP_FAILED || mlockall(MCL_CURRENT))
		die("memory");

	printf("TEST %s\n", t);
	if (!strcmp(t, "control")) {
		mount_cgroups(false);
		test_supply(false);
	} else if (!strcmp(t, "supply1")) {
		mount_cgroups(false);
		test_supply(true);
	} else if (!strcmp(t, "supply")) {
		mount_cgroups(true);
		test_supply(true);
	} else if (!strcmp(t, "refuse1")) {
		mount_cgroups(false);
		test_refuse();
	} else if (!strcmp(t, "refuse")) {
		mount_cgroups(true);
		test_refuse();
	} else if (!strcmp(t, "percpu")) {
		mount_cgroups(true);
		test_percpu();
	} else if (!strcmp(t, "migrate")) {
		mount_cgroups(true);
		test_migrate();
	} else if (!strcmp(t, "regress")) {
		test_regress();
	} else if (!strcmp(t, "beside")) {
		mount_cgroups(true);
		test_beside();
	} else if (!strcmp(t, "pi")) {
		mount_cgroups(true);
		test_pi();
	} else if (!strncmp(t, "stress", 6)) {
		mount_cgroups(true);
		test_stress(t[6] ? atoi(t + 6) : 20000);
	} else {
		printf("unknown test\n");
		failures++;
	}
	printf("DONE %s failures %d\n", t, failures);
	fflush(stdout);
	sync();
	reboot(RB_AUTOBOOT);
	return 0;
}
