// SPDX-License-Identifier: Apache-2.0
/* Priority inheritance across groups. */
#include "guest.h"

static pthread_mutex_t *pi_lock(void)
{
	pthread_mutex_t *m = shared();
	pthread_mutexattr_t a;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	if (pthread_mutex_init(m, &a))
		die("pi mutex");
	return m;
}

/* Wait for the lock, but no longer than a second: it may never come. */
static void lock_in_time(pthread_mutex_t *m)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_sec++;
	if (!pthread_mutex_timedlock(m, &ts))
		pthread_mutex_unlock(m);
}

/*
 * A low task of @holder takes the lock for 5 ms of CPU time, a FIFO-50 task of
 * @waiter wants it 1 ms later, a FIFO-20 hog of the root is in between. While
 * the holder is boosted, @change is called with its pid. Returns how long the
 * waiter waits, in us.
 */
static uint64_t inversion(const char *holder, bool rt_holder, const char *waiter,
			  void (*change)(pid_t holder))
{
	uint64_t *out = shared(), waited;
	uint64_t start = now_ns(CLOCK_MONOTONIC) + 20 * MS;
	pthread_mutex_t *m = pi_lock();
	pid_t pid;

	pid = fork();
	if (!pid) {
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
		lock_in_time(m);
		out[1] = now_ns(CLOCK_MONOTONIC);
		_exit(0);
	}
	if (!fork()) {
		if (set_policy(0, SCHED_FIFO, 20))
			_exit(1);
		sleep_until(start + 2 * MS);
		busy_until(start + 300 * MS);
		_exit(0);
	}
	if (change) {
		set_policy(0, SCHED_FIFO, 99);
		sleep_until(start + 2500 * US);
		change(pid);
		set_policy(0, SCHED_OTHER, 0);
	}
	while (wait(NULL) > 0)
		;
	waited = out[1] - out[0];
	munmap(out, 4096);
	return waited / US;
}

static void bounded(uint64_t most_us, const char *what, const char *holder, bool rt_holder,
		    const char *waiter)
{
	uint64_t us = inversion(holder, rt_holder, waiter, NULL);

	check(us < most_us, "%s: %llu us", what, (unsigned long long)us);
}

/* ---- what can happen to the group of a boosted task ---- */

static void runtime_to_0(__attribute__((unused)) pid_t holder)
{
	expect(reserve("h", 0, 10000), 0, "runtime of the holder's group to 0");
}

static void runtime_to_max(__attribute__((unused)) pid_t holder)
{
	expect(put(cg("h", "cpu.rt.max"), "max"), 0, "the holder's group to max");
}

static void child_takes_all(__attribute__((unused)) pid_t holder)
{
	expect(reserve("h/c", 1000, 10000), 0, "all of it to a group below");
}

static void move_holder(pid_t holder)
{
	expect(put(cg("z", "cgroup.procs"), "%d", holder), 0, "the holder to a group with 0");
}

static void runtime_again(__attribute__((unused)) pid_t holder)
{
	expect(reserve("h", 0, 10000), 0, "runtime of the holder's group to 0");
	usleep(12000);	/* until that is free */
	expect(reserve("h", 4000, 10000), 0, "and to 0.4");
}

static void runtime_now(__attribute__((unused)) pid_t holder)
{
	expect(reserve("h", 4000, 10000), 0, "0.4 for the holder's group");
}

static void test_changes(void)
{
	static const struct {
		const char *what;
		void (*change)(pid_t holder);
		uint64_t most_us;
	} changes[] = {
		{ "its group has nothing any more", runtime_to_0, 20000 },
		{ "its group is max", runtime_to_max, 20000 },
		{ "a group below has it all", child_takes_all, 20000 },
		/* the move itself waits for a grace period of RCU */
		{ "it is in another group", move_holder, 70000 },
		{ "its group has something again", runtime_again, 20000 },
	};
	static const char * const waiters[] = { "", "w" };
	unsigned int i, j;
	uint64_t us;

	make_group("z");
	make_group("h/c");
	expect(reserve("z", 0, 10000), 0, "a group with nothing");
	expect(put(cg("h", "cgroup.subtree_control"), "+cpu"), 0, "a group below");
	for (i = 0; i < ARRAY(changes); i++) {
		for (j = 0; j < ARRAY(waiters); j++) {
			expect(reserve("h/c", 0, 10000), 0, "the group below has nothing");
			expect(reserve("h", 1000, 10000), 0, "the holder's group has 0.1");
			us = inversion("h", false, waiters[j], changes[i].change);
			check(us < changes[i].most_us, "boosted, and %s, waiter in '%s': %llu us",
			      changes[i].what, waiters[j], (unsigned long long)us);
		}
	}
	remove_group("h/c");
	remove_group("z");
}

