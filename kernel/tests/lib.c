// SPDX-License-Identifier: Apache-2.0
/* What all tests use: files, control groups, tasks. */
#include "guest.h"

int failures;
bool v2;

void sleep_until(uint64_t t)
{
	struct timespec ts = { t / SEC, t % SEC };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

/* When the console has all that was written to it. */
void power_off(void)
{
	fflush(stdout);
	tcdrain(STDOUT_FILENO);
	reboot(RB_AUTOBOOT);
	_exit(1);
}

void die(const char *what)
{
	printf("FATAL %s: %s\n", what, strerror(errno));
	power_off();
}

/* 0 or the errno of the write. */
int put(const char *path, const char *fmt, ...)
{
	char buf[256];
	va_list ap;
	int fd, n, err = 0;

	va_start(ap, fmt);
	n = vsnprintf(buf, sizeof(buf), fmt, ap);
	va_end(ap);

	fd = open(path, O_WRONLY);
	if (fd < 0)
		return errno;
	if (write(fd, buf, n) != n)
		err = errno;
	close(fd);
	return err;
}

char *get(const char *path)
{
	static char buf[4096];
	int fd = open(path, O_RDONLY), n;

	if (fd < 0)
		return "";
	n = read(fd, buf, sizeof(buf) - 1);
	close(fd);
	if (n < 0)
		n = 0;
	buf[n] = 0;
	while (n && buf[n - 1] == '\n')
		buf[--n] = 0;
	return buf;
}

void check(bool ok, const char *fmt, ...)
{
	va_list ap;

	printf("%s ", ok ? "ok  " : "FAIL");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	failures += !ok;
	/* The kernel passes on what it does not know itself. */
	if (!ok && getenv("until"))
		power_off();
}

void expect(int got, int want, const char *what)
{
	check(got == want, "%s: %s%s%s", what, got ? strerror(got) : "accepted",
	      got == want ? "" : ", wanted ", got == want ? "" :
	      want ? strerror(want) : "accepted");
}

void same(const char *what, const char *want, const char *got)
{
	bool ok = !strcmp(want, got);

	check(ok, "%s: %s%s%s", what, got, ok ? "" : ", wanted ", ok ? "" : want);
}

/* ---- debugfs ---- */

#define SCHED_DEBUG "/sys/kernel/debug/sched/debug"

char *admitted(void)
{
	static const char * const sums[] = { ".this_bw", ".extra_bw", "->total_bw" };
	static char out[512];
	FILE *f = fopen(SCHED_DEBUG, "r");
	unsigned long long running = 0, sum;
	char line[256], *colon;
	unsigned int i;
	size_t len = 0;

	out[0] = 0;
	while (f && fgets(line, sizeof(line), f)) {
		colon = strchr(line, ':');
		if (!colon)
			continue;
		sum = strtoull(colon + 1, NULL, 10);
		if (strstr(line, ".running_bw"))
			running = sum;
		for (i = 0; i < sizeof(sums) / sizeof(*sums); i++) {
			if (strstr(line, sums[i]) && len < sizeof(out) - 32)
				len += snprintf(out + len, 32, "%s%llu",
						i ? "/" : " ", sum);
		}
		if (strstr(line, ".this_bw") && running > sum &&
		    len < sizeof(out) - 32)
			len += snprintf(out + len, 32, "<%llu", running);
	}
	if (f)
		fclose(f);
	return out;
}

long long shown(const char *queue, const char *key)
{
	FILE *f = fopen(SCHED_DEBUG, "r");
	long long number = -1;
	bool inside = false;
	char line[256];

	while (f && number < 0 && fgets(line, sizeof(line), f)) {
		if (line[0] == '\n')
			inside = false;
		else if (!strncmp(line, queue, strlen(queue)))
			inside = line[strlen(queue)] == '\n';
		else if (inside && strstr(line, key))
			number = atoll(strchr(line, ':') + 1);
	}
	if (f)
		fclose(f);
	return number;
}

/* ---- control groups ---- */

void mount_cgroups(bool want_v2)
{
	mkdir("/cg", 0755);
	v2 = want_v2;
	if (v2) {
		if (mount("cgroup2", "/cg", "cgroup2", 0, NULL))
			die("mount cgroup2");
		if (put("/cg/cgroup.subtree_control", "+cpuset +cpu"))
			die("subtree_control");
	} else if (mount("cgroup", "/cg", "cgroup", 0, "cpu")) {
		die("mount cgroup");
	}
}

char *cg(const char *group, const char *file)
{
	static char buf[4][128];
	static int i;

	i = (i + 1) % 4;
	snprintf(buf[i], sizeof(buf[i]), "/cg/%s%s%s", group, *group ? "/" : "", file);
	return buf[i];
}

int make_group(const char *group)
{
	return mkdir(cg(group, ""), 0755) ? errno : 0;
}

int remove_group(const char *group)
{
	return rmdir(cg(group, "")) ? errno : 0;
}

/* In the order that works from any state: off, period, runtime. */
int reserve(const char *group, long long q_us, long long p_us)
{
	int err;

	if (v2)
		return put(cg(group, "cpu.rt.max"), "%lld %lld", q_us, p_us);

	err = put(cg(group, "cpu.rt_runtime_us"), "0");
	if (!err)
		err = put(cg(group, "cpu.rt_period_us"), "%lld", p_us);
	if (!err)
		err = put(cg(group, "cpu.rt_runtime_us"), "%lld", q_us);
	return err;
}

int enter(const char *group)
{
	return put(cg(group, v2 ? "cgroup.procs" : "tasks"), "%d", getpid());
}

void become_user(void)
{
	if (setresgid(USER, USER, USER) || setresuid(USER, USER, USER))
		_exit(255);
}

void give(const char *group, const char *file)
{
	if (chown(cg(group, file), USER, USER))
		die("chown");
}

void delegate(const char *group)
{
	give(group, "");
	give(group, "cgroup.procs");
	if (v2) {
		give(group, "cgroup.subtree_control");
		give(group, "cgroup.threads");
	} else {
		give(group, "tasks");
	}
}

int set_policy(pid_t pid, int policy, int prio)
{
	struct sched_param sp = { .sched_priority = prio };

	return sched_setscheduler(pid, policy, &sp) ? errno : 0;
}

static void set_affinity(const cpu_set_t *set)
{
	if (sched_setaffinity(0, sizeof(*set), set))
		die("setaffinity");
}

void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	set_affinity(&set);
}

