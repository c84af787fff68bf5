// SPDX-License-Identifier: Apache-2.0
/* A second task of a group wakes up in the last moment of the group's budget. */
#include "guest.h"
#include <poll.h>
#include <sys/resource.h>

#define STEP 100	/* ns */
#define STEPS 300
#define LATEST (20 * US)	/* the server starts a little later than the hog is due */
#define CYCLE (20 * MS)
#define FILES 4000

/* Close to the end of a budget of 3 ms, from a little after it to some 10 us before. */
static uint64_t due_at(uint64_t start, int step)
{
	return start + (step + 1) * CYCLE + 3 * MS + LATEST - step * STEP;
}

static pid_t hog(const char *group, int prio, uint64_t start, uint64_t *gap)
{
	uint64_t t, last;
	pid_t pid = fork();

	if (pid)
		return pid;
	if (enter(group) || set_policy(0, SCHED_FIFO, prio))
		_exit(1);
	sleep_until(start);
	for (last = now_ns(CLOCK_MONOTONIC);; last = t) {
		t = now_ns(CLOCK_MONOTONIC);
		if (t - last > *gap)
			*gap = t - last;
	}
}

/*
 * It has a higher priority than the hog of its group. Whenever it comes, what is
 * left of the budget is all that it may have until the next period: nothing if it
 * comes first 20 us late, and some 10 us when it comes that much early at last.
 */
static void test_user_space(uint64_t start)
{
	uint64_t *out = shared();
	uint64_t due, used = 0, c0, *first = out + 2, *last = out + 3;
	pid_t guest = fork();
	int i;

	if (!guest) {
		if (enter("g") || set_policy(0, SCHED_FIFO, 20))
			_exit(1);
		for (i = 0; i < STEPS; i++) {
			due = due_at(start, i);
			sleep_until(due);
			c0 = now_ns(CLOCK_THREAD_CPUTIME_ID);
			busy_until(due + 5 * MS);
			used = now_ns(CLOCK_THREAD_CPUTIME_ID) - c0;
			if (used > out[0]) {
				out[0] = used;
				out[1] = i;
			}
			if (!i)
				*first = used;
		}
		*last = used;
		_exit(0);
	}
	waitpid(guest, NULL, 0);
	check(*last > *first + 5 * US, "after the end of a budget it has %llu us, before it %llu us",
	      (unsigned long long)*first / US, (unsigned long long)*last / US);
	check(out[0] < tolerance(3000, 10000, 0),
	      "%d times at the end of a budget: at most %llu us, at number %llu", STEPS,
	      (unsigned long long)out[0] / US, (unsigned long long)out[1]);
	munmap(out, 4096);
}

/*
 * The same for one that does not return to user space then: poll() looks at all its
 * files again. A FIFO task of the root group that is always ready goes before that,
 * when there is no budget.
 */
static void test_kernel(uint64_t start)
{
	struct rlimit limit = { FILES, FILES };
	struct pollfd files[FILES];
	uint64_t *gap = shared(), due, now;
	struct timespec left;
	pid_t guest, root;
	int i, ends[2];

	if (pipe(ends))
		die("pipe");
	for (i = 0; i < FILES; i++)
		files[i] = (struct pollfd){ .fd = ends[0], .events = POLLIN };
	guest = fork();
	if (!guest) {
		if (setrlimit(RLIMIT_NOFILE, &limit) || enter("g") ||
		    set_policy(0, SCHED_FIFO, 20))
			_exit(1);
		for (i = 0; i < STEPS; i++) {
			due = due_at(start, i);
			now = now_ns(CLOCK_MONOTONIC);
			left = (struct timespec){ 0, due > now ? due - now : 0 };
			if (ppoll(files, FILES, &left, NULL))
				_exit(1);
		}
		_exit(0);
	}
	root = hog("", 5, start, gap);
	waitpid(guest, &i, 0);
	end_child(root);
	check(!i && *gap > 2900 * US && *gap < 3 * MS + 2 * tolerance(3000, 10000, 0),
	      "%d times in the kernel: a task of the root group waits for %llu us at most",
	      STEPS, (unsigned long long)*gap / US);
	munmap(gap, 4096);
}

void test_edge(__attribute__((unused)) const char *arg)
{
	uint64_t start = now_ns(CLOCK_MONOTONIC) + 50 * MS, ignored = 0;
	pid_t busy;

	make_group("g");
	expect(reserve("g", 3000, 10000), 0, "3 of 10 ms");
	/* The server's periods begin at the start. */
	busy = hog("g", 10, start, &ignored);
	test_user_space(start);
	test_kernel(start + (STEPS + 10) * CYCLE);
	end_child(busy);
	expect(remove_group("g"), 0, "rmdir");
}
