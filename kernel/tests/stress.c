// SPDX-License-Identifier: Apache-2.0
/*
 * Random operations on groups and tasks: version 2, 4 CPUs. The argument is
 * <operations>[,<seed>[,<variant>]], or <seconds>s instead of the operations.
 * Nothing is asserted about a single operation but that it comes back; of each kind
 * some have to succeed, and in the end the bandwidth of every CPU has to be what it
 * was.
 *
 * Some things are not done at once, since Linux 7.2.12 without the series fails as
 * well then: partitions beside hotplug or beside cpusets that grow into each other
 * (a warning in rebuild_sched_domains_locked()), and a task that is pinned to
 * nothing but a CPU that goes offline (if it is moved to the root group, a warning
 * in cpuset_attach_task()). Hence the variants. Changes to and from SCHED_DEADLINE
 * are left out: total_bw went from 209712 to 1329647 in 10,000 operations of the
 * same kernel, and __dl_sub() divided by zero when a CPU went offline.
 */
#include "guest.h"

#include <limits.h>

#define DRIVERS 3	/* processes that do the operations */
#define TASKS 6		/* tasks of each of them */
#define TOP_GROUPS 5	/* each may have one child */
#define LOCKS 4
#define HANG_NS (60 * SEC)
#define MAX_ERRNO 128
#define FLOOR 20	/* of so many operations of a kind, one succeeds */
#define DEADLINE_TASKS 2

enum variant {
	ONE,		/* one CPU goes offline, and tasks are on any CPUs */
	ALL,		/* every CPU but one goes offline, where no task has to be */
	PARTITIONS,	/* no CPU does, and cpusets become partitions */
	BESIDE,		/* as ONE, beside deadline tasks of the root group */
	NR_VARIANTS
};

static const char * const variant_names[] = {
	"one", "all", "partitions", "beside",
};

static enum variant variant;

enum kind {
	MAKE, DESTROY, RESIZE, MAX, NEST, CPUS, FORK, EXIT, MIGRATE,
	RT, PRIORITY, FAIR, PIN, FREEZE, HOTPLUG, PARTITION, READ, NR_KINDS
};

static const char * const kind_names[] = {
	"make", "destroy", "resize", "to max", "nest", "cpuset", "fork",
	"exit", "migrate", "class FIFO/RR", "priority", "class fair",
	"pin", "freeze", "hotplug", "partition", "read",
};

/* How often each kind is done; the sum is what a driver draws from. */
static unsigned int weights[NR_KINDS] = {
	[MAKE] = 8, [DESTROY] = 5, [RESIZE] = 16, [MAX] = 4, [NEST] = 2,
	[CPUS] = 8, [FORK] = 6, [EXIT] = 4, [MIGRATE] = 14,
	[RT] = 10, [PRIORITY] = 6, [FAIR] = 6, [PIN] = 6,
	[FREEZE] = 4, [HOTPLUG] = 2, [PARTITION] = 0, [READ] = 3,
};

/* Shared by all processes. */
static struct shared {
	pthread_mutex_t lock[LOCKS];
	unsigned long ops, chains, forks, writes;
	unsigned int count[NR_KINDS], refused[NR_KINDS][MAX_ERRNO];
} *sh;

/* What all of them write, page by page in one system call. */
static char buffer[512 << 10];

static uint64_t rnd_state;

static unsigned int rnd(unsigned int n)
{
	rnd_state ^= rnd_state << 13;
	rnd_state ^= rnd_state >> 7;
	rnd_state ^= rnd_state << 17;
	return (rnd_state >> 11) % n;
}

static void seed_rnd(uint64_t seed)
{
	rnd_state = (seed + 1) * 0x9e3779b97f4a7c15ULL;
	rnd(2);
}

#define count_one(what) __atomic_fetch_add(&(what), 1, __ATOMIC_RELAXED)

/* ---- what the tasks do: they use time, and wait for each other's locks ---- */

static void robust_lock(pthread_mutex_t *m)
{
	if (pthread_mutex_lock(m) == EOWNERDEAD)
		pthread_mutex_consistent(m);
}

/* In the order of the locks, so that chains get long, but not closed. */
static void chain(int first)
{
	robust_lock(&sh->lock[first]);
	spin(rnd(200) * US);
	if (first + 1 < LOCKS && rnd(3))
		chain(first + 1);
	if (!rnd(4))
		usleep(rnd(500));
	pthread_mutex_unlock(&sh->lock[first]);
}

