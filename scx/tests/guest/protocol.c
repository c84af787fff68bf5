// SPDX-License-Identifier: GPL-2.0-only
/* The daemon's protocol: what it admits, refuses, forgets. */
#include "guest.h"

static void says(const char *want, const char *got, const char *what)
{
	check(!strncmp(got, want, strlen(want)), "%s: %s", what, got);
}

static void requests(void)
{
	says("error EINVAL set, clear", ask("sett /a 1000 10000"), "an unknown word");
	says("error EINVAL wrong number", ask("set /a 1000"), "a word is missing");
	says("error EINVAL the path", ask("set /../a 1000 10000"), "a path upwards");
	says("error EINVAL the path", ask("set a 1000 10000"), "a path without root");
	says("error EINVAL a runtime", ask("set /a -5 10000"), "a negative runtime");
	says("error EINVAL a runtime", ask("set /a 4294967297 10000"), "an overflow");
	says("error EINVAL CPUs", ask("set /a 1000 10000 0,x"), "CPUs that are none");
	says("error ENOENT", ask("set /none 1000 10000"), "no such group");
	says("error ENOENT", ask("clear /a"), "no reservation");
	says("error ENOENT", ask("stat /a"), "no counters");
	says("error EINVAL what=runtime_us asked=49 least=50 rule=asked>=least",
	     ask("set /a 49 10000 0"), "a tiny runtime");
	says("error EINVAL what=period_us asked=199 least=200 rule=asked>=least",
	     ask("set /a 100 199 0"), "a tiny period");
	says("error EINVAL what=period_us asked=1000001 most=1000000 rule=asked<=most",
	     ask("set /a 100 1000001 0"), "a long period");
	says("error EINVAL what=runtime_us asked=10001 most=10000 rule=asked<=most",
	     ask("set /a 10001 10000 0"), "more than the period");
	says("error EINVAL what=cpu asked=900 most=", ask("set /a 1000 10000 900"), "no such CPU");
	says("error EINVAL what=servers_of_the_group", ask("set /a 1000 10000 0,0"), "a CPU twice");
}

static void admission(void)
{
	char want[128];

	says("ok", ask("set /a 5000 10000 0"), "half of CPU 0");
	/* The ceiling less what /a has, and that is less. */
	snprintf(want, sizeof(want),
		 "error EBUSY what=ppm asked=%d free=%d rule=asked<=free cpu=0",
		 (4500 + 2 * switch_us) * 100, 950000 - (5000 + 2 * switch_us) * 100);
	says(want, ask("set /b 4500 10000 0"), "more than is free");
	says("ok", ask("set /b 4380 10000 0"), "what is free");
	says("error EBUSY", ask("set /a 5200 10000 0"), "a change to more than is free");
	says("ok", ask("set /a 1000 10000 0"), "a change to less");
	says("ok", ask("set /a 5000 10000 0"), "and back");
	says("ok", ask("set /a 5000 10000 1"), "a move to CPU 1");
	says("ok", ask("set /c 5000 10000 0"), "its place is free");
	check(value_of(ask_first("cpus"), "held_ppm") ==
	      (4380 + 5000 + 4 * switch_us) * 100, "the sum of CPU 0");
	check(!strcmp(ask_first("list"),
		      "reservation path=/a runtime_us=5000 period_us=10000 cpus=1"), "the list");
	says("ok", ask("clear /b"), "give back");
	says("ok", ask("set /b 300 1000"), "the cpuset is the default");
	check(!strncmp(ask_first("stat /b"), "server path=/b cpu=0 runtime_us=300", 35), "counters");
	says("ok", ask("clear /b"), "give back");
}

/* Reservations outlive the daemon, but not their groups. */
static void memory(void)
{
	int i;

	check(stop_daemon() == 0 && scheduler_is("disabled"), "SIGTERM ends daemon and scheduler");
	remove_group("c");
	make_group("c");
	check(start_daemon(), "the daemon starts again");
	check(value_of(ask_first("status"), "reservations") == 1,
	      "of two reservations that of the group that is still there");
	says("ok", ask("set /c 2000 10000 0"), "the new group");
	remove_group("c");
	for (i = 0; i < 30 && value_of(ask_first("status"), "reservations") != 1; i++)
		usleep(100000);
	check(i < 30, "the reservation of a removed group is given back");
}

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
	int fd;

	if (setgid(1000) || setuid(1000))
		return 1;
	fd = connect_stranger();
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

	if (setgid(1000) || setuid(1000))
		return 1;
	for (i = 0; i < 64; i++)
		connect_stranger();
	pause();
	return 0;
}

static void strangers(void)
{
	int status = 0, i;
	pid_t pid;

	pid = fork_flushed();
	if (!pid)
		_exit(ask_as_stranger());
	waitpid(pid, &status, 0);
	check(!status, "another user may read, and change nothing (%#x)", status);
	says("ok", ask("set /c 5000 10000 0"), "root changes what another user could not");

	pid = fork_flushed();
	if (!pid)
		_exit(fill_connections());
	sleep(1);
	for (i = 0; i < 4; i++)
		check(reconnect() && !strncmp(ask("status"), "ok", 2),
		      "root is answered beside 64 connections of another user");
	/* They are dropped after five seconds. */
	sleep(7);
	i = fork_flushed();
	if (!i)
		_exit(ask_as_stranger());
	waitpid(i, &status, 0);
	check(!status, "and other users again when those have asked nothing (%#x)", status);
	end(pid);
}

static void second(void)
{
	check(run_daemon("") == 71, "a second daemon ends with 71");
	check(scheduler_is("enabled"), "and the first goes on");
}

/* What a switch costs, by the daemon's own measure. */
static void cost(void)
{
	char args[128];
	int code;

	snprintf(args, sizeof(args), "--measure --cgroup-root /cg --switch-us %u", switch_us);
	code = run_daemon(args);
	says("switch cpu=", get(DAEMON_OUT), "what a switch costs");
	check(code == 0 && value_of(get(DAEMON_OUT), "switches") > 1500 &&
	      value_of(get(DAEMON_OUT), "median_us") >= 3 &&
	      value_of(get(DAEMON_OUT), "p99_us") < switch_us, "which is covered (%d)", code);
	make_group("nova-rt-measure");
	code = run_daemon("--measure --cgroup-root /cg --switch-us 1");
	check(code == 78, "1 us does not cover it (%d)", code);
	check(access(cg("nova-rt-measure", ""), F_OK), "its group is gone");
}

void test_protocol(const char *arg)
{
	(void)arg;
	make_group("a");
	make_group("b");
	make_group("c");
	check(start_daemon(), "the daemon starts");
	requests();
	admission();
	strangers();
	second();
	memory();
	check(run_daemon("--measure") == 71, "nothing is measured beside a daemon");
	check(stop_daemon() == 0, "the daemon stops");
	cost();
}
