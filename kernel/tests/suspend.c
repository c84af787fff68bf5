// SPDX-License-Identifier: Apache-2.0
/*
 * Reservations while the CPUs but one are offline and all tasks are frozen, as
 * in suspend, hibernation and kexec with a return: version 2, 4 CPUs.
 */
#include <sys/klog.h>

#include "guest.h"

/*
 * Hibernation up to the point where one CPU is left, and back. The write does
 * not tell when that was refused; the log does.
 */
static int freeze_cpus(void)
{
	static char log[1 << 18];
	int err, len;

	klogctl(5 /* clear */, NULL, 0);
	if (put("/sys/module/hibernate/parameters/pm_test_delay", "0") ||
	    put("/sys/power/pm_test", "processors") || put("/sys/power/disk", "shutdown"))
		die("/sys/power");
	err = put("/sys/power/state", "disk");
	len = klogctl(3 /* read all */, log, sizeof(log) - 1);
	log[len > 0 ? len : 0] = 0;
	if (!err && strstr(log, "Error taking CPU"))
		err = EBUSY;
	if (!err && !strstr(log, "Enabling non-boot CPUs"))
		err = ENOENT;
	return err;
}

/* One that is busy from before to after. */
static pid_t hog(const char *group)
{
	pid_t pid = fork();

	if (!pid) {
		if (enter(group) || set_policy(0, SCHED_FIFO, 10))
			_exit(1);
		for (;;)
			;
	}
	return pid;
}

/* Long periods: hibernation has interrupts off for 21 ms here. */
void test_suspend(__attribute__((unused)) const char *arg)
{
	char *effective, *bw, *wide, *one;
	pid_t pids[2];
	uint64_t got;
	int i;

	expect(freeze_cpus(), 0, "nothing reserved: other CPUs off and on");
	make_group("wide");
	make_group("one");
	expect(put(cg("one", "cpuset.cpus"), "3"), 0, "cpuset");
	expect(reserve("wide", 40000, 100000), 0, "0.4 on all CPUs");
	expect(reserve("one", 50000, 100000), 0, "0.5 on CPU 3");
	effective = strdup(get(cg("", "cpu.rt.effective")));
	wide = strdup(get(cg("wide", "cpu.rt.effective")));
	one = strdup(get(cg("one", "cpu.rt.effective")));
	bw = strdup(admitted());
	expect(put("/sys/devices/system/cpu/cpu3/online", "0"), EBUSY, "one alone is refused");
	pids[0] = hog("wide");
	pids[1] = hog("one");
	usleep(250000);
	for (i = 0; i < 3; i++) {
		expect(freeze_cpus(), 0, "0.9 of a CPU: other CPUs off and on");
		usleep(37000);
	}
	same("CPUs", "0-3", get("/sys/devices/system/cpu/online"));
	same("reserved", effective, get(cg("", "cpu.rt.effective")));
	same("wide", wide, get(cg("wide", "cpu.rt.effective")));
	same("one", one, get(cg("one", "cpu.rt.effective")));
	same("cpuset", "3", get(cg("one", "cpuset.cpus.effective")));
	same("bandwidth of the CPUs", bw, admitted());
	end_child(pids[0]);
	end_child(pids[1]);
	usleep(200000);
	got = burn("one", 3, 400 * MS);
	check(got > 199 * MS && got < 201 * MS, "served on CPU 3: %llu us of 200000",
	      (unsigned long long)got / US);
	got = burn("wide", 1, 400 * MS);
	check(got > 159 * MS && got < 161 * MS, "served on CPU 1: %llu us of 160000",
	      (unsigned long long)got / US);
	expect(put("/sys/devices/system/cpu/cpu3/online", "0"), EBUSY, "one alone is refused");
	expect(reserve("one", 60000, 100000), EBUSY, "more is refused");
	expect(remove_group("one"), 0, "rmdir");
	expect(remove_group("wide"), 0, "rmdir");
}
