// SPDX-License-Identifier: Apache-2.0
/*
 * The guest's init: runs the test that the kernel command line names
 * (t=<name> or t=<name>:<argument>) and powers off; with until=failure, after the
 * first check that fails.
 */
#include "guest.h"

enum { NONE, V1, V2 };

static const struct test {
	const char *name;
	int cgroups;	/* the version that is mounted on /cg */
	void (*run)(const char *arg);
} tests[] = {
	{ "attack", V2, test_attack },
	{ "bisect", V1, test_bisect },
	{ "core", V2, test_core },
	{ "control", V1, test_control },
	{ "supply1", V1, test_supply },
	{ "supply", V2, test_supply },
	{ "refuse1", V1, test_refuse },
	{ "refuse", V2, test_refuse },
	{ "delegate1", V1, test_delegate },
	{ "delegate", V2, test_delegate },
	{ "multiply", V2, test_multiply },
	{ "percpu", V2, test_percpu },
	{ "partition", V2, test_partition },
	{ "reclaim", V2, test_reclaim },
	{ "migrate", V2, test_migrate },
	{ "edge", V2, test_edge },
	{ "pi", V2, test_pi },
	{ "pi-cpus", V2, test_pi_cpus },
	{ "finish", V2, test_finish },
	{ "stress", V2, test_stress },
	{ "kunit", NONE, test_kunit },
	{ "regress", NONE, test_regress },
	{ "suspend", V2, test_suspend },
	{ "boot", NONE, test_boot },
	{ "later", NONE, test_later },
	{ "full", V2, test_full },
	{ "going", V2, test_going },
	{ "beside", V2, test_beside },
	{ "beside-control", V1, test_beside_control },
	{ "trace", V2, test_trace },
	{ "trace-control", V1, test_trace },
	{ "random", V2, test_random },
	{ "change", V2, test_change },
	{ "spare", V2, test_spare },
	{ "pool", V2, test_pool },
	{ "pings", V2, test_pings },
	{ "script", NONE, test_script },
};

static char *command_line(void)
{
	char *t = strstr(get("/proc/cmdline"), " t=");

	if (!t)
		die("no t= on the command line");
	t = strdup(t + 3);
	*strchrnul(t, ' ') = 0;
	return t;
}

int main(void)
{
	const struct test *test = NULL;
	char *name, *arg;
	unsigned int i;

	mount("proc", "/proc", "proc", 0, NULL);
	mount("sysfs", "/sys", "sysfs", 0, NULL);
	mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	mkdir("/dev", 0755);
	setvbuf(stdout, NULL, _IOLBF, 0);
	name = command_line();
	printf("TEST %s\n", name);
	arg = strchr(name, ':');
	if (arg)
		*arg++ = 0;
	else
		arg = "";

	make_hogs();
	if (mlockall(MCL_CURRENT))
		die("mlockall");

	for (i = 0; i < ARRAY(tests); i++) {
		if (!strcmp(tests[i].name, name))
			test = &tests[i];
	}
	if (test) {
		if (test->cgroups != NONE)
			mount_cgroups(test->cgroups == V2);
		test->run(arg);
	} else {
		printf("unknown test\n");
		failures++;
	}
	printf("DONE %s failures %d\n", name, failures);
	power_off();
}
