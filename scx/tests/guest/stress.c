// SPDX-License-Identifier: GPL-2.0-only
/*
 * What happens to a host in years, in seconds: groups are made, changed and removed,
 * tasks move, fork and end, CPUs go and come. Nothing is judged but that the scheduler
 * stays, that one reservation has its share meanwhile, and that the kernel does not
 * complain, which check.py reads in the log.
 */
#include "guest.h"

#define TASKS 8

static void restless(uint64_t seed)
{
	set_fifo(0);
	random_seed(seed);
	for (;;) {
		busy_until(now_ns() + random_below(2 * MS));
		switch (random_below(8)) {
		case 0:
			if (!fork())
				_exit(0);
			while (waitpid(-1, NULL, WNOHANG) > 0)
				;
			break;
		case 1:
			pin(random_below(nr_cpus));
			break;
		case 2:
			sched_setaffinity(0, sizeof(cpu_set_t), &(cpu_set_t){ { (1 << nr_cpus) - 1 } });
			break;
		case 3:
			setpriority(PRIO_PROCESS, 0, random_below(20));
			break;
		case 4:
			sched_yield();
			break;
		default:
			usleep(random_below(500));
		}
	}
}

static void one_change(pid_t *tasks, int *refused, int *done)
{
	static const char *const cpus[] = { "0", "1", "0,1", "0-1", "2", "3", "1,3", "" };
	unsigned int n = random_below(6);
	char group[8];
	char *said;

	snprintf(group, sizeof(group), "x%u", n);
	make_group(group);
	switch (random_below(7)) {
	case 0:
	case 1:
		said = ask("set /%s %llu %llu %s", group,
			   100 + (unsigned long long)random_below(1500),
			   1000 + (unsigned long long)random_below(20000),
			   cpus[random_below(ARRAY(cpus))]);
		*refused += strcmp(said, "ok") != 0;
		*done += !strcmp(said, "ok");
		break;
	case 2:
		ask("clear /%s", group);
		break;
	case 3:
		put("/cg/cgroup.procs", "%d", tasks[random_below(TASKS)]);
		rmdir(cg(group, ""));	/* with or without its reservation */
		break;
	case 4:
		put(cg(group, "cpu.max"), random_below(3) ? "%llu 10000" : "max",
		    1000 + (unsigned long long)random_below(9000));
		break;
	default:
		put(cg(group, "cgroup.procs"), "%d", tasks[random_below(TASKS)]);
	}
}

static long churn(pid_t *tasks, uint64_t end, void (*now_and_then)(void))
{
	int refused = 0, done = 0;
	long changes = 0;

	while (now_ns() < end) {
		one_change(tasks, &refused, &done);
		if (now_and_then && changes % 10 == 9)
			now_and_then();
		changes++;
		usleep(random_below(2000));
	}
	check(done > 10, "%d reservations set, %d refused", done, refused);
	return changes;
}

static long free_kb(void)
{
	FILE *f = fopen("/proc/meminfo", "r");
	long kb = 0;

	if (f && fscanf(f, "%*[^\n] MemFree: %*d kB MemAvailable: %ld", &kb) != 1)
		kb = 0;
	if (f)
		fclose(f);
	return kb;
}

static void start_tasks(pid_t *tasks, uint64_t seed)
{
	unsigned int i;

	for (i = 0; i < TASKS; i++) {
		tasks[i] = fork_flushed();
		if (!tasks[i])
			restless(seed << 8 | i);
	}
}

