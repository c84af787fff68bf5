// SPDX-License-Identifier: Apache-2.0
/*
 * A task whose group is out of budget goes on inside the kernel, where others may
 * wait for what it holds, up to its return to user space; and nobody else who was
 * promised something loses by that.
 */
#include "guest.h"

#define FILE_NAME "/finish"
#define SIZE (4UL << 20)
#define LARGEST (64UL << 20)
#define CROWD 20

static char *buffer;
static int file;

/* A write is one section of the kernel, under the lock of the file's inode. */
static void one_write(size_t size)
{
	if (pwrite(file, buffer, size, 0) != (ssize_t)size)
		_exit(2);
}

/* How long that takes while nobody else runs, in ns. */
static uint64_t time_of_write(size_t size)
{
	uint64_t t;

	/* The file gets its pages first. */
	one_write(size);
	t = now_ns(CLOCK_MONOTONIC);
	one_write(size);
	return now_ns(CLOCK_MONOTONIC) - t;
}

static void prepare(void)
{
	buffer = mmap(NULL, LARGEST, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	file = open(FILE_NAME, O_RDWR | O_CREAT, 0600);
	if (buffer == MAP_FAILED || file < 0)
		die("file to write to");
}

/*
 * By then the group has paid for what it used before, and for the start of its tasks:
 * it has a whole budget when they wake up.
 */
static uint64_t debts_paid(void)
{
	return now_ns(CLOCK_MONOTONIC) + 10 * SEC + 500 * MS;
}

static void become(const char *group, int prio)
{
	if (enter(group) || (prio && set_policy(0, SCHED_FIFO, prio)))
		_exit(1);
}

/*
 * In @group, FIFO at @prio, or fair: write at @start, and until @end. The CPU time
 * that took is in *used.
 */
static pid_t writer(const char *group, int prio, size_t size, uint64_t start, uint64_t end,
		    uint64_t *used)
{
	pid_t pid = fork();
	uint64_t c0;

	if (pid)
		return pid;
	become(group, prio);
	sleep_until(start);
	c0 = now_ns(CLOCK_THREAD_CPUTIME_ID);
	do {
		one_write(size);
	} while (now_ns(CLOCK_MONOTONIC) < end);
	*used = now_ns(CLOCK_THREAD_CPUTIME_ID) - c0;
	_exit(0);
}

/* The same, but busy in user space. */
static pid_t busy(const char *group, int prio, uint64_t start, uint64_t end, uint64_t *used)
{
	pid_t pid = fork();
	uint64_t c0;

	if (pid)
		return pid;
	become(group, prio);
	sleep_until(start);
	c0 = now_ns(CLOCK_THREAD_CPUTIME_ID);
	busy_until(end);
	*used = now_ns(CLOCK_THREAD_CPUTIME_ID) - c0;
	_exit(0);
}

/*
 * Each comes later and preempts the ones before, so that all of them are in the
 * kernel when the budget ends: the first one holds the lock, the others wait for it.
 */
static void crowd(int n, bool rt, size_t size, uint64_t start, uint64_t *used)
{
	int i;

	for (i = 0; i < n; i++)
		writer(rt ? "s" : "", rt ? 1 + i : 0, size, start + i * 50 * US, start, used + i);
}

/* A task of the root group that writes one byte at @start; how long it waits. */
static void waiter(uint64_t start, uint64_t *waited)
{
	if (fork())
		return;
	become("", 30);
	sleep_until(start);
	one_write(1);
	*waited = now_ns(CLOCK_MONOTONIC) - start;
	_exit(0);
}

static void wait_all(void)
{
	while (wait(NULL) > 0)
		;
}

/* How long a lock is waited for that a task without budget holds for @section. */
static void test_alone(size_t size, uint64_t section, uint64_t most)
{
	uint64_t start = debts_paid(), *out = shared();

	crowd(1, true, size, start, out);
	waiter(start + 500 * US, out + 1);
	wait_all();
	check(out[1] > 1 * MS && out[1] < most,
	      "a lock that is held for %llu us by a task without budget is waited for %llu us",
	      (unsigned long long)section / US, (unsigned long long)out[1] / US);
	munmap(out, 4096);
}

/* The holder is preempted by a task of its group, which is busy for long. */
static void test_chain(const char *what, uint64_t section, int waiters)
{
	uint64_t start = debts_paid(), *out = shared();
	pid_t hog;

	crowd(1 + waiters, true, SIZE, start, out + 8);
	hog = busy("s", 50, start + 250 * US, UINT64_MAX, out);
	waiter(start + 500 * US, out + 1);
	set_policy(0, SCHED_FIFO, 99);
	sleep_until(start + 500 * MS);
	end_child(hog);
	set_policy(0, SCHED_OTHER, 0);
	wait_all();
	check(out[1] > 1 * MS && out[1] < (waiters + 2) * section,
	      "%s: waited for %llu us", what, (unsigned long long)out[1] / US);
	munmap(out, 4096);
}

/*
 * How late a task of the root group is at most, of the lowest RT priority, beside a
 * crowd in the kernel. After the budget, if they have one, and before the next.
 */
static uint64_t latest(bool rt)
{
	uint64_t start = debts_paid(), len = 95 * MS, t, late, *out = shared();

	crowd(CROWD, rt, LARGEST, start, out + 8);
	if (!fork()) {
		become("", 1);
		for (t = start + 3 * MS; t < start + len; t += 1300 * US) {
			sleep_until(t);
			late = now_ns(CLOCK_MONOTONIC) - t;
			if (late > out[1])
				out[1] = late;
		}
		_exit(0);
	}
	wait_all();
	late = out[1];
	munmap(out, 4096);
	return late / US;
}

/* Some sections of the kernel can't be preempted, whoever is in them. */
static void test_root_task(void)
{
	uint64_t fair = latest(false), rt = latest(true);

	check(rt < fair + 20, "a FIFO-1 task of the root group is at most %llu us late, "
	      "and %llu us beside fair tasks",
	      (unsigned long long)rt, (unsigned long long)fair);
}

/*
 * In thousandths of @len, what a fair task has beside a group with (5, 10) and a
 * crowd in the kernel, or a FIFO hog of the root group. The group's periods are in
 * *v, and the CPU time of those beside it in *used.
 */
static uint64_t fair_share(bool finishing, uint64_t len, struct verdict *v, uint64_t *used)
{
	uint64_t start = debts_paid(), *out = shared(), share;
	int i;

	busy("", 0, start, start + len, out);
	if (finishing)
		crowd(CROWD, true, LARGEST, start, out + 8);
	else
		busy("", 1, start, start + len, out + 8);
	hogs[0] = (struct hog){
		.group = "r", .policy = SCHED_FIFO, .prio = 10, .q = 5000, .p = 10000,
		.interruptions = 2,
	};
	/* Theirs is 20 ms from then. */
	sleep_until(start - 20 * MS);
	run_hogs(1, len);
	judge(&hogs[0], len, v);
	for (i = 0, *used = 0; i < CROWD; i++)
		*used += out[8 + i];
	share = out[0] * 1000 / len;
	munmap(out, 4096);
	return share;
}

/* What others have, while a group is out of budget in long system calls. */
static void test_others(void)
{
	uint64_t len = 4 * SEC, used, fair, beside_hog;
	struct verdict v;

	/* So much that it may owe 2 s. */
	expect(reserve("s", 20000, 100000), 0, "20 of 100 ms");
	expect(reserve("r", 5000, 10000), 0, "5 of 10 ms for another group");
	beside_hog = fair_share(false, len, &v, &used);
	fair = fair_share(true, len, &v, &used);
	check(used > len / 3, "long system calls without budget, for %llu us",
	      (unsigned long long)used / US);
	check(kept(5000, 10000, 3 * switch_cost(), &v),
	      "beside them (5, 10) has %llu to %llu us in %d periods, gap %llu us, %lld ppm",
	      (unsigned long long)v.min / US, (unsigned long long)v.max / US, v.periods,
	      (unsigned long long)v.gap / US, (long long)v.acct_ppm);
	check(fair + 1 >= beside_hog && fair > 35,
	      "a fair task beside both has %llu of 1000, and %llu beside a FIFO-1 task",
	      (unsigned long long)fair, (unsigned long long)beside_hog);
	expect(remove_group("r"), 0, "rmdir");
}

/* CPU time of a group that does nothing but system calls of that size, in ppm. */
static unsigned long long share(size_t size, uint64_t len)
{
	uint64_t start = debts_paid(), *out = shared();
	unsigned long long ppm;

	writer("s", 10, size, start, start + len, out);
	wait_all();
	/* It ended with its last budget, and had not paid for all of that. */
	ppm = out[0] * 1000000 / (now_ns(CLOCK_MONOTONIC) - start);
	munmap(out, 4096);
	return ppm;
}

static void test_share(uint64_t section)
{
	uint64_t longest = time_of_write(LARGEST);
	unsigned long long ppm;

	expect(reserve("s", 10000, 100000), 0, "10 of 100 ms");
	ppm = share(SIZE, 3 * SEC);
	check(ppm < 105000, "nothing but system calls of %llu us: %llu ppm of 100000",
	      (unsigned long long)section / US, ppm);
	ppm = share(LARGEST, 5 * SEC);
	check(ppm < 105000, "nothing but system calls of %llu us: %llu ppm of 100000",
	      (unsigned long long)longest / US, ppm);
	/*
	 * Now one is worth 40 s. No group waits longer than 10 s, and who owes that
	 * much has an eighth of the CPU in the kernel.
	 */
	expect(reserve("s", 200, 100000), 0, "0.2 of 100 ms");
	ppm = share(LARGEST, 30 * SEC);
	check(ppm < 4 * longest / 30000 + 500, "nothing but system calls of %llu us: %llu ppm of 2000",
	      (unsigned long long)longest / US, ppm);
	test_alone(LARGEST, longest, 8 * longest);
}

/* A task that waits in user space, while its group owes seconds, dies when it is killed. */
static void test_killed(void)
{
	uint64_t start = debts_paid(), waited;
	pid_t pid;

	expect(reserve("s", 1000, 100000), 0, "1 of 100 ms");
	pid = fork();
	if (!pid) {
		become("s", 10);
		sleep_until(start);
		one_write(LARGEST);
		busy_until(UINT64_MAX);
	}
	set_policy(0, SCHED_FIFO, 99);
	sleep_until(start + 500 * MS);
	waited = now_ns(CLOCK_MONOTONIC);
	end_child(pid);
	waited = now_ns(CLOCK_MONOTONIC) - waited;
	set_policy(0, SCHED_OTHER, 0);
	check(waited < 10 * MS, "killed while its group owes for %lu MB: dead after %llu us",
	      LARGEST >> 20, (unsigned long long)waited / US);
}

/* The same if the signal comes while a hog uses the budget, and the debt after it. */
static void test_killed_before(void)
{
	uint64_t start = debts_paid(), when = start + 100 * MS + 500 * US, waited, *used = shared();
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL };
	struct itimerspec at = {
		.it_value = { when / SEC, when % SEC },
	};
	timer_t timer;
	pid_t pid, hog;

	pid = fork();
	if (!pid) {
		become("s", 10);
		if (timer_create(CLOCK_MONOTONIC, &event, &timer) ||
		    timer_settime(timer, TIMER_ABSTIME, &at, NULL))
			_exit(1);
		sleep_until(start);
		busy_until(UINT64_MAX);
	}
	hog = busy("s", 50, start, start + 3 * SEC, used);
	writer("s", 60, LARGEST, start + 100 * MS + 200 * US, 0, used);
	set_policy(0, SCHED_FIFO, 99);
	waitpid(pid, NULL, 0);
	waited = now_ns(CLOCK_MONOTONIC) - when;
	end_child(hog);
	set_policy(0, SCHED_OTHER, 0);
	wait_all();
	check(waited < 10 * MS, "killed before its group owes for %lu MB: dead after %llu us",
	      LARGEST >> 20, (unsigned long long)waited / US);
	munmap(used, 4096);
}

