// SPDX-License-Identifier: GPL-2.0-only
/* The guest's init: runs the test that t=NAME[,ARGUMENT] on the command line names. */
#include "guest.h"

static const struct {
	const char *name;
	void (*run)(const char *arg);
} tests[] = {
	{ "supply", test_supply },
	{ "control", test_control },
	{ "random", test_random },
	{ "random-control", test_random_control },
	{ "kernel", test_kernel },
	{ "spread", test_spread },
	{ "protocol", test_protocol },
	{ "stress", test_stress },
	{ "hotplug", test_hotplug },
	{ "kill", test_kill },
	{ "eject", test_eject },
	{ "attack", test_attack },
	{ "crowd", test_crowd },
	{ "many", test_many },
	{ "ordinary", test_ordinary },
	{ "limits", test_limits },
	{ "paupers", test_paupers },
};

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
