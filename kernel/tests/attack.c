// SPDX-License-Identifier: Apache-2.0
/*
 * What a tenant, or a user with delegated groups, may try against others. What a
 * victim gets is counted in work as well: a kernel that charges a group for what
 * another one does accounts for all the time, and the group has less of it.
 */
#include "guest.h"

#include <sys/prctl.h>

struct work {
	uint64_t units, cpu_ns;
};

/* What children have done, in a page that they share. */
static struct work *done;

/* A FIFO task on @cpu that counts what it gets done until @end. */
static pid_t worker(const char *group, int prio, int cpu, uint64_t start, uint64_t end,
		    struct work *out)
{
	volatile unsigned int spun;
	uint64_t units = 0, c0;
	pid_t pid = fork();

	if (pid)
		return pid;
	if (cpu >= 0)
		pin(cpu);
	if ((group && enter(group)) || set_policy(0, SCHED_FIFO, prio))
		_exit(1);
	*out = (struct work){ 0 };
	sleep_until(start);
	c0 = now_ns(CLOCK_THREAD_CPUTIME_ID);
	while (now_ns(CLOCK_MONOTONIC) < end) {
		for (spun = 0; spun < 100; spun++)
			;
		units++;
	}
	out->units = units;
	out->cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - c0;
	_exit(0);
}

/* ---- cpusets that reservations could not follow ---- */

#define CPU3 "/sys/devices/system/cpu/cpu3/"

static void set_cpus(pid_t pid, int from, int to)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (; from <= to; from++)
		CPU_SET(from, &set);
	if (sched_setaffinity(pid, sizeof(set), &set))
		die("setaffinity");
}

static void unrelated_writes(const char *when)
{
	char what[64];

	snprintf(what, sizeof(what), "an unrelated cpuset, %s", when);
	expect(put(cg("x", "cpuset.cpus"), "0-1"), 0, what);
	expect(put(cg("x", "cpuset.cpus"), "1-2"), 0, what);
}

/*
 * A FIFO-10 task of @group on a CPU where it has nothing, beside a FIFO-5 task of
 * the root and a fair one: the first has at most @most, and root the rest.
 */
static void limited(const char *group, int cpu, uint64_t most, const char *what)
{
	uint64_t start = now_ns(CLOCK_MONOTONIC) + 20 * MS, len = SEC;
	pid_t theirs = worker(group, 10, cpu, start, start + len, &done[0]);
	pid_t roots = worker(NULL, 5, cpu, start, start + len, &done[1]);

	waitpid(roots, NULL, 0);
	end_child(theirs);
	check(done[1].cpu_ns + most + len / 50 > len, "%s: root's FIFO task has %llu us of %llu",
	      what, (unsigned long long)done[1].cpu_ns / US, (unsigned long long)len / US);
}