void unpin(void)
{
	cpu_set_t set;

	memset(&set, 0xff, sizeof(set));
	set_affinity(&set);
}

struct dl_attr {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t prio;
	uint64_t runtime, deadline, period;
};

static int set_dl_attr(uint64_t runtime, uint64_t period, uint64_t flags)
{
	struct dl_attr a = {
		.size = sizeof(a), .policy = DEADLINE, .flags = flags,
		.runtime = runtime, .deadline = period, .period = period,
	};

	return syscall(SYS_sched_setattr, 0, &a, 0) ? errno : 0;
}

int set_deadline(uint64_t runtime, uint64_t period)
{
	return set_dl_attr(runtime, period, 0);
}

int set_reclaiming(uint64_t runtime, uint64_t period)
{
	return set_dl_attr(runtime, period, 2 /* SCHED_FLAG_RECLAIM */);
}

/* ---- tasks ---- */

pid_t rt_child(const char *group, int *err)
{
	int p[2];
	pid_t pid;

	if (pipe(p))
		die("pipe");
	pid = fork();
	if (!pid) {
		int e = enter(group);

		if (!e)
			e = set_policy(0, SCHED_FIFO, 10);
		if (write(p[1], &e, sizeof(e)) != sizeof(e))
			_exit(1);
		for (;;)
			pause();
	}
	if (read(p[0], err, sizeof(*err)) != sizeof(*err))
		die("read");
	close(p[0]);
	close(p[1]);
	return pid;
}

void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

uint64_t burn(const char *group, int cpu, uint64_t len)
{
	uint64_t *out = shared();
	uint64_t c0, got;
	pid_t pid;

	pid = fork();
	if (!pid) {
		if (cpu >= 0)
			pin(cpu);
		if (enter(group) || set_policy(0, SCHED_FIFO, 10))
			_exit(1);
		c0 = now_ns(CLOCK_THREAD_CPUTIME_ID);
		busy_until(now_ns(CLOCK_MONOTONIC) + len);
		*out = now_ns(CLOCK_THREAD_CPUTIME_ID) - c0;
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	got = *out;
	munmap(out, 4096);
	return got;
}

/*
 * @tasks hogs of the group for @len, in all so much CPU time as comes back.
 * They may go where the group's cpuset lets them.
 */
uint64_t burn_many(const char *group, int tasks, uint64_t len)
{
	uint64_t *out = shared();
	uint64_t start = now_ns(CLOCK_MONOTONIC) + 20 * MS, c0, sum = 0;
	int i;

	for (i = 0; i < tasks; i++) {
		if (fork())
			continue;
		if (enter(group) || set_policy(0, SCHED_FIFO, 10))
			_exit(1);
		sleep_until(start);
		c0 = now_ns(CLOCK_THREAD_CPUTIME_ID);
		busy_until(start + len);
		out[i] = now_ns(CLOCK_THREAD_CPUTIME_ID) - c0;
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
	for (i = 0; i < tasks; i++)
		sum += out[i];
	munmap(out, 4096);
	return sum;
}

void *shared(void)
{
	void *mem = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (mem == MAP_FAILED)
		die("memory");
	return mem;
}

void busy_until(uint64_t t)
{
	while (now_ns(CLOCK_MONOTONIC) < t)
		;
}

int switch_cost(void)
{
	return atoi(get("/proc/sys/kernel/sched_rt_switch_cost_ns"));
}

void spin(uint64_t cpu_ns)
{
	uint64_t c0 = now_ns(CLOCK_THREAD_CPUTIME_ID);

	while (now_ns(CLOCK_THREAD_CPUTIME_ID) - c0 < cpu_ns)
		;
}
