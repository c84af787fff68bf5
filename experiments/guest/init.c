// SPDX-License-Identifier: Apache-2.0
/*
 * The init of the guest in which the experiments run. It reads /plan, a line
 * for each point:
 *
 *   NAME runtime=US period=US policy=rr|other link=BIT_PER_S delay=US cpus=N
 *        noise=none|periodic|endless|packets [beside=US/US ...]
 *        -- OPTIONS OF load client
 *
 * Each point has two name spaces of the network, with a pair of veth devices
 * between them, a server in a group with this reservation (none with runtime 0)
 * and noise beside it: four tasks, in a group for each reservation of "beside",
 * and endless ones in the root as well, unless they are periodic. What the client
 * prints goes to the console between "POINT name" and "END name status".
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000LL
#define SEC 1000000000LL
/* EDGE 2019: four tasks of 6 ms every 100 ms. */
#define NR_NOISE 4
#define NOISE_PERIOD (100 * MS)
#define NOISE_EACH (6 * MS)
#define MAX_GROUPS 20
#define MAX_WORDS 64

static bool v2;

struct point {
	char *name, *policy, *noise, *cpus, *client[MAX_WORDS];
	long runtime, period, link, delay;
	struct {
		long runtime, period;
	} beside[MAX_GROUPS];
	int nr_beside;
};

static void power_off(void)
{
	fflush(stdout);
	tcdrain(STDOUT_FILENO);
	reboot(RB_AUTOBOOT);
	_exit(1);
}

static void die(const char *what)
{
	printf("FATAL %s: %s\n", what, strerror(errno));
	if (getpid() == 1)
		power_off();
	fflush(stdout);
	_exit(1);
}

static int64_t now(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * SEC + ts.tv_nsec;
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		die(path);
	close(fd);
}

/* A program with its words; the output goes to @out if that is given. */
static void start(char **words, const char *out)
{
	if (out) {
		int fd = open(out, O_CREAT | O_TRUNC | O_WRONLY, 0600);

		if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0)
			die(out);
	}
	execv(words[0], words);
	die(words[0]);
}

static void split(char *line, char **words)
{
	int n = 0;

	for (line = strtok(line, " "); line && n < MAX_WORDS - 1; line = strtok(NULL, " "))
		words[n++] = line;
	words[n] = NULL;
}

static void run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void run(const char *format, ...)
{
	char line[256], copy[256], *words[MAX_WORDS];
	int status;
	va_list ap;

	va_start(ap, format);
	vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	strcpy(copy, line);
	split(copy, words);
	if (!fork())
		start(words, NULL);
	wait(&status);
	if (status) {
		errno = ECHILD;
		die(line);
	}
}

/* ---- reservations ---- */

static void group(const char *name, long runtime, long period)
{
	char path[64], text[64];

	snprintf(path, sizeof(path), "/cg/%s", name);
	if (mkdir(path, 0755))
		die(path);
	if (v2) {
		snprintf(path, sizeof(path), "/cg/%s/cpu.rt.max", name);
		snprintf(text, sizeof(text), "%ld %ld", runtime, period);
		put(path, text);
		return;
	}
	snprintf(path, sizeof(path), "/cg/%s/cpu.rt_period_us", name);
	snprintf(text, sizeof(text), "%ld", period);
	put(path, text);
	snprintf(path, sizeof(path), "/cg/%s/cpu.rt_runtime_us", name);
	snprintf(text, sizeof(text), "%ld", runtime);
	put(path, text);
}

static void leave(const char *name)
{
	char path[64];
	int i;

	snprintf(path, sizeof(path), "/cg/%s", name);
	/* What was killed may still be there for a moment. */
	for (i = 0; i < 1000 && rmdir(path) && errno == EBUSY; i++)
		usleep(1000);
	/* The kernel returns the bandwidth after a grace period. */
	usleep(50000);
}

static void enter(const char *name, bool reserved, const char *policy)
{
	struct sched_param sp = { .sched_priority = 1 };
	char path[64], text[16];

	if (!reserved)
		return;
	snprintf(path, sizeof(path), v2 ? "/cg/%s/cgroup.procs" : "/cg/%s/tasks", name);
	snprintf(text, sizeof(text), "%d", getpid());
	put(path, text);
	if (!strcmp(policy, "rr") && sched_setscheduler(0, SCHED_RR, &sp))
		die("SCHED_RR");
}

/* ---- network ---- */

/*
 * A process in a name space of its own, behind the devices @ours and @theirs;
 * it does @task once they are up.
 */
