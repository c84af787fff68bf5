// SPDX-License-Identifier: GPL-2.0-only
/* Users other than root at the daemon's socket. */
#include "guest.h"

#define FLOOD (2 * SEC)

/* A connection of another user, and the last line of the answer to a request on it. */
static int connect_stranger(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX, .sun_path = SOCKET };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (connect(fd, (struct sockaddr *)&at, sizeof(at)))
		_exit(2);
	return fd;
}

static bool is_told(int fd, const char *request, const char *want)
{
	static char b[4096];
	size_t used = 0;
	ssize_t n;
	char *line;

	send(fd, request, strlen(request), MSG_NOSIGNAL);
	do {
		n = read(fd, b + used, sizeof(b) - 1 - used);
		if (n <= 0)
			return false;
		used += n;
		b[used] = 0;
		line = memrchr(b, '\n', used - 1);
		line = line ? line + 1 : b;
	} while (b[used - 1] != '\n' || (strncmp(line, "ok", 2) && strncmp(line, "error", 5)));
	return !strncmp(line, want, strlen(want));
}

/* What another user is told: the number of the first answer that is not as it should be. */
static int ask_as_stranger(void)
{
	int fd = connect_stranger();

	if (!is_told(fd, "status\n", "ok") || !is_told(fd, "cpus\n", "ok"))
		return 2;
	if (!is_told(fd, "list\n", "ok") || !is_told(fd, "stat /c\n", "ok"))
		return 3;
	if (!is_told(fd, "set /c 1000 10000 0\n", "error EPERM"))
		return 4;
	if (!is_told(fd, "clear /c\n", "error EPERM"))
		return 5;
	return 0;
}

/* Keep as many connections as there are, and ask nothing, until killed. */
static int fill_connections(void)
{
	int i;

	for (i = 0; i < 64; i++)
		connect_stranger();
	pause();
	return 0;
}

/* Ask for 819 lists at once, and read one answer each half second, until killed. */
static int read_slowly(void)
{
	static char requests[5 * 819 + 1];
	int fd = connect_stranger(), i;
	char b[64];

	for (i = 0; i < 819; i++)
		strcat(requests, "list\n");
	send(fd, requests, strlen(requests), 0);
	while (read(fd, b, sizeof(b)) > 0)
		usleep(500000);
	return 0;
}

/* Ask for counters again and again, until killed. */
static int ask_all_the_time(void)
{
	int fd = connect_stranger();

	send(fd, "stat\nstat\nstat\n", 15, 0);
	while (is_told(fd, "stat\n", "ok"))
		;
	return 0;
}

static int connect_all_the_time(void)
{
	while (!close(connect_stranger()))
		;
	return 0;
}

/* The ms that twenty connections with a request each take. */
static int connect_often(void)
{
	uint64_t began = now_ns();
	int fd, i;

	for (i = 0; i < 20; i++) {
		fd = connect_stranger();
		if (!is_told(fd, "status\n", "ok"))
			return 255;
		close(fd);
	}
	began = (now_ns() - began) / MS;
	return began < 254 ? began : 254;
}

static pid_t start_stranger(int (*what)(void))
{
	pid_t pid = fork_flushed();

	if (pid)
		return pid;
	if (setgid(1000) || setuid(1000))
		_exit(1);
	_exit(what());
}

/* The ms until root, on a connection of its own, is answered; -1 if it is not. */
static long long time_root(void)
{
	uint64_t began = now_ns();

	if (!reconnect() || strcmp(ask("set /c 5000 10000 0"), "ok"))
		return -1;
	return (now_ns() - began) / MS;
}

/* The CPU time that the daemon has had. */
static uint64_t daemon_ns(void)
{
	struct timespec t;
	clockid_t clock;

	if (clock_getcpuclockid(daemon_pid, &clock) || clock_gettime(clock, &t))
		return 0;
	return t.tv_sec * SEC + t.tv_nsec;
}

/* What strangers take of the daemon while @n of them do the same, and root's answers. */
static void flood(int (*what)(void), int n, const char *name)
{
	long long ms, longest = 0;
	uint64_t used, end_at;
	pid_t pids[8];
	int i;

	for (i = 0; i < n; i++)
		pids[i] = start_stranger(what);
	used = daemon_ns();
	end_at = now_ns() + FLOOD;
	while (now_ns() < end_at && longest >= 0) {
		usleep(100000);
		ms = time_root();
		longest = ms < 0 || ms > longest ? ms : longest;
	}
	used = daemon_ns() - used;
	for (i = 0; i < n; i++)
		end(pids[i]);
	check(longest >= 0 && longest < 300,
	      "root is answered after %lld ms while %d of another user %s", longest, n, name);
	check(used < FLOOD / 10, "and the daemon takes %.4f of a CPU", (double)used / FLOOD);
}

void test_strangers(const char *arg)
{
	int status = 0, i;
	pid_t pid;

	(void)arg;
	make_group("c");
	check(start_daemon(), "the daemon starts");
	says("ok", ask("set /c 4000 10000 0"), "a reservation");

	waitpid(start_stranger(ask_as_stranger), &status, 0);
	check(!status, "another user may read, and change nothing (%#x)", status);
	says("ok", ask("set /c 5000 10000 0"), "root changes what another user could not");

	pid = start_stranger(fill_connections);
	sleep(1);
	for (i = 0; i < 4; i++)
		check(reconnect() && !strncmp(ask("status"), "ok", 2),
		      "root is answered beside 64 connections of another user");
	/* They are dropped after five seconds. */
	sleep(7);
	waitpid(start_stranger(ask_as_stranger), &status, 0);
	check(!status, "and other users again when those have asked nothing (%#x)", status);
	end(pid);

	waitpid(start_stranger(connect_often), &status, 0);
	check(status < 200 << 8, "another user connects and asks twenty times in %d ms",
	      status >> 8);
	flood(read_slowly, 1, "read slowly");
	flood(ask_all_the_time, 8, "ask all the time");
	flood(connect_all_the_time, 2, "connect all the time");
	check(stop_daemon() == 0, "the daemon stops");
}
