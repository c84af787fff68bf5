// SPDX-License-Identifier: Apache-2.0
/* Core scheduling: version 2, 4 CPUs that are threads of 2 cores. */
#include "guest.h"
#include <limits.h>
#include <sys/prctl.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>

#define CORE_SCHED		62
#define CORE_SCHED_CREATE	1
#define THREAD_GROUP		1
#define TASKS			4

/* What a system call fills, again and again. */
static char buffer[8 << 20];

struct side {
	const char *group;
	uint64_t q;
	bool cookie;		/* one of its own */
	uint64_t cpu_ns[TASKS];
};

static void make_cookie(void)
{
	if (prctl(CORE_SCHED, CORE_SCHED_CREATE, 0, THREAD_GROUP, 0))
		die("cookie");
}

/* Both groups want all CPUs for @len ns. */
static void run(struct side *sides, uint64_t len)
{
	uint64_t start = now_ns(CLOCK_MONOTONIC) + 50 * MS, c0;
	int s, i;

	for (s = 0; s < 2; s++) {
		if (fork())
			continue;
		if (enter(sides[s].group))
			_exit(1);
		if (sides[s].cookie)
			make_cookie();
		for (i = 0; i < TASKS; i++) {
			if (fork())
				continue;
			if (set_policy(0, SCHED_FIFO, 10))
				_exit(1);
			sleep_until(start);
			c0 = now_ns(CLOCK_THREAD_CPUTIME_ID);
			busy_until(start + len);
			sides[s].cpu_ns[i] = now_ns(CLOCK_THREAD_CPUTIME_ID) - c0;
			_exit(0);
		}
		while (wait(NULL) > 0)
			;
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
}

/*
 * A tenant without budget that is in long system calls, on one thread of a core, and
 * a task of the host with a lower priority on the other, in @len ns.
 */
static void beside_finishing(uint64_t len)
{
	uint64_t start = now_ns(CLOCK_MONOTONIC) + 50 * MS, c0, *used = shared();
	struct iovec parts[IOV_MAX];
	pid_t tenant, host;
	int fd, i;

	if (mknod("/zero", S_IFCHR | 0600, makedev(1, 5)))
		die("/zero");
	fd = open("/zero", O_RDONLY);
	for (i = 0; i < IOV_MAX; i++)
		parts[i] = (struct iovec){ buffer, sizeof(buffer) };
	expect(reserve("f", 2000, 100000), 0, "0.02 on each CPU");
	tenant = fork();
	if (!tenant) {
		if (enter("f") || set_policy(0, SCHED_FIFO, 50))
			_exit(1);
		make_cookie();
		pin(0);
		sleep_until(start);
		/* It does not come back from that. */
		readv(fd, parts, IOV_MAX);
		_exit(1);
	}
	host = fork();
	if (!host) {
		if (set_policy(0, SCHED_FIFO, 10))
			_exit(1);
		make_cookie();
		pin(1);
		sleep_until(start);
		c0 = now_ns(CLOCK_THREAD_CPUTIME_ID);
		busy_until(start + len);
		*used = now_ns(CLOCK_THREAD_CPUTIME_ID) - c0;
		_exit(0);
	}
	waitpid(host, NULL, 0);
	check(!waitpid(tenant, NULL, WNOHANG), "a tenant without budget in a system call");
	end_child(tenant);
	check(*used > len / 10 * 9, "beside it a task of the host has %llu us of %llu",
	      (unsigned long long)*used / US, (unsigned long long)len / US);
}

void test_core(__attribute__((unused)) const char *arg)
{
	struct side *sides = shared();
	uint64_t len = 400 * MS, got, most;
	int cookies, s, i;

	make_group("a");
	make_group("b");
	expect(reserve("a", 4000, 10000), 0, "0.4 on each CPU");
	expect(reserve("b", 3000, 10000), 0, "0.3 on each CPU");
	for (cookies = 0; cookies <= 2; cookies++) {
		memset(sides, 0, 2 * sizeof(*sides));
		sides[0] = (struct side){ .group = "a", .q = 4000, .cookie = cookies > 0 };
		sides[1] = (struct side){ .group = "b", .q = 3000, .cookie = cookies > 1 };
		run(sides, len);
		for (s = 0; s < 2; s++) {
			got = 0;
			for (i = 0; i < TASKS; i++)
				got += sides[s].cpu_ns[i] / US;
			most = TASKS * sides[s].q * (len / (10 * MS));
			check(got < most + 4000 && got > most / 2,
			      "%d cookies, %s: %llu us, sum of the servers %llu", cookies,
			      sides[s].group, (unsigned long long)got, (unsigned long long)most);
		}
	}
	make_group("f");
	beside_finishing(len);
}
