// SPDX-License-Identifier: GPL-2.0-only
/* What all tests use. */
#include "guest.h"

int failures, nr_cpus;
unsigned int switch_us;
static uint64_t random_state;

void sleep_until(uint64_t t)
{
	struct timespec ts = { t / SEC, t % SEC };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

void busy_until(uint64_t t)
{
	while (now_ns() < t)
		;
}

void power_off(void)
{
	fflush(stdout);
	tcdrain(1);
	reboot(RB_AUTOBOOT);
	for (;;)
		pause();
}

int put(const char *path, const char *fmt, ...)
{
	char b[128];
	va_list ap;
	int fd, n, err = 0;

	va_start(ap, fmt);
	n = vsnprintf(b, sizeof(b), fmt, ap);
	va_end(ap);
	fd = open(path, O_WRONLY);
	if (fd < 0)
		return errno;
	if (write(fd, b, n) != n)
		err = errno;
	close(fd);
	return err;
}

char *get(const char *path)
{
	static char b[4096];
	int fd = open(path, O_RDONLY), n = fd < 0 ? 0 : read(fd, b, sizeof(b) - 1);

	if (fd >= 0)
		close(fd);
	b[n < 0 ? 0 : n] = 0;
	b[strcspn(b, "\n")] = 0;
	return b;
}

void check(bool ok, const char *fmt, ...)
{
	va_list ap;

	printf(ok ? "ok   " : "FAIL ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	failures += !ok;
}

void says(const char *want, const char *got, const char *what)
{
	check(!strncmp(got, want, strlen(want)), "%s: %s", what, got);
}

char *cg(const char *group, const char *file)
{
	static char b[4][128];
	static int i;

	i = (i + 1) % 4;
	snprintf(b[i], sizeof(b[i]), "/cg/%s/%s", group, file);
	return b[i];
}

int make_group(const char *group)
{
	return mkdir(cg(group, ""), 0755) ? errno : 0;
}

/* Its last tasks may still be on their way out. */
int remove_group(const char *group)
{
	int i;

	for (i = 0; i < 200; i++) {
		if (!rmdir(cg(group, "")))
			return 0;
		if (errno != EBUSY)
			return errno;
		usleep(1000);
	}
	return EBUSY;
}

int enter(const char *group)
{
	return put(cg(group, "cgroup.procs"), "%d", getpid());
}

int set_fifo(int prio)
{
	struct sched_param sp = { .sched_priority = prio };

	return sched_setscheduler(0, prio ? SCHED_FIFO : SCHED_OTHER, &sp) ? errno : 0;
}

int pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? errno : 0;
}

pid_t fork_flushed(void)
{
	fflush(stdout);
	return fork();
}

void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

void random_seed(uint64_t seed)
{
	random_state = seed;
}

/* SplitMix64. */
uint64_t random_below(uint64_t n)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return (z ^ (z >> 31)) % n;
}
