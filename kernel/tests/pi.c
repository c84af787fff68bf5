// SPDX-License-Identifier: Apache-2.0
/* Priority inheritance across groups. */
#include "guest.h"

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

void test_pi(__attribute__((unused)) const char *arg)
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