/* A hog in user space has its budget and no more, whoever wakes up beside it. */
static void test_user(void)
{
	uint64_t start = debts_paid(), len = SEC, t;
	struct verdict v;

	expect(reserve("s", 1000, 10000), 0, "1 of 10 ms");
	if (!fork()) {
		become("s", 5);
		for (t = start + 5 * MS; t < start + len; t += 10 * MS)
			sleep_until(t);
		_exit(0);
	}
	hogs[0] = (struct hog){
		.group = "s", .policy = SCHED_FIFO, .prio = 10, .q = 1000, .p = 10000,
		.interruptions = 2,
	};
	sleep_until(start - 20 * MS);
	run_hogs(1, len);
	judge(&hogs[0], len, &v);
	check(!v.overs && v.periods, "a hog in user space has at most %llu us of 1000 in %d periods",
	      (unsigned long long)v.max / US, v.periods);
}

void test_finish(__attribute__((unused)) const char *arg)
{
	uint64_t section;

	prepare();
	section = time_of_write(SIZE);
	make_group("s");
	make_group("r");
	pin(0);
	expect(reserve("s", 1000, 100000), 0, "1 of 100 ms");
	/* No longer than it needs. */
	test_alone(SIZE, section, 2 * section);
	test_chain("the holder is preempted by a hog of its group", section, 0);
	test_chain("three of its group wait for the lock as well", section, 3);
	expect(reserve("s", 2000, 100000), 0, "2 of 100 ms");
	test_root_task();
	test_others();
	test_share(section);
	test_killed();
	test_killed_before();
	test_user();
	expect(remove_group("s"), 0, "rmdir");
}