static pid_t beyond(const char *ours, const char *theirs, int net,
		    void (*task)(const struct point *), const struct point *p)
{
	int ready[2], go[2];
	char c = 0;
	pid_t pid;

	if (pipe(ready) || pipe(go))
		die("pipe");
	pid = fork();
	if (!pid) {
		if (unshare(CLONE_NEWNET))
			die("unshare");
		if (write(ready[1], &c, 1) != 1 || read(go[0], &c, 1) != 1)
			die("pipe");
		run("/bin/ip link set lo up");
		run("/bin/ip addr add 10.9.%d.2/24 dev %s", net, theirs);
		run("/bin/ip link set %s up", theirs);
		task(p);
	}
	if (read(ready[0], &c, 1) != 1)
		die(theirs);
	run("/bin/ip link add %s type veth peer name %s", ours, theirs);
	run("/bin/ip link set %s netns %d", theirs, pid);
	run("/bin/ip addr add 10.9.%d.1/24 dev %s", net, ours);
	run("/bin/ip link set %s up", ours);
	if (write(go[1], &c, 1) != 1)
		die(theirs);
	return pid;
}

/* ---- noise ---- */

static int64_t noise_begin;

static const char *noise_group(int number)
{
	static char name[16];

	snprintf(name, sizeof(name), "noise%d", number);
	return name;
}

static void endless(void)
{
	for (;;)
		;
}

static void periodic(void)
{
	int64_t next = noise_begin, before;

	for (;; next += NOISE_PERIOD) {
		struct timespec ts = { next / SEC, next % SEC };

		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
			;
		before = now(CLOCK_THREAD_CPUTIME_ID);
		while (now(CLOCK_THREAD_CPUTIME_ID) - before < NOISE_EACH)
			;
	}
}

static int packet_socket(struct sockaddr_in *a)
{
	int s = socket(AF_INET, SOCK_DGRAM, 0);

	*a = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(7001) };
	inet_pton(AF_INET, "10.9.1.2", &a->sin_addr);
	if (s < 0)
		die("socket");
	return s;
}

static void send_packets(void)
{
	static char data[1400];
	struct sockaddr_in a;
	int s = packet_socket(&a);

	for (;;)
		sendto(s, data, sizeof(data), 0, (void *)&a, sizeof(a));
}

static void take_packets(const struct point *p)
{
	static char data[1400];
	struct sockaddr_in a;
	int s = packet_socket(&a);

	if (bind(s, (void *)&a, sizeof(a)))
		die("bind");
	enter(noise_group(0), p->nr_beside, "rr");
	for (;;)
		recv(s, data, sizeof(data), 0);
}

static pid_t make_noise(void (*task)(void), int number)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	if (number >= 0)
		enter(noise_group(number), true, "rr");
	task();
	return 0;
}

static int noise(const struct point *p, pid_t *pids)
{
	void (*task)(void) = !strcmp(p->noise, "periodic") ? periodic :
			     !strcmp(p->noise, "packets") ? send_packets : endless;
	int i, n = 0;

	if (!strcmp(p->noise, "none"))
		return 0;
	for (i = 0; i < p->nr_beside; i++)
		group(noise_group(i), p->beside[i].runtime, p->beside[i].period);
	if (task == send_packets)
		pids[n++] = beyond("n0", "n1", 1, take_packets, p);
	noise_begin = now(CLOCK_MONOTONIC) + 10 * MS;
	/* One neighbour has several tasks, as the papers' has. */
	for (i = 0; i < (p->nr_beside > 1 ? p->nr_beside : NR_NOISE); i++)
		pids[n++] = make_noise(task, p->nr_beside ? i % p->nr_beside : -1);
	if (p->nr_beside && task != periodic)
		pids[n++] = make_noise(task, -1);
	return n;
}

/* ---- a point ---- */

static void server(const struct point *p)
{
	char *words[] = { "/load", "server", "--port", "7000", "--threads", p->cpus, NULL };

	if (p->delay)
		run("/bin/tc qdisc add dev s0 root netem limit 100000 delay %ldus", p->delay);
	enter("server", p->runtime, p->policy);
	start(words, NULL);
}

static void show(const char *path)
{
	static char buf[65536];
	int fd = open(path, O_RDONLY);
	ssize_t n;

	fflush(stdout);
	while (fd >= 0 && (n = read(fd, buf, sizeof(buf))) > 0) {
		if (write(STDOUT_FILENO, buf, n) != n)
			die("console");
	}
	close(fd);
}