/* One that is in the kernel there goes on, and leaves most of the CPU to fair tasks. */
static void in_the_kernel(const char *group, int cpu)
{
	uint64_t len = 300 * MS, c0;
	pid_t pid;

	done->units = 0;
	pid = fork();
	if (!pid) {
		pin(cpu);
		if (enter(group))
			_exit(1);
		done->units = 1;
		mmap(NULL, 256 << 20, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		done->units = 2;
		_exit(0);
	}
	while (!*(volatile uint64_t *)&done->units)
		usleep(100);
	usleep(1000);
	expect(set_policy(pid, SCHED_FIFO, 10), 0, "FIFO in a system call");
	pin(cpu);
	c0 = now_ns(CLOCK_THREAD_CPUTIME_ID);
	busy_until(now_ns(CLOCK_MONOTONIC) + len);
	c0 = now_ns(CLOCK_THREAD_CPUTIME_ID) - c0;
	unpin();
	check(done->units == 1 && c0 < len * 95 / 100, "that goes on");
	check(c0 > len * 8 / 10, "beside a fair task that has %llu us of %llu",
	      (unsigned long long)c0 / US, (unsigned long long)len / US);
	end_child(pid);
}

/* Half of CPU 0 is "t"'s, and of CPU 1; below it are two that have 0.4 of one each. */
static void stuck(void)
{
	make_group("x");
	make_group("t");
	delegate("t");
	give("t", "cgroup.subtree_control");
	put(cg("t", "cpuset.cpus"), "0-1");
	expect(reserve("t", 5000, 10000), 0, "0.5 of two CPUs for a tenant");
	expect(user_puts("/cg/t/cgroup.subtree_control", "+cpuset +cpu"), 0, "who has groups");
	expect(user_puts("/cg/t/a", NULL), 0, "a");
	expect(user_puts("/cg/t/b", NULL), 0, "b");
	expect(user_puts("/cg/t/a/cpuset.cpus", "0"), 0, "on one CPU");
	expect(user_puts("/cg/t/a/cpu.rt.max", "4000 10000"), 0, "0.4 for one");
	expect(user_puts("/cg/t/cgroup.subtree_control", "-cpuset"), 0, "then without cpusets");
	usleep(50000);	/* until they are offline */
	same("it follows", "0 runtime_ns=4000000 period_ns=10000000\n"
	     "1 runtime_ns=4000000 period_ns=10000000", get(cg("t/a", "cpu.rt.effective")));
	expect(user_puts("/cg/t/cgroup.subtree_control", "+cpuset"), 0, "with them");
	expect(user_puts("/cg/t/a/cpuset.cpus", "0"), 0, "on one CPU");
	expect(user_puts("/cg/t/b/cpuset.cpus", "1"), 0, "and the other");
	expect(user_puts("/cg/t/b/cpu.rt.max", "4000 10000"), 0, "0.4 for the other");
	expect(user_puts("/cg/t/cgroup.subtree_control", "-cpuset"), 0, "then without cpusets");
	usleep(50000);
	same("one stays", "0 runtime_ns=4000000 period_ns=10000000",
	     get(cg("t/a", "cpu.rt.effective")));
	unrelated_writes("a tenant's groups stay");
	limited("t/a", 1, 100 * MS, "a tenant's task where its group has nothing");
	expect(user_puts("/cg/t/b/cpu.rt.max", "0 10000"), 0, "the user gives one back");
	usleep(50000);
	expect(user_puts("/cg/t/a/cpu.rt.max", "4000 10000"), 0, "so that the other can follow");
	check(!!strstr(get(cg("t/a", "cpu.rt.effective")), "1 runtime_ns=4000000"), "and does: %s",
	      get(cg("t/a", "cpu.rt.effective")));
	limited("t/a", 1, 450 * MS, "there it has its own");
	remove_group("t/a");
	remove_group("t/b");
	usleep(50000);
	remove_group("t");
	usleep(50000);
	remove_group("x");
}

/* Two that would be on CPU 3, which is off, and have no room there together. */
static void online(void)
{
	uint64_t start, len = SEC;
	const char *in, *out;
	pid_t waits;

	make_group("x");
	make_group("b");
	make_group("d");
	make_group("e");
	put(cg("b", "cpuset.cpus"), "2-3");
	put(cg("d", "cpuset.cpus"), "1,3");
	put(cg("e", "cpuset.cpus"), "0,3");
	expect(put(CPU3 "online", "0"), 0, "CPU 3 off");
	expect(reserve("b", 6000, 10000), 0, "0.6 of CPU 2, and of 3");
	expect(reserve("d", 6000, 10000), 0, "0.6 of CPU 1, and of 3");
	expect(reserve("e", 1000, 10000), 0, "0.1 of CPU 0, and of 3");
	expect(put(CPU3 "online", "1"), 0, "CPU 3 on");
	usleep(100000);
	check(!!strstr(get(cg("e", "cpu.rt.effective")), "3 runtime_ns=1000000"),
	      "who fits is there: %s", get(cg("e", "cpu.rt.effective")));
	in = strstr(get(cg("b", "cpu.rt.effective")), "\n3 ") ? "b" : "d";
	out = *in == 'b' ? "d" : "b";
	unrelated_writes("when a CPU came");
	limited(out, 3, 0, "a task where its group has nothing");
	in_the_kernel(out, 3);

	/* It goes on when its group gets the CPU. */
	start = now_ns(CLOCK_MONOTONIC) + 20 * MS;
	waits = worker(out, 10, 3, start, start + len, &done[0]);
	sleep_until(start + len / 2);
	expect(reserve(in, 0, 10000), 0, "one goes");
	usleep(20000);	/* until that is free */
	expect(reserve(out, 6000, 10000), 0, "the other one follows");
	waitpid(waits, NULL, 0);
	check(done[0].cpu_ns > 250 * MS && done[0].cpu_ns < 320 * MS,
	      "its waiting task has %llu us in half a second",
	      (unsigned long long)done[0].cpu_ns / US);

	/* And without it, when the CPU goes. */
	reserve(out, 0, 10000);
	reserve("e", 0, 10000);
	usleep(20000);
	put(CPU3 "online", "0");
	expect(reserve("b", 6000, 10000), 0, "again");
	expect(reserve("d", 6000, 10000), 0, "both");
	put(CPU3 "online", "1");
	usleep(100000);
	in = strstr(get(cg("b", "cpu.rt.effective")), "\n3 ") ? "b" : "d";
	out = *in == 'b' ? "d" : "b";
	expect(reserve(in, 0, 10000), 0, "one gives it back");
	start = now_ns(CLOCK_MONOTONIC) + 20 * MS;
	waits = worker(out, 10, -1, start, start + len, &done[0]);
	set_cpus(waits, 3, 3);
	sleep_until(start + len / 2);
	expect(put(CPU3 "online", "0"), 0, "CPU 3 off, where a task waits");
	waitpid(waits, NULL, 0);
	check(done[0].cpu_ns > 200 * MS, "which goes on elsewhere: %llu us in half a second",
	      (unsigned long long)done[0].cpu_ns / US);
	put(CPU3 "online", "1");
	reserve(out, 0, 10000);
	usleep(50000);
	remove_group("b");
	remove_group("d");
	remove_group("e");
	remove_group("x");
}

/* ---- switches that others pay for ---- */

#define VICTIM_Q 4000
#define PERIOD 10000
#define LENGTH (800 * MS)
/* The victim's work, in ppm of what it does alone. */
#define LEAST 990000

/* Sleep for @sleep_ns again and again; hogs if that is 0. */
static pid_t sleeper(const char *group, uint64_t sleep_ns, uint64_t start, uint64_t end)
{
	struct timespec ts = { 0, sleep_ns };
	pid_t pid = fork();

	if (pid)
		return pid;
	if (enter(group) || set_policy(0, SCHED_FIFO, 10))
		_exit(1);
	sleep_until(start);
	while (now_ns(CLOCK_MONOTONIC) < end) {
		if (sleep_ns)
			clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
	}
	_exit(0);
}

/* The work of "v" on CPU 0, while those who are there already do what they do. */
static struct work victim(uint64_t start)
{
	waitpid(worker("v", 10, 0, start, start + LENGTH, &done[0]), NULL, 0);
	return done[0];
}

static void compare(const struct work *alone, const struct work *now, const char *what)
{
	uint64_t ppm = now->units * 1000000 / alone->units;

	check(ppm >= LEAST, "%s: the victim has %llu us and %llu.%02llu %% of its work", what,
	      (unsigned long long)now->cpu_ns / US, (unsigned long long)ppm / 10000,
	      (unsigned long long)ppm / 100 % 100);
}

static uint64_t soon(void)
{
	return now_ns(CLOCK_MONOTONIC) + 50 * MS;
}

static struct work victim_alone(void)
{
	make_group("v");
	expect(reserve("v", VICTIM_Q, PERIOD), 0, "0.4 for a victim");
	return victim(soon());
}

static void reap(void)
{
	while (wait(NULL) > 0)
		;
	usleep(50000);
}

/* Short sleeps in a reservation with a shorter period, or the same. */
static void churn(void)
{
	static const struct {
		int q, p, sleep_us, tasks;
	} cases[] = {
		{ 1000, 2500, 2, 1 }, { 1000, 2500, 10, 1 }, { 1000, 2500, 30, 1 },
		{ 1000, 2500, 100, 1 }, { 1000, 2500, 2, 5 }, { 4000, 10000, 2, 1 },
		{ 4000, 10000, 10, 1 }, { 4000, 10000, 2, 5 }, { 10, 100, 2, 1 },
		{ 100, 1000, 0, 2 }, { 100, 1000, 0, 1000 },
	};
	struct work alone = victim_alone(), now;
	uint64_t start;
	char what[64];
	unsigned int i;
	int n;

	make_group("a");
	for (i = 0; i < ARRAY(cases); i++) {
		snprintf(what, sizeof(what), "%d of (%d, %d) that sleep %d us", cases[i].tasks,
			 cases[i].q, cases[i].p, cases[i].sleep_us);
		expect(reserve("a", cases[i].q, cases[i].p), 0, what);
		/* Many take their time to be there, and to wake up. */
		start = soon() + 2 * MS * cases[i].tasks;
		for (n = 0; n < cases[i].tasks; n++)
			sleeper("a", cases[i].sleep_us * US, start - 10 * MS, start + LENGTH);
		check(now_ns(CLOCK_MONOTONIC) < start - 10 * MS, "%s: in time", what);
		now = victim(start);
		reap();
		compare(&alone, &now, what);
	}
	expect(reserve("a", 0, PERIOD), 0, "all back");
	remove_group("a");
	remove_group("v");
}

/* A reservation that is cut to very small ones, by root and by a user. */
static void tiny(void)
{
	static const struct {
		int n, q, p;
		bool user;
	} cases[] = {
		{ 5, 9, 100, false }, { 20, 2, 100, false }, { 40, 9, 1000, false },
		{ 40, 7, 640, true }, { 5, 9, 100, true },
	};
	struct work alone = victim_alone(), now;
	char what[64], name[16];
	uint64_t start;
	unsigned int i;
	int n, err;

	make_group("t");
	delegate("t");
	expect(reserve("t", 5000, PERIOD), 0, "0.5 for a tenant");
	expect(user_puts("/cg/t/cgroup.subtree_control", "+cpu"), 0, "who has groups");
	for (i = 0; i < ARRAY(cases); i++) {
		snprintf(what, sizeof(what), "%d groups of (%d, %d)", cases[i].n, cases[i].q,
			 cases[i].p);
		for (n = err = 0; n < cases[i].n && !err; n++) {
			char path[64], text[32];

			snprintf(name, sizeof(name), "t/%d", n);
			make_group(name);
			give(name, "cpu.rt.max");
			snprintf(path, sizeof(path), "%s", cg(name, "cpu.rt.max"));
			snprintf(text, sizeof(text), "%d %d", cases[i].q, cases[i].p);
			err = cases[i].user ? user_puts(path, text) : put(path, "%s", text);
		}
		expect(err, cases[i].user && cases[i].p < PERIOD / 16 ? EPERM : 0, what);
		start = soon();
		for (n = 0; n < cases[i].n && !err; n++) {
			snprintf(name, sizeof(name), "t/%d", n);
			sleeper(name, 0, start + n * cases[i].p * US / cases[i].n, start + LENGTH);
		}
		if (!err) {
			now = victim(start);
			reap();
			compare(&alone, &now, what);
		}
		for (n = 0; n < cases[i].n; n++) {
			snprintf(name, sizeof(name), "t/%d", n);
			remove_group(name);
		}
		usleep(50000);
	}
	remove_group("t");
	remove_group("v");
}

/* ---- many tasks ---- */

/* A FIFO-20 task of @group that keeps its budget on @cpu from all others. */
static pid_t busy_on(const char *group, int cpu)
{
	pid_t pid = fork();

	if (!pid) {
		pin(cpu);
		if (enter(group) || set_policy(0, SCHED_FIFO, 20))
			_exit(1);
		busy_until(UINT64_MAX);
	}
	return pid;
}

/*
 * Of a tenant with (0.1, 1) on two CPUs: they may use both, and are all on the
 * victim's. The emulator runs its CPUs in turns and with one clock, so that the
 * victim's work depends on when the tenant has the other CPU (0.96 to 1.02 of what it
 * does alone were seen): a task keeps it busy there, the tenant's periods begin at the
 * same times, and the measure is the work beside two tasks. What these cost is seen
 * on one CPU: churn().
 */
static void many(void)
{
	static const int numbers[] = { 2, 100, 300, 1000 };
	static pid_t pids[1000];
	struct work few = { 0 }, now;
	uint64_t start;
	char what[32];
	unsigned int i;
	pid_t other;
	int n;

	make_group("v");
	expect(reserve("v", VICTIM_Q, PERIOD), 0, "0.4 for a victim");
	make_group("a");
	expect(reserve("a", 100, 1000), 0, "0.1 of each CPU");
	other = busy_on("a", 1);
	for (i = 0; i < ARRAY(numbers); i++) {
		snprintf(what, sizeof(what), "%d tasks", numbers[i]);
		/* The last of them has to be there. */
		start = now_ns(CLOCK_MONOTONIC) + 2 * SEC;
		start -= start % (PERIOD * US);
		pin(0);
		for (n = 0; n < numbers[i]; n++)
			pids[n] = sleeper("a", 0, start - 100 * MS, start + LENGTH);
		for (n = 0; n < numbers[i]; n++)
			set_cpus(pids[n], 0, 1);
		check(now_ns(CLOCK_MONOTONIC) < start - 100 * MS, "%s in time", what);
		unpin();
		now = victim(start);
		for (n = 0; n < numbers[i]; n++)
			waitpid(pids[n], NULL, 0);
		usleep(50000);
		if (!few.units)
			few = now;
		compare(&few, &now, what);
	}
	end_child(other);
	reserve("a", 0, 1000);
	remove_group("a");
	remove_group("v");
}

/* ---- writes to cpu.rt.max ---- */

/* One that needs what was just given back, and an rmdir of its group, which waits. */
static void held(void)
{
	uint64_t begin, took;
	pid_t writes, removes;

	make_group("a");
	make_group("b");
	expect(reserve("a", 3600000, 4000000), 0, "0.9 in four seconds");
	check(burn("a", -1, 100 * MS) > 90 * MS, "some of it is used");
	expect(reserve("a", 0, 4000000), 0, "all back");
	writes = fork();
	if (!writes)
		_exit(reserve("b", 3600000, 4000000));
	usleep(10000);
	removes = fork();
	if (!removes)
		_exit(remove_group("b"));
	usleep(10000);
	begin = now_ns(CLOCK_MONOTONIC);
	expect(make_group("c"), 0, "an unrelated mkdir");
	took = now_ns(CLOCK_MONOTONIC) - begin;
	check(took < 50 * MS, "takes %llu us", (unsigned long long)took / US);
	waitpid(removes, NULL, 0);
	waitpid(writes, NULL, 0);
	remove_group("a");
	remove_group("c");
}

/* The time that a hog of "g" has while @q and @other_q are written in turn. */
static void changed(const char *what, int period_ms, int step_us, bool raise)
{
	uint64_t len = 2 * SEC, start, t, least = len * 3 / 10;
	int q = 3000, n = 0;

	if (raise)
		least += least * step_us / 3000 * (len / MS / period_ms) / 2;

	expect(reserve("g", q, PERIOD), 0, "0.3");
	start = soon();
	worker("c", 10, 0, start, start + len, &done[1]);
	worker("g", 10, 0, start, start + len, &done[0]);
	pin(1);
	for (t = start; t < start + len; t += period_ms * MS) {
		sleep_until(t);
		q = raise ? q + step_us : 3000 + (n++ & 1) * step_us;
		reserve("g", q, PERIOD);
	}
	reap();
	unpin();
	check(done[0].cpu_ns * 1000 > least * 995, "%s: %llu us of %llu", what,
	      (unsigned long long)done[0].cpu_ns / US, (unsigned long long)least / US);
}

/* (3, 10) beside (5, 8) on CPU 0, while a writer on another one changes the first. */
static void resize(void)
{
	make_group("g");
	make_group("c");
	put(cg("g", "cpuset.cpus"), "0");
	put(cg("c", "cpuset.cpus"), "0");
	expect(reserve("c", 5000, 8000), 0, "(5, 8) beside it");
	changed("a change in 100 ms", 100, 1, false);
	changed("a change in 10 ms", 10, 1, false);
	changed("a change in 3 ms", 3, 1, false);
	changed("a change in 1 ms", 1, 1, false);
	changed("a raise in 10 ms", 10, 1, true);
	reserve("g", 0, PERIOD);
	reserve("c", 0, PERIOD);
	remove_group("g");
	remove_group("c");
}

/* ---- a child that has yet to run ---- */

static pid_t clone_into(const char *group)
{
	struct {
		uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size,
			 tls, set_tid, set_tid_size, cgroup;
	} args = { .flags = 0x200000000ULL, .exit_signal = SIGCHLD };
	pid_t pid;
	int fd = open(cg(group, ""), O_RDONLY | O_DIRECTORY);

	args.cgroup = fd;
	pid = syscall(SYS_clone3, &args, sizeof(args));
	close(fd);
	return pid;
}

static void cookie(void)
{
	/* PR_SCHED_CORE, PR_SCHED_CORE_CREATE, the task itself */
	if (prctl(62, 1, 0, 0, 0))
		_exit(2);
}

/*
 * Its parent ran under a server, which is gone by the time the child is looked at:
 * with cookies on two threads of a core. Only a debug kernel complains.
 */
static void stale(void)
{
	int round, status;
	pid_t busy, parent;

	make_group("quiet");
	put(cg("quiet", "cpu.max"), "1000 1000000");
	for (round = 0; round < 5; round++) {
		make_group("p");
		expect(reserve("p", 5000, PERIOD), 0, "0.5");
		busy = fork();
		if (!busy) {
			cookie();
			pin(1);
			busy_until(UINT64_MAX);
		}
		parent = fork();
		if (!parent) {
			cookie();
			pin(0);
			if (enter("p") || set_policy(0, SCHED_FIFO, 10))
				_exit(1);
			/* Reset on fork: the child is a fair task. */
			if (sched_setscheduler(0, SCHED_FIFO | 0x40000000,
					       &(struct sched_param){ .sched_priority = 10 }))
				_exit(3);
			if (!clone_into("quiet"))
				busy_until(now_ns(CLOCK_MONOTONIC) + 50 * MS);
			_exit(0);
		}
		waitpid(parent, &status, 0);
		check(WIFEXITED(status) && !WEXITSTATUS(status), "a parent in a reservation");
		reserve("p", 0, PERIOD);
		expect(remove_group("p"), 0, "that goes");
		usleep(200000);
		end_child(busy);
	}
	kill(-1, SIGKILL);
	reap();
	remove_group("quiet");
}

/* ---- deadline tasks ---- */

/* A partition with one becomes a member, where no CPU has room for it. */
static void merge(void)
{
	int *err = shared();
	pid_t pid;

	make_group("g");
	make_group("p");
	put(cg("g", "cpuset.cpus"), "2");
	put(cg("p", "cpuset.cpus"), "3");
	expect(put(cg("p", "cpuset.cpus.partition"), "root"), 0, "CPU 3 is a partition");
	*err = -1;
	pid = fork();
	if (!pid) {
		if (enter("p"))
			_exit(1);
		*err = set_deadline(5 * MS, 10 * MS);
		for (;;)
			usleep(100000);
	}
	while (*(volatile int *)err < 0)
		usleep(1000);
	expect(*err, 0, "a deadline task of 0.5 in it");
	expect(reserve("g", 9000, PERIOD), 0, "0.9 of CPU 2");
	expect(put(cg("p", "cpuset.cpus.partition"), "member"), EBUSY, "one domain for both");
	same("it is", "root", get(cg("p", "cpuset.cpus.partition")));
	expect(reserve("g", 4000, PERIOD), 0, "0.4 of CPU 2");
	usleep(20000);
	expect(put(cg("p", "cpuset.cpus.partition"), "member"), 0, "one domain for both");
	end_child(pid);
	reserve("g", 0, PERIOD);
	remove_group("g");
	remove_group("p");
}

/* ---- many groups, and a cpuset that moves one of them ---- */

#define RESERVING 200
#define OTHERS 1500

static char *child(const char *group, int i)
{
	static char name[32];

	snprintf(name, sizeof(name), "%s/%d", group, i);
	return name;
}

static void many_groups(const char *group, int n)
{
	int i, err = 0;

	make_group(group);
	put(cg(group, "cgroup.subtree_control"), "+cpu +cpuset");
	for (i = 0; i < n && !err; i++)
		err = make_group(child(group, i));
	expect(err, 0, group);
}

static void remove_many(const char *group, int n)
{
	while (n--)
		remove_group(child(group, n));
	remove_group(group);
}

static void crowd(void)
{
	uint64_t begin, took;
	int i, err = 0;

	many_groups("o", OTHERS);
	many_groups("t", RESERVING);
	for (i = 0; i < RESERVING && !err; i++) {
		put(cg(child("t", i), "cpuset.cpus"), "0");
		err = reserve(child("t", i), 10, PERIOD);
	}
	expect(err, 0, "0.001 for each of them");
	begin = now_ns(CLOCK_MONOTONIC);
	expect(put(cg(child("t", 0), "cpuset.cpus"), "1"), 0, "one of them moves");
	took = now_ns(CLOCK_MONOTONIC) - begin;
	check(took < 2 * MS, "which takes %llu us", (unsigned long long)took / US);
	remove_many("t", RESERVING);
	remove_many("o", OTHERS);
}

/* ---- reservations of next to nothing ---- */

static void nothing(void)
{
	make_group("a");
	expect(reserve("a", 2, 4000000), EINVAL, "(2 us, 4 s)");
	expect(reserve("a", 4, 4000000), 0, "(4 us, 4 s)");
	reserve("a", 0, 4000000);
	remove_group("a");
}

static const struct attack {
	const char *name;
	void (*run)(void);
} attacks[] = {
	{ "stuck", stuck },
	{ "online", online },
	{ "churn", churn },
	{ "tiny", tiny },
	{ "many", many },
	{ "held", held },
	{ "resize", resize },
	{ "merge", merge },
	{ "crowd", crowd },
	{ "nothing", nothing },
	{ "stale", stale },
};

void test_attack(const char *arg)
{
	unsigned int i;

	done = shared();
	for (i = 0; i < ARRAY(attacks); i++) {
		if (!strcmp(attacks[i].name, arg)) {
			attacks[i].run();
			return;
		}
	}
	check(false, "no attack '%s'", arg);
}
