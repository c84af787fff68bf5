// SPDX-License-Identifier: GPL-2.0-only
/* The guest's init: runs the test that t=NAME[,ARGUMENT] on the command line names. */
#include "guest.h"
#include <sys/io.h>

static const struct {
	const char *name;
	void (*run)(const char *arg);
} tests[] = {
	{ "supply", test_supply },
	{ "wide", test_wide },
	{ "control", test_control },
	{ "random", test_random },
	{ "random-control", test_random_control },
	{ "kernel", test_kernel },
	{ "protocol", test_protocol },
	{ "strangers", test_strangers },
	{ "stress", test_stress },
	{ "hotplug", test_hotplug },
	{ "cycle", test_cycle },
	{ "kill", test_kill },
	{ "eject", test_eject },
	{ "attack", test_attack },
	{ "forks", test_forks },
	{ "dodge", test_dodge },
	{ "crowd", test_crowd },
	{ "many", test_many },
	{ "ordinary", test_ordinary },
	{ "limits", test_limits },
	{ "paupers", test_paupers },
};

/*
 * QEMU lets the CPUs run one after the other, each for its part of the time until the next
 * event of any device, up to milliseconds. The old interval timer, which the kernel does
 * not use, makes an event every 10 us, of which nothing but QEMU learns.
 */
static void divide_time(void)
{
	unsigned int count = 24;	/* of 1193182 Hz, between two edges */

	if (nr_cpus < 2)
		return;
	if (ioperm(0x40, 4, 1)) {
		check(false, "the interval timer: %s", strerror(errno));
		return;
	}
	outb(0x36, 0x43);
	outb(count & 0xff, 0x40);
	outb(count >> 8, 0x40);
}

int main(void)
{
	char *line, *name, *arg;
	unsigned int i;

	mount("proc", "/proc", "proc", 0, NULL);
	mount("sysfs", "/sys", "sysfs", 0, NULL);
	mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	mount("cgroup2", "/cg", "cgroup2", 0, NULL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (put("/cg/cgroup.subtree_control", "+cpu +cpuset"))
		printf("FAIL controllers\n");
	make_hogs();
	nr_cpus = sysconf(_SC_NPROCESSORS_CONF);
	switch_us = 14 * nr_cpus;
	divide_time();
	printf("KERNEL %s\n", get("/proc/version"));
	line = strdup(get("/proc/cmdline"));
	name = strstr(line, " t=");
	name = name ? name + 3 : "";
	name[strcspn(name, " ")] = 0;
	arg = strchr(name, ',');
	if (arg)
		*arg++ = 0;
	else
		arg = "";
	for (i = 0; i < ARRAY(tests) && strcmp(tests[i].name, name); i++)
		;
	if (i == ARRAY(tests))
		check(false, "no test is called %s", name);
	else
		tests[i].run(arg);
	printf("DONE %s failures %d at %llu ms\n", name, failures, now_ns() / MS);
	power_off();
}
