// SPDX-License-Identifier: Apache-2.0
/* What a group's files say of its tasks while these end. */
#include "guest.h"

#define READINGS 2000

static void *nothing(void *arg)
{
	return arg;
}

/* The main thread stays, and others come and go. */
static void come_and_go(void)
{
	pthread_t thread;

	if (enter("g"))
		_exit(1);
	for (;;) {
		if (!pthread_create(&thread, NULL, nothing, NULL))
			pthread_join(thread, NULL);
	}
}

/* How many lines of the file are @pid, and how many 0. */
static void count(const char *file, pid_t pid, int *found, int *zeros)
{
	char *line = get(cg("g", file));

	for (; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		*found += atoi(line) == pid;
		*zeros += atoi(line) == 0;
	}
}

/*
 * A FIFO task stops the threads wherever they are, in steps that are no multiple of
 * what one needs from its start to its end.
 */
static void read_while_going(const char *file, pid_t pid)
{
	int i, found = 0, zeros = 0;
	uint64_t t = now_ns(CLOCK_MONOTONIC);

	for (i = 0; i < READINGS; i++) {
		t += 199999;
		sleep_until(t);
		count(file, pid, &found, &zeros);
	}
	check(found == READINGS && !zeros, "%s, read %d times: %d times the main thread, %d zeros",
	      file, READINGS, found, zeros);
}

/* One that lives and has no number in the reader's namespace is still there. */
static void read_elsewhere(void)
{
	int *zeros = shared(), found = 0;

	if (!fork()) {
		if (unshare(CLONE_NEWPID))
			die("unshare");
		if (!fork()) {
			count("cgroup.procs", -1, &found, zeros);
			_exit(0);
		}
		wait(NULL);
		_exit(0);
	}
	wait(NULL);
	check(*zeros == 1, "a task of another pid namespace: %d zeros of 1", *zeros);
	munmap(zeros, 4096);
}

void test_going(__attribute__((unused)) const char *arg)
{
	pid_t pid, sleeper;
	int err;

	make_group("g");
	pid = fork();
	if (!pid)
		come_and_go();
	expect(set_policy(0, SCHED_FIFO, 50), 0, "FIFO");
	read_while_going("cgroup.threads", pid);
	read_while_going("cgroup.procs", pid);
	expect(set_policy(0, SCHED_OTHER, 0), 0, "fair");
	end_child(pid);

	expect(reserve("g", 5000, 10000), 0, "reserve");
	sleeper = rt_child("g", &err);
	read_elsewhere();
	end_child(sleeper);
	remove_group("g");
}
