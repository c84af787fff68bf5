// SPDX-License-Identifier: Apache-2.0
/* Sums per CPU, cpusets and hotplug: version 2, 4 CPUs. */
#include "guest.h"

#define USER 1000

/* 0 or the errno of a user's write. */
static int user_puts(const char *path, const char *text)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		if (setresgid(USER, USER, USER) || setresuid(USER, USER, USER))
			_exit(255);
		_exit(put(path, "%s", text));
	}
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		die("child");
	return WEXITSTATUS(status);
}

/* root opens the file, the user writes to it. */
static int user_writes(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY), status;
	pid_t pid = fork();

	if (!pid) {
		if (setresgid(USER, USER, USER) || setresuid(USER, USER, USER))
			_exit(255);
		_exit(write(fd, text, strlen(text)) < 0 ? errno : 0);
	}
	close(fd);
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		die("child");
	return WEXITSTATUS(status);
}

/* What a user who owns the cpuset of a top reservation can do with it. */
static void widen(void)
{
	char *before;

	make_group("u");
	expect(put(cg("u", "cpuset.cpus"), "0"), 0, "u is on CPU 0");
	expect(reserve("u", 400, 1000), 0, "root reserves 0.4 for it");
	if (chown(cg("u", "cpuset.cpus"), USER, USER) ||
	    chown(cg("u", "cpuset.cpus.partition"), USER, USER))
		die("chown");
	before = strdup(get(cg("", "cpu.rt.effective")));
	expect(user_puts("/cg/u/cpuset.cpus", "0-3"), EPERM, "user widens it to four CPUs");
	expect(user_puts("/cg/u/cpuset.cpus", "0-1"), EPERM, "to two");
	expect(user_puts("/cg/u/cpuset.cpus", "1"), EPERM, "or takes it to another");
	expect(user_puts("/cg/u/cpuset.cpus", "\n"), EPERM, "or to all");
	check(!strcmp(get(cg("u", "cpuset.cpus")), "0"), "it is on CPU %s",
	      get(cg("u", "cpuset.cpus")));
	check(!strcmp(before, get(cg("", "cpu.rt.effective"))), "the CPUs have given what they had");
	expect(user_writes("/cg/u/cpuset.cpus", "0-1"), EPERM, "root's open file, the user writes");
	expect(put(cg("u", "cpuset.cpus"), "0-1"), 0, "root widens it");
	expect(user_puts("/cg/u/cpuset.cpus", "1"), 0, "user gives CPU 0 back");
	expect(user_puts("/cg/u/cpuset.cpus", "0-1"), EPERM, "and wants it again");
	expect(put(cg("u", "cpuset.cpus"), "0-1"), 0, "root gives it");
	expect(put(cg("u", "cpuset.cpus.exclusive"), "0"), 0, "one of them exclusively");
	expect(put(cg("u", "cpuset.cpus.partition"), "root"), 0, "a partition has that only");
	if (chown(cg("u", "cpuset.cpus.exclusive"), USER, USER))
		die("chown");
	expect(user_puts("/cg/u/cpuset.cpus.exclusive", "0-1"), EPERM, "user wants both");
	check(!strcmp(get(cg("u", "cpuset.cpus.effective")), "0"), "it is on CPU %s",
	      get(cg("u", "cpuset.cpus.effective")));
	expect(remove_group("u"), 0, "rmdir u");
	usleep(50000);
}

static bool on_cpu_0(const char *group)
{
	return !strcmp(get(cg(group, "cpu.rt.effective")),
		       "0 runtime_ns=400000 period_ns=1000000");
}

/*
 * The same by the controller: where it is switched off, the cpuset above counts,
 * and here that has four CPUs. Nobody asks the user for a capability then.
 */
static void widen_by_controller(void)
{
	make_group("u");
	expect(put(cg("u", "cgroup.subtree_control"), "+cpuset +cpu"), 0, "u has groups");
	make_group("u/r");
	if (chown(cg("u", "cgroup.subtree_control"), USER, USER) ||
	    chown(cg("u/r", "cpu.rt.max"), USER, USER))
		die("chown");
	expect(put(cg("u/r", "cpuset.cpus"), "0"), 0, "u/r is on CPU 0");
	expect(reserve("u/r", 400, 1000), 0, "root reserves 0.4 for it");
	expect(user_puts("/cg/u/cgroup.subtree_control", "-cpuset"), 0, "user wants no cpusets");
	usleep(200000);	/* until that of u/r is offline */
	check(on_cpu_0("u/r"), "u/r has its 0.4 on %s", get(cg("u/r", "cpu.rt.effective")));
	check(in_log("stays on CPUs 0 of 0-3: /u/r\n"), "the log says so");
	make_group("other");
	expect(put(cg("other", "cpuset.cpus"), "1"), 0, "root changes another cpuset");
	check(on_cpu_0("u/r"), "u/r has its 0.4 on %s", get(cg("u/r", "cpu.rt.effective")));
	expect(user_puts("/cg/u/cgroup.subtree_control", "+cpuset"), 0, "user wants cpusets again");
	check(on_cpu_0("u/r"), "u/r has its 0.4 on %s", get(cg("u/r", "cpu.rt.effective")));
	expect(user_puts("/cg/u/r/cpu.rt.max", "400 1000"), EPERM, "user writes 0.4 again");
	expect(user_puts("/cg/u/cgroup.subtree_control", "-cpuset"), 0, "after all, none");
	usleep(200000);
	expect(user_puts("/cg/u/r/cpu.rt.max", "400 1000"), EPERM, "and then 0.4 again");
	check(on_cpu_0("u/r"), "u/r has its 0.4 on %s", get(cg("u/r", "cpu.rt.effective")));
	expect(reserve("u/r", 400, 1000), 0, "root writes it");
	check(!on_cpu_0("u/r"), "u/r has more than CPU 0");
	expect(remove_group("other"), 0, "rmdir");
	expect(remove_group("u/r"), 0, "rmdir");
	expect(remove_group("u"), 0, "rmdir");
	usleep(50000);
}