/* A section of the kernel that takes long, under a lock that all tasks want. */
static void long_write(size_t size)
{
	int fd = open("/stress", O_WRONLY | O_CREAT, 0600);

	if (fd < 0)
		return;
	if (write(fd, buffer, size) > 0)
		count_one(sh->writes);
	close(fd);
}

static void task_main(uint64_t seed)
{
	pid_t pid;

	seed_rnd(seed);
	for (;;) {
		switch (rnd(8)) {
		case 0:
		case 1:
			usleep(rnd(2000));
			break;
		case 2:
		case 3:
			chain(rnd(LOCKS));
			count_one(sh->chains);
			break;
		case 4:
			sched_yield();
			break;
		case 6:
			long_write(rnd(sizeof(buffer)));
			break;
		case 5:
			pid = rnd(4) ? -1 : fork();
			if (!pid) {
				spin(rnd(200) * US);
				_exit(0);
			}
			if (pid > 0) {
				waitpid(pid, NULL, 0);
				count_one(sh->forks);
			}
			break;
		default:
			spin(rnd(1000) * US);
		}
	}
}

/* ---- the operations ---- */

static const char *any_group(void)
{
	static char name[16];
	int top = rnd(TOP_GROUPS);

	snprintf(name, sizeof(name), rnd(3) ? "s%d" : "s%d/c", top);
	return name;
}

static int any_pin(pid_t pid)
{
	cpu_set_t set;
	int cpu;

	CPU_ZERO(&set);
	CPU_SET(variant == ALL ? 0 : rnd(3), &set);
	for (cpu = 0; cpu < 4; cpu++) {
		if (!rnd(3))
			CPU_SET(cpu, &set);
	}
	return sched_setaffinity(pid, sizeof(set), &set) ? errno : 0;
}

/*
 * Budgets are long against a switch to another task on the debug kernel. Less,
 * and a task that holds a semaphore of the kernel stops all others for minutes.
 */
static int any_resize(const char *group)
{
	int period = 4000 + rnd(14) * 1000;

	if (!rnd(8))
		return reserve(group, 0, period);
	return reserve(group, period / 100 * (10 + rnd(55)), period);
}

static int any_cpus(const char *group)
{
	/* A group that may be a partition has the same CPU all its life. */
	if (variant == PARTITIONS && !strchr(group, '/'))
		return put(cg(group, "cpuset.cpus"), "%d", (group[1] - '0') % 4);
	if (rnd(3))
		return put(cg(group, "cpuset.cpus"), "%d-%d", rnd(2), 2 + rnd(2));
	return put(cg(group, "cpuset.cpus"), "%d", rnd(4));
}

static int hotplug(int cpu, bool up)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
	return put(path, "%d", up);
}

static int any_partition(void)
{
	static const char * const states[] = { "member", "root", "isolated" };
	char group[16];
	int err;

	snprintf(group, sizeof(group), "s%d", rnd(TOP_GROUPS));
	err = put(cg(group, "cpuset.cpus.partition"), "%s", states[rnd(3)]);
	if (!err && strstr(get(cg(group, "cpuset.cpus.partition")), "invalid"))
		return ERANGE;
	return err;
}

static int end_task(pid_t *task)
{
	kill(*task, SIGKILL);
	waitpid(*task, NULL, 0);
	*task = 0;
	return 0;
}

static int operation(enum kind kind, pid_t *task, uint64_t seed)
{
	const char *group = any_group();

	switch (kind) {
	case MAKE:
		return make_group(group);
	case DESTROY:
		return remove_group(group);
	case RESIZE:
		return any_resize(group);
	case MAX:
		return put(cg(group, "cpu.rt.max"), "max");
	case NEST:
		return put(cg(group, "cgroup.subtree_control"),
			   rnd(3) ? "+cpu +cpuset" : "-cpu -cpuset");
	case CPUS:
		return any_cpus(group);
	case FORK:
		*task = fork();
		if (*task < 0) {
			*task = 0;
			return errno;
		}
		if (!*task) {
			set_policy(0, SCHED_OTHER, 0);
			task_main(seed);
		}
		return 0;
	case EXIT:
		return end_task(task);
	case MIGRATE:
		return put(cg(rnd(6) ? group : "", "cgroup.procs"), "%d", *task);
	case RT:
		return set_policy(*task, rnd(2) ? SCHED_FIFO : SCHED_RR, 1 + rnd(60));
	case PRIORITY: {
		struct sched_param sp = { .sched_priority = 1 + rnd(60) };

		return sched_setparam(*task, &sp) ? errno : 0;
	}
	case FAIR:
		return set_policy(*task, SCHED_OTHER, 0);
	case PIN:
		return any_pin(*task);
	case FREEZE:
		return put(cg(group, "cgroup.freeze"), "%d", !rnd(3));
	case HOTPLUG:
		return hotplug(variant == ALL ? 1 + rnd(3) : 3, rnd(3));
	case PARTITION:
		return any_partition();
	case READ:
		get(cg(group, "cpu.rt.effective"));
		get(cg(group, "cpu.rt.stat"));
		return 0;
	default:
		return EINVAL;
	}
}

