// SPDX-License-Identifier: Apache-2.0
/* Tasks of one group on several CPUs: version 2, 4 CPUs. */
#include "guest.h"

void test_migrate(__attribute__((unused)) const char *arg)
{
	static const char * const cpus[] = { "0", "0-1", "0-2", "0-3" };
	uint64_t len = 400 * MS, got, want;
	int n;

	make_group("m");
	for (n = 1; n <= 4; n++) {
		expect(put(cg("m", "cpuset.cpus"), "%s", cpus[n - 1]), 0, cpus[n - 1]);
		expect(reserve("m", 3000, 10000), 0, "0.3 on each");
		got = burn_many("m", 5, len);
		want = n * len * 3 / 10;
		/* 0.01 of a CPU, and the budgets that the end cuts */
		check(got + 4 * MS > want && got < want + 4 * MS + n * 3 * MS,
		      "5 tasks on %d servers: %llu us, sum of the servers %llu",
		      n, (unsigned long long)got / US, (unsigned long long)want / US);
	}
	got = burn_many("m", 1, len);
	check(got > len / 2, "1 task on 4 servers of 0.3: %llu us of %llu",
	      (unsigned long long)got / US, (unsigned long long)len / US);
	printf("stat:\n%s\n", get(cg("m", "cpu.rt.stat")));
	expect(remove_group("m"), 0, "rmdir");
}
