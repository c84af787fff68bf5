// SPDX-License-Identifier: GPL-2.0-only
/* What a switch costs on this machine. */
#include "measure.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#define GROUP "nova-rt-measure"
#define LENGTH_S 2
#define MAX_SWITCHES 4000

/* Of two tasks on one CPU: when each has run last, and what it took to get here. */
struct turns {
	volatile __u64 last[2];
	volatile __u32 nr;
	__u64 took[MAX_SWITCHES];
};

static __u64 now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static void take_turns(struct turns *t, int me)
{
	__u64 other, now;

	for (;;) {
		now = now_ns();
		other = t->last[!me];
		if (other > t->last[me] && other < now && t->last[me] && t->nr < MAX_SWITCHES)
			t->took[t->nr++] = now - other;
		t->last[me] = now;
	}
}

/* The one that is not @me 0 stays an ordinary task. */
static pid_t start(struct turns *t, int me, int cpu, int group)
{
	pid_t pid = fork();
	cpu_set_t set;
	int procs;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	procs = openat(group, "cgroup.procs", O_WRONLY);
	if (sched_setaffinity(0, sizeof(set), &set) || (!me && write(procs, "0", 1) != 1))
		_exit(1);
	take_turns(t, me);
	_exit(0);
}

static int compare(const void *a, const void *b)
{
	__u64 x = *(const __u64 *)a, y = *(const __u64 *)b;

	return x < y ? -1 : x > y;
}

static int judge(struct turns *t, int cpu, __u32 switch_us)
{
	double median, most;

	if (!t->nr) {
		fprintf(stderr, "no switch: has the root group the controller cpu in its "
				"cgroup.subtree_control?\n");
		return EX_OSERR;
	}
	qsort(t->took, t->nr, sizeof(*t->took), compare);
	median = t->took[t->nr / 2] / 1e3;
	most = t->took[t->nr * 99 / 100] / 1e3;
	printf("switch cpu=%d switches=%u median_us=%.1f p99_us=%.1f switch_us=%u\n", cpu, t->nr,
	       median, most, switch_us);
	if (most <= switch_us)
		return EX_OK;
	fprintf(stderr, "a switch costs more than --switch-us %u, which admission counts\n",
		switch_us);
	return EX_CONFIG;
}

int measure(struct kernel *k, const char *cgroup_root, __u32 switch_us)
{
	struct reservation none = { 0 }, r = { .runtime_us = 500, .period_us = 2000 };
	struct turns *t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int root = open(cgroup_root, O_DIRECTORY | O_CLOEXEC), cpu = sched_getcpu(), group, i;
	pid_t pids[2];
	struct stat st;

	/* One that was killed may have left it. */
	if (t == MAP_FAILED || (mkdirat(root, GROUP, 0755) && errno != EEXIST) ||
	    (group = openat(root, GROUP, O_DIRECTORY | O_CLOEXEC)) < 0 || fstat(group, &st)) {
		fprintf(stderr, "%s/" GROUP ": %s\n", cgroup_root, strerror(errno));
		return EX_CANTCREAT;
	}
	r.cgid = st.st_ino;
	r.where = (struct group){ .nr = 1, .at = { { cpu, 1 } } };
	for (i = 0; i < 2; i++)
		pids[i] = start(t, i, cpu, group);
	if (!kernel_apply(k, &none, &r, switch_us))
		sleep(LENGTH_S);
	for (i = 0; i < 2; i++) {
		if (pids[i] > 0) {
			kill(pids[i], SIGKILL);
			waitpid(pids[i], NULL, 0);
		}
	}
	/* The kernel may still have a task of it. */
	for (i = 0; unlinkat(root, GROUP, AT_REMOVEDIR) && errno == EBUSY && i < 100; i++)
		usleep(10000);
	return judge(t, cpu, switch_us);
}
