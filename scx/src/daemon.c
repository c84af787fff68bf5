// SPDX-License-Identifier: GPL-2.0-only
/*
 * nova-rt-sched: loads the scheduler, and serves its reservations on a socket.
 * README.rst has the protocol and the exit codes.
 */
#include "clients.h"
#include "measure.h"
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

static struct service service = {
	.table = { .ceiling_ppm = 950000, .switch_us = 3 },
	.cgroup_root = "/sys/fs/cgroup",
	.state = "/run/nova-rt-sched/reservations",
};
static const char *socket_path = "/run/nova-rt-sched/socket";
static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
	(void)number;
	stopped = 1;
}

/* Tell systemd, if it waits for that. */
static void notify(const char *text)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int fd;

	if (!path || strlen(path) >= sizeof(to.sun_path))
		return;
	strcpy(to.sun_path, path);
	if (*path == '@')
		to.sun_path[0] = 0;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&to,
	       offsetof(struct sockaddr_un, sun_path) + strlen(path));
	close(fd);
}

static time_t seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

static int run(int listener)
{
	time_t last = seconds();
	char why[1024];

	while (!stopped) {
		clients_turn(&service, listener);
		if (kernel_ended(service.kernel, why, sizeof(why))) {
			kernel_dump(service.kernel, stderr);
			fprintf(stderr, "the kernel has ended the scheduler: %s\n", why);
			return EX_TEMPFAIL;
		}
		if (seconds() != last) {
			last = seconds();
			prune(&service);
			clients_drop_idle();
			notify("WATCHDOG=1");
		}
	}
	notify("STOPPING=1");
	return EX_OK;
}

/* Its own requests and its end must not wait for those whom it schedules. */
static void be_first(void)
{
	struct sched_param p = { .sched_priority = 1 };

	if (sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &p))
		fprintf(stderr, "without real-time priority: %s\n", strerror(errno));
}

static void usage(FILE *out)
{
	fprintf(out, "usage: nova-rt-sched [OPTION]...\n"
		     "  --check             say whether this kernel can run it, and exit\n"
		     "  --measure           say whether --switch-us covers a switch, and exit\n"
		     "  --socket PATH       (/run/nova-rt-sched/socket)\n"
		     "  --state PATH        (/run/nova-rt-sched/reservations)\n"
		     "  --cgroup-root PATH  (/sys/fs/cgroup)\n"
		     "  --ceiling-ppm N     what may be reserved of a CPU (950000)\n"
		     "  --switch-us N       what a preemption costs on this machine (3)\n");
}

static bool number(const char *text, unsigned long most, __u32 *out)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	*out = value;
	return *text >= '0' && *text <= '9' && !*end && !errno && value <= most;
}

static bool parse_options(int argc, char **argv, bool *check_only, bool *measure_only)
{
	static const struct option options[] = {
		{ "check", no_argument, NULL, 'k' },
		{ "measure", no_argument, NULL, 'm' },
		{ "socket", required_argument, NULL, 's' },
		{ "state", required_argument, NULL, 'f' },
		{ "cgroup-root", required_argument, NULL, 'r' },
		{ "ceiling-ppm", required_argument, NULL, 'c' },
		{ "switch-us", required_argument, NULL, 'w' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'k':
			*check_only = true;
			break;
		case 'm':
			*measure_only = true;
			break;
		case 's':
			socket_path = optarg;
			break;
		case 'f':
			service.state = optarg;
			break;
		case 'r':
			service.cgroup_root = optarg;
			break;
		case 'c':
			if (!number(optarg, 950000, &service.table.ceiling_ppm))
				return false;
			break;
		case 'w':
			if (!number(optarg, 1000, &service.table.switch_us))
				return false;
			break;
		case 'h':
			usage(stdout);
			exit(EX_OK);
		default:
			return false;
		}
	}
	return optind == argc;
}

/* Say what reservations lose on a host that can have them. */
static void warn(FILE *out)
{
	if (!kernel_frees_in_threads())
		fprintf(out, "without rcu_nocbs=all on the kernel's command line, interrupts that free the memory of ended tasks take time from reservations\n");
	if (kernel_has_smt())
		fprintf(out, "with SMT, reservations are of hardware threads, which share the speed of their cores; nosmt on the kernel's command line turns it off\n");
}

int main(int argc, char **argv)
{
	struct sigaction stop = { .sa_handler = on_signal };
	bool check_only = false, measure_only = false;
	char why[1024];
	int listener, code;

	if (!parse_options(argc, argv, &check_only, &measure_only)) {
		usage(stderr);
		return EX_USAGE;
	}
	setlinebuf(stderr);
	if (!kernel_is_usable(why, sizeof(why))) {
		fprintf(stderr, "this kernel cannot run the scheduler: %s\n", why);
		return EX_UNAVAILABLE;
	}
	if (check_only)
		printf("this kernel can run the scheduler\n");
	warn(check_only ? stdout : stderr);
	if (check_only)
		return EX_OK;
	sigaction(SIGTERM, &stop, NULL);
	sigaction(SIGINT, &stop, NULL);
	be_first();
	service.table.nr_cpus = kernel_cpus();
	service.kernel = kernel_start(service.table.switch_us * 1000, why, sizeof(why));
	if (!service.kernel) {
		fprintf(stderr, "the scheduler cannot be started: %s\n", why);
		return EX_OSERR;
	}
	if (measure_only) {
		code = measure(service.kernel, service.cgroup_root, service.table.switch_us);
		kernel_stop(service.kernel);
		return code;
	}
	restore(&service);
	listener = clients_listen(socket_path);
	if (listener < 0) {
		fprintf(stderr, "%s: %s\n", socket_path, strerror(errno));
		kernel_stop(service.kernel);
		return EX_CANTCREAT;
	}
	notify("READY=1");
	code = run(listener);
	unlink(socket_path);
	kernel_stop(service.kernel);
	return code;
}
