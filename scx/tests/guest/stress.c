// SPDX-License-Identifier: GPL-2.0-only
/*
 * What happens to a host in years, in seconds: groups are made, changed and removed,
 * tasks move, fork and end, CPUs go and come. Nothing is judged but that the scheduler
 * stays, that one reservation has its share meanwhile, and that the kernel does not
 * complain, which check.py reads in the log.
 */
#include "guest.h"

#define TASKS 8

static void restless(unsigned int i)
{
	set_fifo(0);
	random_seed(i);
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
			pin(random_below(2));
			break;
		case 2:
			sched_setaffinity(0, sizeof(cpu_set_t), &(cpu_set_t){ { 3 } });
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
	static const char *const cpus[] = { "0", "1", "0,1", "0-1" };
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

static void churn(pid_t *tasks, uint64_t end, void (*now_and_then)(void))
{
	int refused = 0, done = 0, changes = 0;

	while (now_ns() < end) {
		one_change(tasks, &refused, &done);
		if (now_and_then && changes % 50 == 49)
			now_and_then();
		changes++;
		usleep(random_below(2000));
	}
	check(done > 10, "%d changes, %d reservations set, %d refused", changes, done, refused);
}

static void start_tasks(pid_t *tasks)
{
	unsigned int i;

	for (i = 0; i < TASKS; i++) {
		tasks[i] = fork_flushed();
		if (!tasks[i])
			restless(i);
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

/*
 * The virtual clock goes on while another CPU of the guest executes: what a task
 * has of it is known to the kernel only, not to a hog.
 */
static void check_share(const struct hog *h, uint64_t len)
{
	uint64_t ppm = h->cpu_ns * 1000000 / len, want = h->q * 1000000 / h->p;

	check(ppm >= want * 97 / 100, "a reservation of %.4f has %.4f of a CPU", want / 1e6,
	      ppm / 1e6);
}

static void stress(uint64_t len, void (*now_and_then)(void))
{
	pid_t tasks[TASKS];
	struct hog *h = new_hog(0, "v");
	uint64_t t0, used, want = len * 3 / 10;

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
	start_tasks(tasks);
	churn(tasks, t0 + len, now_and_then);
	set_fifo(0);
	reap_hogs(1);
	/* The kernel's own count of its time is less here: shown only. */
	used = value_of(ask_first("stat /v"), "used_ns");
	check(used >= want * 97 / 100 && used <= want * 103 / 100,
	      "a reservation of 0.3000 has %.4f of a CPU, %.4f by the kernel's count",
	      (double)used / len, (double)h->cpu_ns / len);
	printf("---- %s\n", ask_first("stat /v"));
	end_tasks(tasks);
	check(scheduler_is("enabled"), "the scheduler is still there");
	printf("---- %s\n", ask_first("status"));
	check(stop_daemon() == 0, "the daemon stops");
}

void test_stress(const char *arg)
{
	stress(strtoul(arg, NULL, 10) * MS, NULL);
}

static void toggle_cpu(void)
{
	static bool off;
	int err;

	off = !off;
	err = put("/sys/devices/system/cpu/cpu1/online", "%d", !off);
	if (err)
		check(false, "CPU 1 goes %s: %s", off ? "offline" : "online", strerror(err));
}

void test_hotplug(const char *arg)
{
	stress(strtoul(arg, NULL, 10) * MS, toggle_cpu);
}

/* A group with servers on two CPUs: its tasks, which may run on both, find both. */
void test_spread(const char *arg)
{
	uint64_t t0, len = 400 * MS;
	int i, n;

	(void)arg;
	make_group("a");
	check(start_daemon(), "the scheduler is loaded");
	reserve("a", 4000, 10000, "0,1");
	for (i = 0; i < 2; i++) {
		struct hog *h = new_hog(i, "a");

		h->q = 4 * MS;
		h->p = 10 * MS;
	}
	n = add_beside(2, "oooo");
	t0 = now_ns() + 100 * MS;
	start_hogs(n, t0, len);
	reap_hogs(n);
	for (i = 0; i < 2; i++)
		check_share(&hogs[i], len);
	check(stop_daemon() == 0, "the daemon stops");
}
