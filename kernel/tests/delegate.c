// SPDX-License-Identifier: Apache-2.0
/* What a user without a privilege can do with groups that are delegated. */
#include "guest.h"

#include <sys/resource.h>

static int exit_code(pid_t pid)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		die("child");
	return WEXITSTATUS(status);
}

int user_puts(const char *path, const char *text)
{
	pid_t pid = fork();

	if (!pid) {
		become_user();
		if (text)
			_exit(put(path, "%s", text));
		_exit(mkdir(path, 0755) ? errno : 0);
	}
	return exit_code(pid);
}

int put_by_two(const char *path, const char *text, bool user_opens)
{
	pid_t pid = fork();
	int fd;

	if (!pid) {
		if (user_opens && seteuid(USER))
			_exit(255);
		fd = open(path, O_WRONLY);
		if (fd < 0)
			_exit(254);
		if (user_opens ? seteuid(0) : setresuid(USER, USER, USER))
			_exit(253);
		_exit(write(fd, text, strlen(text)) < 0 ? errno : 0);
	}
	return exit_code(pid);
}

/* The user becomes a FIFO task in @group, with that limit. */
static int user_fifo(const char *group, int prio, rlim_t limit)
{
	struct rlimit rl = { limit, limit };
	pid_t pid = fork();

	if (!pid) {
		if (setrlimit(RLIMIT_RTPRIO, &rl) || enter(group))
			_exit(255);
		become_user();
		_exit(set_policy(0, SCHED_FIFO, prio));
	}
	return exit_code(pid);
}

static void check_sum(const char *want, const char *when)
{
	char *now = get(cg("", "cpu.rt.effective"));

	check(!strcmp(now, want), "%s the CPU has given: %s", when, now);
}

static void test_v2(void)
{
	char *free = strdup(get(cg("", "cpu.rt.effective")));
	char *half;

	expect(user_puts("/cg/u/cgroup.subtree_control", "+cpu"), 0, "user has groups");
	expect(user_puts("/cg/u/r", NULL), 0, "user makes u/r");
	expect(user_puts("/cg/u/s", NULL), 0, "user makes u/s");

	expect(user_puts("/cg/u/cpu.rt.max", "250 1000"), EACCES, "user writes to what root has");
	expect(user_puts("/cg/u/r/cpu.rt.max", "940 1000"), EPERM, "user takes 0.94 from the root");
	expect(user_puts("/cg/u/r/cpu.rt.max", "2 1000"), EPERM, "user takes 0.002");
	expect(user_puts("/cg/u/r/cpu.rt.max", "960 1000"), EPERM, "user takes what nobody has");
	check_sum(free, "after that");
	expect(user_puts("/cg/u/r/cpu.rt.max", "0 1000"), 0, "user keeps RT tasks out");
	expect(user_puts("/cg/u/r/cpu.rt.max", "max"), 0, "user lets them in");

	expect(reserve("u", 500, 1000), 0, "root reserves 0.5 for u");
	half = strdup(get(cg("", "cpu.rt.effective")));
	expect(user_puts("/cg/u/r/cpu.rt.max", "600 1000"), EINVAL, "user shares out more");
	expect(user_puts("/cg/u/r/cpu.rt.max", "300 1000"), 0, "user shares out 0.3");
	expect(user_puts("/cg/u/s/cpu.rt.max", "250 1000"), EINVAL, "and 0.25");
	expect(user_puts("/cg/u/r/cpu.rt.max", "250 1000"), 0, "user has u/r smaller");
	expect(user_puts("/cg/u/s/cpu.rt.max", "250 1000"), 0, "and now 0.25");
	check_sum(half, "with all shared out");

	/* Without what was above them they are the top reservations. */
	expect(put(cg("u", "cpu.rt.max"), "max"), 0, "root has u max");
	check_sum(half, "with u max");
	expect(user_puts("/cg/u/r/cpu.rt.max", "251 1000"), EPERM, "user has u/r larger");
	expect(user_puts("/cg/u/r/cpu.rt.max", "250 999"), EPERM, "by its period");
	expect(user_puts("/cg/u/r/cpu.rt.max", "250 1000"), 0, "as it is");
	expect(user_puts("/cg/u/r/cpu.rt.max", "500 2000"), EPERM, "in a longer period");
	expect(user_puts("/cg/u/r/cpu.rt.max", "max 2000"), EPERM, "which is for later");
	expect(user_puts("/cg/u/r/cpu.rt.max", "125 500"), 0, "in a shorter period");
	expect(put(cg("u/r", "cpu.rt.max"), "250 1000"), 0, "root makes it longer again");
	expect(user_puts("/cg/u/r/cpu.rt.max", "125 1000"), 0, "user gives half of it back");
	expect(user_puts("/cg/u/r/cpu.rt.max", "250 1000"), EPERM, "and wants it again");
	expect(user_puts("/cg/u/s/cpu.rt.max", "375 1000"), EPERM, "or in the other group");

	give("u", "cpu.rt.max");
	expect(user_puts("/cg/u/cpu.rt.max", "376 1000"), EPERM, "user reserves more above them");
	expect(user_puts("/cg/u/cpu.rt.max", "375 1000"), 0, "user reserves what they have");
	expect(user_puts("/cg/u/r/cpu.rt.max", "130 1000"), EINVAL, "which they have to share");

	/* Whoever opened it. */
	expect(put_by_two("/cg/u/cpu.rt.max", "500 1000", true), EPERM,
	       "the user's file, root writes");
	expect(put_by_two("/cg/u/cpu.rt.max", "500 1000", false), 0,
	       "root's file, the user writes");
	check_sum(half, "again");

	expect(user_fifo("u", 10, 0), EPERM, "FIFO in a reservation, no privilege");
	expect(user_fifo("u", 10, 10), 0, "FIFO-10, RLIMIT_RTPRIO is 10");
	expect(user_fifo("u", 11, 10), EPERM, "FIFO-11, RLIMIT_RTPRIO is 10");

	expect(remove_group("u/r"), 0, "rmdir u/r");
	expect(remove_group("u/s"), 0, "rmdir u/s");
	usleep(50000);	/* until they are offline */
	expect(reserve("u", 0, 1000), 0, "u has nothing");
	check_sum(free, "in the end");
}

