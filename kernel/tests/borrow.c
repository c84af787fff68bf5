// SPDX-License-Identifier: Apache-2.0
/*
 * A tenant changes the groups below a lock's holder: version 2, 2 CPUs.
 *
 * A fair task whose group has a runtime of 0 runs, boosted, on the queue of
 * the task that waits for its lock. The tasks and the writes that change u/h are
 * those of uid 1000, with RLIMIT_RTPRIO; root only puts the tasks into groups that
 * belong to uid 1000, and reserves. The argument "waiter" takes the last part only.
 */
#include "guest.h"

#include <sys/resource.h>

#define USER 1000
#define LEN (120 * MS)

static struct shared {
	pthread_mutex_t lock;
	uint64_t held_ns;
} *sh;

static void become_user(const char *group)
{
	struct rlimit rl = { 99, 99 };

	int err = enter(group);

	if (err || setrlimit(RLIMIT_RTPRIO, &rl) || setresgid(USER, USER, USER) ||
	    setresuid(USER, USER, USER)) {
		printf("FAIL becoming a user of %s: %d %d\n", group, err, errno);
		_exit(255);
	}
}

static void make_locks(void)
{
	pthread_mutexattr_t a;

	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sh == MAP_FAILED)
		die("memory");
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	if (pthread_mutex_init(&sh->lock, &a))
		die("pi mutex");
}

static void lock_for_a_while(pthread_mutex_t *m)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_nsec += LEN + 400 * MS;
	if (ts.tv_nsec >= (long)SEC) {
		ts.tv_sec++;
		ts.tv_nsec -= SEC;
	}
	if (!pthread_mutex_timedlock(m, &ts))
		pthread_mutex_unlock(m);
}

/* A FIFO task of @group that does @what from @from to @to. */
static void fifo(const char *group, int prio, uint64_t from, uint64_t to, bool sleeps,
		 pthread_mutex_t *wants)
{
	if (fork())
		return;
	become_user(group);
	if (set_policy(0, SCHED_FIFO, prio))
		_exit(1);
	sleep_until(from);
	if (wants)
		lock_for_a_while(wants);
	while (!wants && now_ns(CLOCK_MONOTONIC) < to) {
		spin(300 * US);
		if (sleeps)
			usleep(200);
	}
	_exit(0);
}

/*
 * The holder of u/h is boosted by a waiter of u/w, and waits behind tasks of
 * u/w that use the budget of both CPUs up: it is on a list of tasks to push.
 */
static void borrow(bool sleeps, const char *const *writes)
{
	uint64_t start = now_ns(CLOCK_MONOTONIC) + 100 * MS;
	int status, bad = 0;
	pid_t writer;

	if (!fork()) {
		become_user("u/h");
		pthread_mutex_lock(&sh->lock);
		sleep_until(start);
		while (now_ns(CLOCK_MONOTONIC) < start + LEN) {
			spin(200 * US);
			if (sleeps)
				usleep(100);
		}
		pthread_mutex_unlock(&sh->lock);
		_exit(0);
	}
	fifo("u/w", 50, start - 20 * MS, 0, false, &sh->lock);
	fifo("u/w", 60, start, start + LEN, sleeps, NULL);
	fifo("u/w", 60, start, start + LEN, sleeps, NULL);
	writer = fork();
	if (!writer) {
		become_user("u/z");
		sleep_until(start + 10 * MS);
		while (now_ns(CLOCK_MONOTONIC) < start + LEN) {
			int i;

			for (i = 0; writes[i]; i++) {
				if (put(cg("u/h", "cpu.rt.max"), "%s", writes[i]))
					bad = 1;
				usleep(3000);
			}
		}
		_exit(bad);
	}
	waitpid(writer, &status, 0);
	check(!status, "uid 1000's writes are accepted, status %#x", status);
	while (wait(NULL) > 0)
		;
}

