// SPDX-License-Identifier: Apache-2.0
/* The results of the kernel's own unit tests, which ran when it booted. */
#include "guest.h"

#define RESULTS "/sys/kernel/debug/kunit/sched_rt_group/results"

void test_kunit(__attribute__((unused)) const char *arg)
{
	FILE *f = fopen(RESULTS, "r");
	char line[256], name[64];
	int number, passed = 0, skipped = 0;

	check(f, "%s is there", RESULTS);
	while (f && fgets(line, sizeof(line), f)) {
		printf("%s", line);
		if (sscanf(line, " ok %d rt_group_test_%63s", &number, name) == 2) {
			passed++;
			skipped += !!strstr(line, "# SKIP");
		}
		if (strstr(line, "not ok"))
			failures++;
	}
	if (f)
		fclose(f);
	check(passed >= 11 && !skipped, "%d unit tests of RT groups passed", passed);
}