void test_pi(__attribute__((unused)) const char *arg)
{
	uint64_t us;

	make_group("h");
	make_group("w");
	expect(reserve("w", 5000, 10000), 0, "the waiter's group has 0.5");
	bounded(20000, "fair holder in the root, waiter in the root", "", false, "");
	bounded(20000, "fair holder in the root, waiter in a group", "", false, "w");
	expect(reserve("h", 0, 10000), 0, "the holder's group has nothing");
	bounded(20000, "fair holder without budget, waiter in the root", "h", false, "");
	bounded(20000, "fair holder without budget, waiter in a group", "h", false, "w");
	expect(reserve("h", 1000, 10000), 0, "the holder's group has 0.1");
	bounded(70000, "RT holder with 0.1, waiter in a group", "h", true, "w");
	bounded(70000, "fair holder beside 0.1, waiter in a group", "h", false, "w");

	/* A lock is no way out: what the holder uses is the waiter's. */
	expect(reserve("h", 0, 10000), 0, "the holder's group has nothing");
	expect(reserve("w", 1000, 10000), 0, "the waiter's group has 0.1");
	us = inversion("h", false, "w", NULL);
	check(us > 30000 && us < 70000, "fair holder without budget, waiter with 0.1: %llu us",
	      (unsigned long long)us);
	/* Its own reservation instead, at once: with 0.1, 3 ms would take 30. */
	us = inversion("h", false, "w", runtime_now);
	check(us < 20000, "boosted, and its group has something now, waiter with 0.1: %llu us",
	      (unsigned long long)us);
	expect(reserve("w", 5000, 10000), 0, "the waiter's group has 0.5");
	test_changes();
	remove_group("h");
	remove_group("w");
}

/* One on each CPU that holder and waiter have to wait for. */
static void crowd(const char *group, uint64_t until)
{
	int cpu;

	for (cpu = 0; cpu < 4; cpu++) {
		if (fork())
			continue;
		pin(cpu);
		if (enter(group) || set_policy(0, SCHED_FIFO, 60))
			_exit(1);
		busy_until(until);
		_exit(0);
	}
}

/*
 * The holder waits for a CPU on the queue of the waiter's group, from which
 * tasks are pushed to other CPUs, when it comes to belong elsewhere.
 */
static void test_borrower(const char *what, void (*change)(pid_t holder))
{
	uint64_t start = now_ns(CLOCK_MONOTONIC) + 50 * MS, waited;
	pthread_mutex_t *m = pi_lock();
	uint64_t *out = shared();
	pid_t holder;

	expect(reserve("h", 0, 10000), 0, "the holder's group has nothing");
	set_policy(0, SCHED_FIFO, 99);
	holder = fork();
	if (!holder) {
		if (set_policy(0, SCHED_OTHER, 0) || enter("h"))
			_exit(1);
		pthread_mutex_lock(m);
		out[1] = 1;
		while (!((volatile uint64_t *)out)[0])
			;
		spin(5 * MS);
		pthread_mutex_unlock(m);
		_exit(0);
	}
	while (!((volatile uint64_t *)out)[1])
		usleep(100);
	crowd("w", start + 300 * MS);
	if (!fork()) {
		if (enter("w") || set_policy(0, SCHED_FIFO, 50))
			_exit(1);
		out[0] = now_ns(CLOCK_MONOTONIC);
		lock_in_time(m);
		out[1] = now_ns(CLOCK_MONOTONIC);
		_exit(0);
	}
	sleep_until(start);
	change(holder);
	set_policy(0, SCHED_OTHER, 0);
	while (wait(NULL) > 0)
		;
	waited = out[1] - out[0];
	check(waited < 400 * MS, "it waits on the waiter's queue, and %s: %llu us", what,
	      (unsigned long long)waited / US);
	munmap(out, 4096);
}

void test_pi_cpus(__attribute__((unused)) const char *arg)
{
	make_group("h");
	make_group("w");
	make_group("z");
	expect(reserve("z", 0, 10000), 0, "a group with nothing");
	expect(reserve("w", 5000, 10000), 0, "the waiter's group has 0.5");
	test_borrower("its group is max", runtime_to_max);
	test_borrower("its group has something", runtime_again);
	test_borrower("it is in another group", move_holder);
	remove_group("z");
	remove_group("h");
	remove_group("w");
}