/* CPU time in us that the holder gets in 100 ms while waiters change. */
static uint64_t change_of_waiter(void)
{
	uint64_t start = now_ns(CLOCK_MONOTONIC) + 100 * MS;

	sh->held_ns = 0;
	if (!fork()) {
		uint64_t c0;

		pin(0);
		become_user("u/h");
		pthread_mutex_lock(&sh->lock);
		sleep_until(start);
		while (now_ns(CLOCK_MONOTONIC) < start + 50 * MS)
			;
		c0 = now_ns(CLOCK_THREAD_CPUTIME_ID);
		while (now_ns(CLOCK_MONOTONIC) < start + 150 * MS)
			;
		sh->held_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - c0;
		pthread_mutex_unlock(&sh->lock);
		_exit(0);
	}
	/*
	 * Same priority: 0.3 lends for 30 ms, and then 0.1 is what is left. The
	 * first waiter is on another CPU, since the holder does not let it pass.
	 */
	if (!fork()) {
		struct timespec ts;

		pin(1);
		become_user("u/w");
		if (set_policy(0, SCHED_FIFO, 50))
			_exit(1);
		sleep_until(start - 20 * MS);
		clock_gettime(CLOCK_REALTIME, &ts);
		ts.tv_nsec += 50 * MS;
		if (ts.tv_nsec >= (long)SEC) {
			ts.tv_sec++;
			ts.tv_nsec -= SEC;
		}
		if (!pthread_mutex_timedlock(&sh->lock, &ts))
			pthread_mutex_unlock(&sh->lock);
		_exit(0);
	}
	fifo("u/x", 50, start - 10 * MS, 0, false, &sh->lock);
	/* Root's own, so that there is nothing for fair tasks. */
	if (!fork()) {
		pin(0);
		if (set_policy(0, SCHED_FIFO, 20))
			_exit(1);
		sleep_until(start);
		while (now_ns(CLOCK_MONOTONIC) < start + 150 * MS)
			;
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
	return sh->held_ns / US;
}

void test_borrow(const char *arg)
{
	static const char * const to_max[] = { "max", "0 10000", NULL };
	static const char * const to_some[] = { "1000 10000", "0 10000", "max", "0 10000", NULL };
	static const char * const files[] = {
		"", "cgroup.procs", "cgroup.subtree_control", "cpu.rt.max",
	};
	static const char * const groups[] = { "u", "u/h", "u/w", "u/x", "u/z" };
	unsigned int i, j;
	uint64_t us;

	for (i = 0; i < ARRAY(groups); i++) {
		make_group(groups[i]);
		for (j = 0; j < ARRAY(files); j++) {
			if (chown(cg(groups[i], files[j]), USER, USER))
				die("chown");
		}
		if (!i)
			expect(put(cg("u", "cgroup.subtree_control"), "+cpu"), 0, "groups below");
	}
	make_locks();
	expect(put(cg("u/h", "cpu.rt.max"), "0 10000"), 0, "the holder's group has nothing");

	/* These are top reservations: without its own, u/h is in the root's. */
	expect(reserve("u/w", 3000, 10000), 0, "the waiter's group has 0.3");
	if (!strcmp(arg, "waiter"))
		goto waiter;
	borrow(false, to_max);
	borrow(true, to_max);
	check(true, "the kernel lives: u/h became max beside a boosted holder");

	/* And below a reservation, where a share is to be had as well. */
	expect(reserve("u", 5000, 10000), 0, "all of it in 0.5");
	borrow(false, to_some);
	borrow(true, to_some);
	check(true, "the kernel lives: u/h changed its owner");

waiter:
	expect(put(cg("u/h", "cpu.rt.max"), "0 10000"), 0, "the holder's group has nothing");
	expect(reserve("u/x", 1000, 10000), 0, "the second waiter's group has 0.1");
	us = change_of_waiter();
	check(us > 5000 && us < 15000,
	      "holder after the waiter of 0.3 left one of 0.1 behind: %llu us of 100000",
	      (unsigned long long)us);

	for (i = ARRAY(groups); i-- > 0; )
		expect(remove_group(groups[i]), 0, "rmdir");
}