static void end_tasks(pid_t *tasks)
{
	unsigned int i;

	for (i = 0; i < TASKS; i++)
		end(tasks[i]);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

/* Of 3 ms in each 10, and what the server has besides. */
static bool within(uint64_t used, uint64_t len)
{
	return used >= len * 29 / 100 && used <= len / 10000 * (3000 + 2 * switch_us) * 101 / 100;
}

/* @arg: seconds, and the seed of all that is random: "5:1". */
static void stress(const char *arg, void (*now_and_then)(void))
{
	pid_t tasks[TASKS];
	struct hog *h = new_hog(0, "v");
	char *rest, *line;
	uint64_t t0, used, len = strtoul(arg, &rest, 10) * SEC, seed = strtoul(rest + 1, NULL, 10);
	long changes, kb;
	bool there;

	make_group("v");
	/* The changes are made by a FIFO task: its share has to be left. */
	daemon_ceiling = "600000";
	check(start_daemon(), "the scheduler is loaded");
	reserve("v", 3000, 10000, "0");
	h->q = 3 * MS;
	h->p = 10 * MS;
	h->cpu = 1;
	t0 = now_ns() + 250 * MS;
	start_hogs(1, t0, len);
	set_fifo(2);	/* the changes must not wait for those whom they are about */
	random_seed(seed);
	start_tasks(tasks, seed);
	kb = free_kb();
	changes = churn(tasks, t0 + len, now_and_then);
	kb -= free_kb();
	set_fifo(0);
	reap_hogs(1);
	line = ask_first("stat /v");
	printf("---- %s\n", line);
	used = value_of(line, "used_ns");
	there = scheduler_is("enabled");
	check(there && within(used, len) && within(h->cpu_ns, len) && kb < 64 * 1024,
	      "STRESS seed %llu CPUs %d seconds %llu changes %ld ejects %d short %lld of %lld periods, %.4f of 0.3000 by the kernel %.4f, memory %+ld kB",
	      (unsigned long long)seed, nr_cpus, (unsigned long long)len / SEC, changes, !there,
	      value_of(line, "shorts"), value_of(line, "periods"), (double)used / len,
	      (double)h->cpu_ns / len, kb);
	end_tasks(tasks);
	printf("---- %s\n", ask_first("status"));
	check(stop_daemon() == 0, "the daemon stops");
}

void test_stress(const char *arg)
{
	stress(arg, NULL);
}

/* Another CPU than that of the reservation goes, or comes back. */
static void toggle_cpu(void)
{
	static int off;
	char path[64];
	bool back = off;
	int err;

	if (!back)
		off = 1 + random_below(nr_cpus - 1);
	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", off);
	err = put(path, "%d", back);
	if (err)
		check(false, "CPU %d goes %s: %s", off, back ? "online" : "offline", strerror(err));
	if (back)
		off = 0;
}

void test_hotplug(const char *arg)
{
	stress(arg, toggle_cpu);
}

/* The kernel's own tasks of that CPU have to free groups and tasks. */
static void litter(unsigned int n)
{
	char group[8];

	snprintf(group, sizeof(group), "l%u", n);
	for (;;) {
		pin(1);
		make_group(group);
		remove_group(group);
		if (!fork())
			_exit(0);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		busy_until(now_ns() + random_below(MS));
	}
}

/* Where its reservation is, as soon as it can. */
static void return_to(const char *group)
{
	enter(group);
	for (;;) {
		pin(1);
		busy_until(now_ns() + MS / 2);
	}
}

/* @arg: how often a CPU with a reservation goes and comes back. */
void test_cycle(const char *arg)
{
	long n, times = atol(arg);
	long long used;
	pid_t tasks[TASKS];
	unsigned int i;

	make_group("c");
	check(start_daemon(), "the scheduler is loaded");
	reserve("c", 6000, 10000, "1");
	for (i = 0; i < TASKS; i++) {
		tasks[i] = fork_flushed();
		if (tasks[i])
			continue;
		set_fifo(0);
		random_seed(i);
		if (i < 2)
			return_to("c");
		litter(i);
	}
	set_fifo(2);
	for (n = 0; n < times && scheduler_is("enabled"); n++) {
		put("/sys/devices/system/cpu/cpu1/online", "0");
		put("/sys/devices/system/cpu/cpu1/online", "1");
		usleep(random_below(30000));
	}
	check(scheduler_is("enabled"), "a CPU with a reservation has gone and come back %ld times",
	      n);
	used = value_of(ask_first("stat /c"), "used_ns");
	sleep_until(now_ns() + SEC);
	used = value_of(ask_first("stat /c"), "used_ns") - used;
	check(used > 590000000, "of 0.6 of that CPU the reservation has %.3f", used / 1e9);
	set_fifo(0);
	end_tasks(tasks);
	check(stop_daemon() == 0, "the daemon stops");
}
