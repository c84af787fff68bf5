// SPDX-License-Identifier: Apache-2.0
/* Random operations: version 2, 4 CPUs. */
#include "guest.h"

static uint64_t rnd_state = 88172645463325252ULL;

static unsigned int rnd(unsigned int n)
{
	rnd_state ^= rnd_state << 13;
	rnd_state ^= rnd_state >> 7;
	rnd_state ^= rnd_state << 17;
	return (rnd_state >> 11) % n;
}

#define GROUPS 6
#define TASKS 16

static void robust_lock(pthread_mutex_t *m)
{
	if (pthread_mutex_lock(m) == EOWNERDEAD)
		pthread_mutex_consistent(m);
}

static void stress_task(pthread_mutex_t *m, unsigned int seed)
{
	rnd_state ^= seed * 2654435761U;
	for (;;) {
		switch (rnd(5)) {
		case 0:
			usleep(rnd(2000));
			break;
		case 1:
			robust_lock(&m[0]);
			spin(rnd(300) * US);
			if (rnd(2)) {
				robust_lock(&m[1]);
				spin(rnd(100) * US);
				pthread_mutex_unlock(&m[1]);
			}
			pthread_mutex_unlock(&m[0]);
			break;
		case 2:
			sched_yield();
			break;
		default:
			spin(rnd(1000) * US);
		}
	}
}

void test_stress(const char *arg)
{
	int ops = *arg ? atoi(arg) : 20000;
	pthread_mutex_t *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned int counts[12] = { 0 }, refused[12] = { 0 };
	pthread_mutexattr_t a;
	char before[4096], name[16];
	pid_t task[TASKS] = { 0 };
	int i, op, g, t, err;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&m[0], &a);
	pthread_mutex_init(&m[1], &a);
	/* This task has to get through whatever the others do. */
	set_policy(0, SCHED_FIFO, 99);
	strcpy(before, get(cg("", "cpu.rt.effective")));
	printf("before:\n%s\n", before);

	for (i = 0; i < ops; i++) {
		op = rnd(12);
		g = rnd(GROUPS);
		t = rnd(TASKS);
		snprintf(name, sizeof(name), "s%d", g);
		err = 0;
		switch (op) {
		case 0:
			err = make_group(name);
			break;
		case 1:
			err = remove_group(name);
			break;
		case 2:
		case 3:
			err = reserve(name, 1000 * rnd(6), 5000 + rnd(10) * 1000);
			break;
		case 4:
			err = rnd(3) ? put(cg(name, "cpuset.cpus"), "%d-%d", rnd(2), 2 + rnd(2)) :
				       put(cg(name, "cpuset.cpus"), "%d", rnd(4));
			break;
		case 5:
			if (task[t]) {
				kill(task[t], SIGKILL);
				waitpid(task[t], NULL, 0);
				task[t] = 0;
			} else {
				task[t] = fork();
				if (!task[t]) {
					struct sched_param sp = { 0 };

					sched_setscheduler(0, SCHED_OTHER, &sp);
					stress_task(m, i);
				}
			}
			break;
		case 6:
		case 7:
			if (task[t])
				err = put(cg(rnd(5) ? name : "", "cgroup.procs"), "%d", task[t]);
			break;
		case 8:
			if (task[t])
				err = set_policy(task[t], rnd(2) ? SCHED_FIFO : SCHED_RR, 1 + rnd(60));
			break;
		case 9:
			if (task[t])
				err = set_policy(task[t], SCHED_OTHER, 0);
			break;
		case 10:
			if (task[t]) {
				cpu_set_t set;
				int c;

				CPU_ZERO(&set);
				for (c = 0; c < 4; c++) {
					if (rnd(2))
						CPU_SET(c, &set);
				}
				err = sched_setaffinity(task[t], sizeof(set), &set) ? errno : 0;
			}
			break;
		case 11:
			if (rnd(4))
				err = put(cg(name, "cgroup.freeze"), "%d", rnd(2));
			else
				err = put("/sys/devices/system/cpu/cpu3/online", "%d", rnd(2));
			break;
		}
		counts[op]++;
		refused[op] += !!err;
		if (i % 4 == 0)
			usleep(200 + rnd(1000));
		if (i % 1000 == 999)
			printf("%d operations\n", i + 1);
	}

	put("/sys/devices/system/cpu/cpu3/online", "1");
	for (g = 0; g < GROUPS; g++) {
		snprintf(name, sizeof(name), "s%d", g);
		put(cg(name, "cgroup.freeze"), "0");
	}
	for (t = 0; t < TASKS; t++) {
		if (task[t]) {
			kill(task[t], SIGKILL);
			/* It may wait for a budget that nobody gives any more. */
			put(cg("", "cgroup.procs"), "%d", task[t]);
			waitpid(task[t], NULL, 0);
		}
	}
	usleep(50000);
	for (g = 0; g < GROUPS; g++) {
		snprintf(name, sizeof(name), "s%d", g);
		err = remove_group(name);
		check(!err || err == ENOENT, "rmdir %s", name);
	}
	usleep(300000);
	for (op = 0; op < 12; op++)
		printf("op %d: %u, refused %u\n", op, counts[op], refused[op]);
	check(!strcmp(before, get(cg("", "cpu.rt.effective"))), "bandwidth is as before:\n%s",
	      get(cg("", "cpu.rt.effective")));
}