static enum kind any_kind(void)
{
	unsigned int sum = 0, i, n;

	for (i = 0; i < NR_KINDS; i++)
		sum += weights[i];
	n = rnd(sum);
	for (i = 0; n >= weights[i]; i++)
		n -= weights[i];
	return i;
}

static void driver(int ops, uint64_t end, uint64_t seed)
{
	pid_t task[TASKS] = { 0 };
	int i, t, err;

	/* It has to get through whatever the tasks do. */
	set_policy(0, SCHED_FIFO, 99);
	seed_rnd(seed);
	for (i = 0; i < ops && now_ns(CLOCK_MONOTONIC) < end; i++) {
		enum kind kind = any_kind();

		t = rnd(TASKS);
		if (!task[t] && kind >= EXIT && kind <= PIN)
			kind = FORK;
		if (task[t] && kind == FORK)
			kind = EXIT;

		err = operation(kind, &task[t], seed * 1000003 + i);
		count_one(sh->count[kind]);
		if (err > 0 && err < MAX_ERRNO)
			count_one(sh->refused[kind][err]);
		count_one(sh->ops);
		usleep(rnd(400));
	}
	for (t = 0; t < TASKS; t++) {
		if (task[t])
			end_task(&task[t]);
	}
	_exit(0);
}

/* What was taken shortly before comes back when its period has ended. */
static bool settled(const char *effective, const char *bw)
{
	int i;

	for (i = 0; i < 30; i++) {
		usleep(100000);
		if (!strcmp(effective, get(cg("", "cpu.rt.effective"))) &&
		    !strcmp(bw, admitted()))
			return true;
	}
	return false;
}

/* What the groups have, each file by a process of its own: it may not return. */
static void show_groups(void)
{
	static const char * const files[] = {
		"cgroup.freeze", "cpuset.cpus.effective", "cpu.rt.max",
		"cpu.rt.effective", "cpu.rt.stat",
	};
	unsigned int i, group;
	char name[16];

	for (group = 0; group < TOP_GROUPS * 2; group++) {
		snprintf(name, sizeof(name), group % 2 ? "s%d/c" : "s%d", group / 2);
		for (i = 0; i < sizeof(files) / sizeof(*files); i++) {
			if (fork())
				continue;
			printf("%s/%s: %s\n", name, files[i], get(cg(name, files[i])));
			fflush(stdout);
			_exit(0);
		}
	}
	sleep(2);
}

static void hang(unsigned long ops)
{
	printf("FAIL no operation in %llu s, after %lu\n", HANG_NS / SEC, ops);
	fflush(stdout);
	show_groups();
	put("/proc/sys/kernel/printk", "7");
	put("/proc/sysrq-trigger", "t");
	printf("DONE stress failures 1\n");
	fflush(stdout);
	reboot(RB_AUTOBOOT);
	_exit(1);
}

/*
 * Wait for the drivers, and do nothing that they could keep from happening.
 * Init has children of tasks that were killed to wait for as well.
 */
static void watch(const pid_t *drivers)
{
	uint64_t last = now_ns(CLOCK_MONOTONIC);
	unsigned long ops, seen = 0, shown = 0;
	int running = DRIVERS, status, i;
	pid_t pid;

	while (running) {
		while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
			for (i = 0; i < DRIVERS; i++) {
				if (pid != drivers[i])
					continue;
				running--;
				check(!status, "driver %d ended", i);
			}
		}
		usleep(100000);
		ops = __atomic_load_n(&sh->ops, __ATOMIC_RELAXED);
		if (ops != seen)
			last = now_ns(CLOCK_MONOTONIC);
		else if (now_ns(CLOCK_MONOTONIC) - last > HANG_NS)
			hang(ops);
		seen = ops;
		if (ops / 2000 != shown) {
			shown = ops / 2000;
			printf("%lu operations\n", shown * 2000);
		}
	}
}