/* The limits of the periods have moved past a group's: it can still go. */
static void limits_moved(void)
{
	static const char sysctl[] = "/proc/sys/kernel/sched_deadline_period_min_us";
	char *free = strdup(get(cg("", "cpu.rt.effective")));
	char *old = strdup(get(sysctl));

	make_group("s");
	make_group("t");
	expect(reserve("s", 100, 1000), 0, "0.1 in a period of 1 ms");
	expect(reserve("t", 100, 1000), 0, "and again");
	expect(put(sysctl, "5000"), 0, "periods are 5 ms or more from now on");
	expect(reserve("s", 200, 1000), EINVAL, "no runtime with a period that is too short");
	expect(reserve("s", 0, 1000), 0, "but none at all");
	expect(remove_group("s"), 0, "rmdir");
	expect(remove_group("t"), 0, "rmdir with a runtime");
	usleep(50000);
	check(!strcmp(free, get(cg("", "cpu.rt.effective"))), "the CPUs have all of it back");
	expect(put(sysctl, "%s", old), 0, "the old limit");
}

/* What is not extended is named in the log. */
static void named_in_log(void)
{
	make_group("par");
	expect(put(cg("par", "cgroup.subtree_control"), "+cpuset +cpu"), 0, "cpusets below");
	make_group("par/x");
	make_group("par/y");
	expect(put(cg("par/x", "cpuset.cpus"), "0"), 0, "x is on CPU 0");
	expect(put(cg("par/y", "cpuset.cpus"), "1"), 0, "y is on CPU 1");
	expect(reserve("par/x", 600, 1000), 0, "0.6 for x");
	expect(reserve("par/y", 600, 1000), 0, "0.6 for y");
	expect(put(cg("par", "cgroup.subtree_control"), "-cpuset"), 0, "no cpusets any more");
	usleep(50000);	/* until its cpuset is offline */
	check(in_log("stays on CPUs 0 of 0-3: /par/x\n"), "the log names x");
	expect(remove_group("par/x"), 0, "rmdir");
	expect(remove_group("par/y"), 0, "rmdir");
	expect(remove_group("par"), 0, "rmdir");
	usleep(50000);
}

/* The queue of a group on a CPU is in the kernel's debug file, with its server. */
static void shown_in_debugfs(void)
{
	static char text[1 << 18];
	size_t len;
	FILE *f;
	char *at;
	pid_t pid;
	int err;

	make_group("shown");
	expect(put(cg("shown", "cpuset.cpus"), "2"), 0, "a group on CPU 2");
	expect(reserve("shown", 3000, 10000), 0, "0.3");
	pid = rt_child("shown", &err);
	expect(err, 0, "a FIFO task");
	f = fopen("/sys/kernel/debug/sched/debug", "r");
	len = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
	text[len] = 0;
	if (f)
		fclose(f);
	at = strstr(text, "rt_rq[2]:/shown\n");
	check(at && strstr(at, "  .dl_runtime                    : 3.000000\n"),
	      "its queue on CPU 2 is shown, with 3 ms");
	check(!strstr(text, "rt_rq[1]:/shown\n"), "and none on CPU 1");
	end_child(pid);
	expect(remove_group("shown"), 0, "rmdir");
	usleep(50000);
}

void test_percpu(__attribute__((unused)) const char *arg)
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
	/* All four at the same time, each on a CPU of its own. */
	for (i = 0; i < 4; i++) {
		static const char * const busy[] = { "p0", "p1", "p3", "p4" };

		hogs[i] = (struct hog){ .group = busy[i], .policy = SCHED_FIFO, .prio = 10,
					.q = 9000, .p = 10000 };
	}
	run_hogs(4, 500 * MS);
	for (i = 0; i < 4; i++) {
		/* 0.1 %, and what the last reading is late */
		check(hogs[i].cpu_ns > 449500 * US && hogs[i].cpu_ns < 450500 * US,
		      "%s beside the other three: %llu us of 450000", hogs[i].group,
		      (unsigned long long)hogs[i].cpu_ns / US);
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
	usleep(50000);
	shown_in_debugfs();
	widen();
	widen_by_controller();
	limits_moved();
	named_in_log();
}
