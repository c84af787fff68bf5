// SPDX-License-Identifier: Apache-2.0
/*
 * Figure 4 of RTLWS 2011, for experiments/spare: a service beside the batch work of its
 * own group, asked whenever the budget is used up. It checks nothing.
 */
#include "guest.h"

#define MOST 100000
#define WORK (100 * US)

struct results {
	uint64_t units, batch_ns;
	uint32_t pings_ns[MOST];
};

/* Batch work with the lowest priority, counted. */
static void work(struct results *out, uint64_t start, uint64_t end)
{
	volatile unsigned int spun;
	uint64_t units = 0, c0;

	if (enter("p/0") || set_policy(0, SCHED_FIFO, 1))
		_exit(1);
	sleep_until(start);
	c0 = now_ns(CLOCK_THREAD_CPUTIME_ID);
	while (now_ns(CLOCK_MONOTONIC) < end) {
		for (spun = 0; spun < 100; spun++)
			;
		units++;
	}
	out->units = units;
	out->batch_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - c0;
	_exit(0);
}

static void answer_requests(const int *requests, const int *answers)
{
	uint64_t asked;

	if (enter("p/0") || set_policy(0, SCHED_FIFO, POOL_PRIO))
		_exit(1);
	while (read(requests[0], &asked, sizeof(asked)) == sizeof(asked)) {
		spin(WORK);
		asked = now_ns(CLOCK_MONOTONIC) - asked;
		if (write(answers[1], &asked, sizeof(asked)) != sizeof(asked))
			_exit(1);
	}
	_exit(0);
}

/*
 * @arg: pings, runtime and period of the group, runtime and period of the pool; in us.
 * This task has the CPU when the budget ends, since it waits from the middle on.
 */
void test_pings(const char *arg)
{
	struct results *out = mmap(NULL, sizeof(*out), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	int count, q, p, qs, ps, i, requests[2], answers[2];
	uint64_t start, now, took;
	pid_t service, batch;

	if (sscanf(arg, "%d,%d,%d,%d,%d", &count, &q, &p, &qs, &ps) != 5 || count > MOST ||
	    out == MAP_FAILED || pipe(requests) || pipe(answers))
		die("pings:COUNT,Q,P,QS,PS");
	make_group("p");
	put(cg("p", "cgroup.subtree_control"), "+cpu");
	make_group("p/0");
	expect(set_pool(qs, ps, 0), 0, qs ? "a pool" : "no pool");
	expect(reserve("p/0", q, p), 0, "a reservation");
	expect(subscribe("p/0", POOL_PRIO), 0, "that may use it");

	service = fork();
	if (!service)
		answer_requests(requests, answers);
	set_policy(0, SCHED_FIFO, 60);
	start = now_ns(CLOCK_MONOTONIC) + 2 * p * US;
	batch = fork();
	if (!batch)
		work(out, start, start + (uint64_t)count * p * US);
	for (i = 0; i < count; i++) {
		sleep_until(start + i * (uint64_t)p * US + q * US / 2);
		now = now_ns(CLOCK_MONOTONIC);
		if (write(requests[1], &now, sizeof(now)) != sizeof(now) ||
		    read(answers[0], &took, sizeof(took)) != sizeof(took))
			die("ping");
		out->pings_ns[i] = took;
	}
	waitpid(batch, NULL, 0);
	end_child(service);
	set_policy(0, SCHED_OTHER, 0);
	printf("batch %llu %llu\n", (unsigned long long)out->units,
	       (unsigned long long)out->batch_ns);
	for (i = 0; i < count; i++)
		printf("ping %u\n", out->pings_ns[i]);
}