static void clean_up(void)
{
	char name[16];
	int i, child, err;

	for (i = 1; i < 4; i++)
		hotplug(i, true);
	for (i = 0; i < TOP_GROUPS * 2; i++) {
		child = i < TOP_GROUPS;
		snprintf(name, sizeof(name), child ? "s%d/c" : "s%d", i % TOP_GROUPS);
		put(cg(name, "cgroup.freeze"), "0");
		put(cg(name, "cgroup.kill"), "1");
	}
	usleep(100000);
	for (i = 0; i < TOP_GROUPS * 2; i++) {
		child = i < TOP_GROUPS;
		snprintf(name, sizeof(name), child ? "s%d/c" : "s%d", i % TOP_GROUPS);
		err = remove_group(name);
		check(!err || err == ENOENT, "rmdir %s: %s", name, err ? strerror(err) : "done");
	}
}

static void make_shared(void)
{
	pthread_mutexattr_t a;
	int i;

	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		  -1, 0);
	if (sh == MAP_FAILED)
		die("memory");
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	for (i = 0; i < LOCKS; i++) {
		if (pthread_mutex_init(&sh->lock[i], &a))
			die("pi mutex");
	}
}

/* Deadline tasks of the root group, which sleep and run. */
static void start_beside(pid_t *tasks)
{
	int i;

	for (i = 0; i < DEADLINE_TASKS; i++) {
		tasks[i] = fork();
		if (tasks[i])
			continue;
		if (set_deadline(2 * MS, 100 * MS))
			_exit(1);
		for (;;) {
			spin(MS);
			usleep(20000);
		}
	}
}

static void end_beside(const pid_t *tasks)
{
	int i, status;

	for (i = 0; i < DEADLINE_TASKS; i++) {
		kill(tasks[i], SIGKILL);
		waitpid(tasks[i], &status, 0);
		check(WIFSIGNALED(status), "deadline task %d ran to the end", i);
	}
}

static void read_argument(const char *arg, int *ops, uint64_t *end, uint64_t *seed)
{
	char name[16] = "one", *rest;
	unsigned long long n = 1;
	unsigned int i;

	*ops = strtoul(arg, &rest, 10);
	*end = UINT64_MAX;
	if (*rest == 's') {
		rest++;
		*end = now_ns(CLOCK_MONOTONIC) + *ops * SEC;
		*ops = INT_MAX;
	}
	sscanf(rest, ",%llu,%15s", &n, name);
	*seed = n;
	for (i = 0; i < NR_VARIANTS; i++) {
		if (!strcmp(name, variant_names[i]))
			break;
	}
	if (i == NR_VARIANTS)
		die("variant");
	variant = i;
	if (variant == PARTITIONS) {
		weights[PARTITION] = weights[CPUS];
		weights[HOTPLUG] = 0;
	}
}

static void report(enum kind kind)
{
	unsigned int done = sh->count[kind], e;

	if (!weights[kind])
		return;
	printf("%-15s %6u", kind_names[kind], sh->count[kind]);
	for (e = 1; e < MAX_ERRNO; e++) {
		done -= sh->refused[kind][e];
		if (sh->refused[kind][e])
			printf("  %s %u", strerrorname_np(e), sh->refused[kind][e]);
	}
	printf("\n");
	check(done && done * FLOOR >= sh->count[kind], "%s: %u succeeded",
	      kind_names[kind], done);
}

void test_stress(const char *arg)
{
	char *effective = strdup(get(cg("", "cpu.rt.effective")));
	char *bw = strdup(admitted());
	pid_t drivers[DRIVERS], beside[DEADLINE_TASKS];
	uint64_t end, seed;
	int ops, i, kind;
	bool back;

	read_argument(arg, &ops, &end, &seed);
	printf("stress: %s, %d drivers\n", arg, DRIVERS);
	check(*bw, "bandwidth of the CPUs:%s", bw);
	make_shared();
	if (variant == BESIDE)
		start_beside(beside);
	for (i = 0; i < DRIVERS; i++) {
		drivers[i] = fork();
		if (!drivers[i])
			driver(ops / DRIVERS + 1, end, seed * DRIVERS + i);
	}
	set_policy(0, SCHED_FIFO, 99);
	watch(drivers);
	set_policy(0, SCHED_OTHER, 0);
	if (variant == BESIDE)
		end_beside(beside);
	clean_up();

	for (kind = 0; kind < NR_KINDS; kind++)
		report(kind);
	printf("tasks: %lu chains of locks, %lu forks, %lu writes\n", sh->chains, sh->forks,
	       sh->writes);
	check(sh->ops >= (unsigned long)ops || now_ns(CLOCK_MONOTONIC) >= end,
	      "%lu operations", sh->ops);
	back = settled(effective, bw);
	check(back, "bandwidth of the CPUs as before:%s", admitted());
	printf("%s\n", get(cg("", "cpu.rt.effective")));
}
