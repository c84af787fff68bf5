// SPDX-License-Identifier: Apache-2.0
/* Refusals: what may not be reserved, and who may not come in. */
#include "guest.h"

/* An RT task that comes from elsewhere, by a move or as a child. */
static void test_rt_arrivals(void)
{
	struct {
		uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack,
			stack_size, tls, set_tid, set_tid_size, cgroup;
	} args = { .exit_signal = SIGCHLD };
	int status;
	pid_t pid;

	make_group("e");
	expect(reserve("e", 0, 1000), 0, "a group with nothing");
	pid = fork();
	if (!pid) {
		set_policy(0, SCHED_FIFO, 10);
		_exit(enter("e"));
	}
	waitpid(pid, &status, 0);
	expect(WEXITSTATUS(status), EINVAL, "RT task moves to runtime 0");
	if (v2) {
		set_policy(0, SCHED_FIFO, 10);
		args.flags = 0x200000000ULL;	/* CLONE_INTO_CGROUP */
		args.cgroup = open("/cg/e", O_RDONLY | O_DIRECTORY);
		pid = syscall(SYS_clone3, &args, sizeof(args));
		if (!pid)
			_exit(0);
		expect(pid < 0 ? errno : 0, EINVAL, "RT task has its child in runtime 0");
		if (pid > 0)
			waitpid(pid, NULL, 0);
		set_policy(0, SCHED_OTHER, 0);
		pid = syscall(SYS_clone3, &args, sizeof(args));
		if (!pid)
			_exit(0);
		expect(pid < 0 ? errno : 0, 0, "fair task has its child there");
		if (pid > 0)
			waitpid(pid, NULL, 0);
		close(args.cgroup);
	}
	expect(remove_group("e"), 0, "rmdir e");
}

/* The limits of periods have moved: what was within can be given back. */
static void test_new_limits(void)
{
	static const char limit[] = "/proc/sys/kernel/sched_deadline_period_min_us";
	char *before = strdup(get(limit));

	expect(put(limit, "5000"), 0, "another minimum of periods");
	expect(reserve("d", 900, 1000), EINVAL, "which is not kept");
	expect(put(cg("d", v2 ? "cpu.rt.max" : "cpu.rt_runtime_us"), "0"), 0, "runtime to 0");
	expect(put(limit, "%s", before), 0, "minimum as before");
	expect(reserve("d", 940, 1000), 0, "0.94 again");
	expect(put(limit, "5000"), 0, "another minimum of periods");
	expect(remove_group("d"), 0, "rmdir d");
	usleep(50000);
	expect(put(limit, "%s", before), 0, "minimum as before");
}

void test_refuse(__attribute__((unused)) const char *arg)
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
	expect(reserve("a/c", 500, 1000), 0, "the child has all of its parent");
	pid = rt_child("a", &err);
	expect(err, EPERM, "RT task into the parent");
	end_child(pid);
	expect(reserve("a/c", 300, 1000), 0, "the parent has something again");
	pid = rt_child("a", &err);
	expect(err, 0, "RT task into the parent");
	expect(reserve("a/c", 500, 1000), EBUSY, "all to the child with an RT task in the parent");
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
	test_rt_arrivals();
	expect(remove_group("a/c"), 0, "rmdir child");
	expect(remove_group("a"), 0, "rmdir a");
	expect(remove_group("b"), 0, "rmdir b");
	usleep(50000);
	make_group("d");
	expect(reserve("d", 940, 1000), 0, "all bandwidth is back");
	test_new_limits();
	make_group("d");
	expect(reserve("d", 940, 1000), 0, "all bandwidth is back, whatever the limits");
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