static void test_v1(void)
{
	expect(put(cg("u", "cpu.rt_runtime_us"), "-1"), 0, "u is max");
	expect(user_puts("/cg/u/r", NULL), 0, "user makes u/r");
	expect(user_puts("/cg/u/r/cpu.rt_runtime_us", "250000"), EPERM, "user takes 0.25");
	expect(user_puts("/cg/u/r/cpu.rt_runtime_us", "0"), 0, "user has 0");

	expect(reserve("u", 500000, 1000000), 0, "root reserves 0.5 for u");
	expect(user_puts("/cg/u/r/cpu.rt_runtime_us", "600000"), EINVAL, "user shares out more");
	expect(user_puts("/cg/u/r/cpu.rt_runtime_us", "500000"), 0, "user shares out all of it");
	expect(user_puts("/cg/u/r/cpu.rt_period_us", "2000000"), EPERM, "in twice the period");
	expect(put(cg("u/r", "cpu.rt_period_us"), "2000000"), 0, "root does that");
	expect(put(cg("u", "cpu.rt_runtime_us"), "-1"), 0, "root has u max");
	expect(user_puts("/cg/u/r/cpu.rt_period_us", "1000000"), EPERM, "user halves the period");
	expect(user_puts("/cg/u/r/cpu.rt_runtime_us", "500010"), EPERM, "user wants 10 us more");
	expect(user_puts("/cg/u/r/cpu.rt_runtime_us", "250000"), 0, "user gives half back");
	expect(user_puts("/cg/u/r/cpu.rt_runtime_us", "500000"), EPERM, "and wants it again");
	expect(put(cg("u/r", "cpu.rt_runtime_us"), "500000"), 0, "root gives it");
	expect(remove_group("u/r"), 0, "rmdir u/r");
}

void test_delegate(__attribute__((unused)) const char *arg)
{
	make_group("u");
	delegate("u");
	if (v2)
		test_v2();
	else
		test_v1();
	expect(remove_group("u"), 0, "rmdir u");
}
