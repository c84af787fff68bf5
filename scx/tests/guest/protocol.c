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
	/* 950000 - (5000 + 2 * 12) * 100, and (4500 + 2 * 12) * 100 is more. */
	snprintf(want, sizeof(want),
		 "error EBUSY what=ppm asked=%d free=%d rule=asked<=free cpu=0",
		 (4500 + 2 * SWITCH_US) * 100, 950000 - (5000 + 2 * SWITCH_US) * 100);
	says(want, ask("set /b 4500 10000 0"), "more than is free");
	says("ok", ask("set /b 4400 10000 0"), "what is free");
	says("error EBUSY", ask("set /a 5200 10000 0"), "a change to more than is free");
	says("ok", ask("set /a 1000 10000 0"), "a change to less");
	says("ok", ask("set /a 5000 10000 0"), "and back");
	says("ok", ask("set /a 5000 10000 1"), "a move to CPU 1");
	says("ok", ask("set /c 5000 10000 0"), "its place is free");
	check(value_of(ask_first("cpus"), "held_ppm") ==
	      (4400 + 5000 + 4 * SWITCH_US) * 100, "the sum of CPU 0");
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

static void strangers(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX, .sun_path = "/run/nova-rt-sched/socket" };
	struct stat st;
	pid_t pid;
	int status = 0;

	check(!stat(at.sun_path, &st) && (st.st_mode & 0777) == 0600, "the socket's mode is 0600");
	chmod(at.sun_path, 0666);
	pid = fork_flushed();
	if (!pid) {
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);
		char b[64];

		if (setgid(1000) || setuid(1000) || connect(fd, (struct sockaddr *)&at, sizeof(at)))
			_exit(2);
		send(fd, "status\n", 7, MSG_NOSIGNAL);
		_exit(read(fd, b, sizeof(b)) > 0);
	}
	waitpid(pid, &status, 0);
	check(WIFEXITED(status) && WEXITSTATUS(status) == 0,
	      "another user gets no answer, whatever the mode (%#x)", status);
}

static void second(void)
{
	check(run_daemon(NULL) == 71, "a second daemon ends with 71");
	check(scheduler_is("enabled"), "and the first goes on");
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
	check(stop_daemon() == 0, "the daemon stops");
}
