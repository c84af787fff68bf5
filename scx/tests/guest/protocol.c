// SPDX-License-Identifier: GPL-2.0-only
/* The daemon's protocol: what it admits, refuses, forgets. */
#include "guest.h"

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

static bool restart(const char *ceiling)
{
	bool ok = stop_daemon() == 0;

	daemon_ceiling = ceiling;
	return start_daemon() && ok;
}

static long long held(void)
{
	return value_of(ask_first("status"), "reservations");
}

/* A reservation that cannot be restored is not lost; /a is the only one. */
static void hard_times(void)
{
	check(restart("100000") && !held(), "a ceiling that leaves no place");
	check(restart("950000") && held() == 1, "the reservation is back with the old one");
	if (mount("none", cg("a", ""), "tmpfs", 0, NULL))
		check(false, "a group that cannot be looked at: %s", strerror(errno));
	check(restart("950000") && !held(), "its group cannot be looked at");
	umount(cg("a", ""));
	check(restart("950000") && held() == 1, "the reservation is back with the group");
	check(restart("100000") && !held(), "no place again");
	says("ok", ask("set /a 500 10000 1"), "the group has another reservation");
	check(restart("950000") && held() == 1, "of which there is one");
	says("reservation path=/a runtime_us=500 ", ask_first("list"), "which is that one");
	says("ok", ask("set /a 5000 10000 1"), "the first one");
	check(restart("100000") && !held(), "no place");
	says("ok", ask("clear /a"), "it is given back");
	says("error ENOENT", ask("clear /a"), "once");
	check(restart("950000") && !held(), "and does not come back");
}

/* --check's exit code while a file of the CPUs in sysfs reads @text. */
static int check_with(const char *file, const char *text)
{
	char path[128];
	int code;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/%s", file);
	close(open("/run/fake", O_WRONLY | O_CREAT, 0644));
	put("/run/fake", "%s\n", text);
	if (mount("/run/fake", path, NULL, MS_BIND, NULL))
		return -errno;
	code = run_daemon("--check");
	umount(path);
	unlink("/run/fake");
	return code;
}

static void hosts(void)
{
	int code;

	code = check_with("possible", "0-1023");
	check(code == 0, "1024 CPUs are possible (%d)", code);
	code = check_with("possible", "0-1024");
	check(code == 69, "1025 CPUs are too many (%d)", code);
	code = check_with("smt/active", "1");
	check(code == 0 && daemon_said("nosmt"), "SMT is named (%d)", code);
	code = check_with("smt/active", "0");
	check(code == 0 && !daemon_said("nosmt"), "and not without it (%d)", code);
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
	hosts();
	check(start_daemon(), "the daemon starts");
	requests();
	admission();
	second();
	memory();
	hard_times();
	check(run_daemon("--measure") == 71, "nothing is measured beside a daemon");
	check(stop_daemon() == 0, "the daemon stops");
	cost();
}