static void measure(const struct point *p)
{
	const struct sched_param highest = { .sched_priority = 99 };
	pid_t pid, client, pids[MAX_GROUPS + 2];
	int n, status;
	int64_t begin;

	if (unshare(CLONE_NEWNET))
		die("unshare");
	if (p->runtime)
		group("server", p->runtime, p->period);
	run("/bin/ip link set lo up");
	/* The server's process is made by what has no deadline. */
	pid = beyond("c0", "s0", 0, server, p);
	if (p->link)
		run("/bin/tc qdisc add dev c0 root tbf rate %ldbit burst 1514 latency 100ms",
		    p->link);
	usleep(100000);
	n = noise(p, pids);
	begin = now(CLOCK_MONOTONIC);
	client = fork();
	/* On the control, it comes before all groups by its priority. */
	if (!client && !v2 && sched_setscheduler(0, SCHED_FIFO, &highest))
		die("SCHED_FIFO");
	if (!client)
		start((char **)p->client, "/out");
	waitpid(client, &status, 0);
	printf("virtual_ms %lld\n", (long long)((now(CLOCK_MONOTONIC) - begin) / MS));
	while (n--)
		kill(pids[n], SIGKILL);
	kill(pid, SIGKILL);
	while (wait(NULL) > 0)
		;
	if (!status)
		show("/out");
	if (v2 && p->runtime)
		show("/cg/server/cpu.rt.stat");
	if (p->runtime)
		leave("server");
	for (n = 0; n < p->nr_beside; n++)
		leave(noise_group(n));
	fflush(stdout);
	_exit(status ? 1 : 0);
}

static void add_neighbour(struct point *p, const char *text)
{
	int i = p->nr_beside++;

	if (i == MAX_GROUPS ||
	    sscanf(text, "%ld/%ld", &p->beside[i].runtime, &p->beside[i].period) != 2)
		die(text);
}

static void parse(char *line, struct point *p)
{
	char *words[MAX_WORDS], **w = words + 1;
	int n = 0;

	*p = (struct point){ .policy = "rr", .noise = "none", .cpus = "1" };
	split(line, words);
	p->name = words[0];
	for (; *w && strcmp(*w, "--"); w++) {
		char *value = strchr(*w, '=');

		if (!value)
			die(*w);
		*value++ = 0;
		if (!strcmp(*w, "policy"))
			p->policy = value;
		else if (!strcmp(*w, "noise"))
			p->noise = value;
		else if (!strcmp(*w, "beside"))
			add_neighbour(p, value);
		else if (!strcmp(*w, "cpus"))
			p->cpus = value;
		else if (!strcmp(*w, "runtime"))
			p->runtime = atol(value);
		else if (!strcmp(*w, "period"))
			p->period = atol(value);
		else if (!strcmp(*w, "link"))
			p->link = atol(value);
		else if (!strcmp(*w, "delay"))
			p->delay = atol(value);
		else
			die(*w);
	}
	p->client[n++] = "/load";
	p->client[n++] = "client";
	p->client[n++] = "--to";
	p->client[n++] = "10.9.0.2";
	p->client[n++] = "--port";
	p->client[n++] = "7000";
	/* It comes before all reservations: their deadlines are later. */
	if (v2) {
		p->client[n++] = "--deadline";
		p->client[n++] = "20";
	}
	while (*w && *++w)
		p->client[n++] = *w;
	p->client[n] = NULL;
}

static void mount_all(void)
{
	struct stat st;

	mount("proc", "/proc", "proc", 0, NULL);
	mount("sysfs", "/sys", "sysfs", 0, NULL);
	mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	if (mount("cgroup2", "/cg", "cgroup2", 0, NULL))
		die("cgroup2");
	put("/cg/cgroup.subtree_control", "+cpuset +cpu");
	v2 = !stat("/cg/cpu.rt.max", &st);
	if (v2)
		return;
	/* The control: version 1 throttles, version 2 has nothing. */
	put("/cg/cgroup.subtree_control", "-cpuset -cpu");
	umount("/cg");
	if (mount("cgroup", "/cg", "cgroup", 0, "cpu"))
		die("cgroup");
}

/* What the kernel had to say meanwhile. */
static void show_messages(void)
{
	static char buf[1 << 20];
	int n = klogctl(3, buf, sizeof(buf));	/* read all */

	printf("MESSAGES\n%.*s", n > 0 ? n : 0, buf);
}

int main(void)
{
	static char line[1024];
	struct point p;
	int status, failures = 0;
	FILE *plan;

	setvbuf(stdout, NULL, _IOLBF, 0);
	mount_all();
	/* It would write in the middle of a line of the client. */
	put("/proc/sys/kernel/printk", "1");
	if (v2) {
		/*
		 * For the client's deadline. Admission is off then, so what the
		 * reservations may have is checked before, by description.py.
		 */
		put("/proc/sys/kernel/sched_deadline_period_min_us", "10");
		put("/proc/sys/kernel/sched_rt_runtime_us", "-1");
	}
	plan = fopen("/plan", "r");
	if (!plan)
		die("/plan");
	while (fgets(line, sizeof(line), plan)) {
		line[strcspn(line, "\n")] = 0;
		if (!*line)
			continue;
		parse(line, &p);
		printf("POINT %s\n", p.name);
		if (!fork())
			measure(&p);
		wait(&status);
		failures += status != 0;
		printf("END %s %d\n", p.name, status);
	}
	show_messages();
	printf("DONE failures %d\n", failures);
	power_off();
}
