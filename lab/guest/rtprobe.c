// SPDX-License-Identifier: Apache-2.0
/*
 * rtprobe: a small service, and the client that measures it.
 *
 *   rtprobe serve                 in a container: answers on UDP port 7007
 *   rtprobe ask IP WORD...        outside: one request, prints the answer
 *   rtprobe load IP RATE SERVICE_US COUNT SEED [exponential]
 *                                 outside: Poisson arrivals, prints for
 *                                 each the response time of the service and
 *                                 of the client, in microseconds, or "lost".
 *                                 Each request costs SERVICE_US, or an
 *                                 exponential time of that mean
 *
 * A request is one datagram "<seq> <verb> <arguments>", its answer
 * "<seq> <text>" with the same number. Verbs:
 *
 *   W <us>           burn that much CPU time          -> done <us>
 *   I                how the service runs             -> <policy> <priority> <cpus>
 *   A <cpu>          run on that CPU only (-1: any)   -> ok
 *   H <other|rr|fifo> <priority> <cpu> <seconds> <n>
 *                    start n endless loops            -> ok
 *   U                what loops used since the start  -> <running> <us>
 *   K                end all loops                    -> ok
 *
 * What cannot be done is answered with "error <call> <errno's name>", what
 * cannot be understood with "error usage".
 *
 * The service does one request at a time and its socket keeps the others, so
 * it is a queue with one server. Work is measured on the thread's CPU clock:
 * it takes longer exactly by the time in which the CPU does something else.
 * The client sends at random times that it has drawn before (open loop), so
 * that a slow answer cannot hide those behind it.
 *
 * A response time is taken at both ends. The service's own runs from the
 * kernel's receive time stamp, which a packet gets at the container's network
 * interface before any process has to run, to the end of the work: waiting in
 * the socket, waiting for the CPU and the work, nothing else. The client's runs
 * from the moment at which it meant to send until it has the answer: the
 * network's delays in both directions and its own are in it as well.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	PORT = 7007,
	DATAGRAM = 256,
	MAX_WORDS = 8,
	MAX_HOGS = 64,
	MAX_WORK_US = 10 * 1000 * 1000,
	MAX_HOG_SECONDS = 3600,
	MAX_COUNT = 1000 * 1000,
};

#define NS_PER_S 1000000000LL

static int64_t now_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* A whole number in a range, and nothing behind it. */
static int parse(const char *text, int64_t min, int64_t max, int64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoll(text, &end, 10);
	return !errno && end != text && !*end && *value >= min && *value <= max;
}

static int split(char *text, char *words[MAX_WORDS])
{
	char *rest = NULL, *word = strtok_r(text, " \n", &rest);
	int n = 0;

	for (; word && n < MAX_WORDS; word = strtok_r(NULL, " \n", &rest))
		words[n++] = word;
	return word ? 0 : n;
}

/* --- the service ------------------------------------------------------- */

/* One endless loop; shared with the process that runs it. */
struct hog {
	pid_t pid;
	volatile int64_t used_ns;
};

static struct hog *hogs;
static int64_t ended_ns; /* used by loops that are gone */

static const struct {
	const char *name;
	int policy;
} policies[] = {
	{ "other", SCHED_OTHER },
	{ "rr", SCHED_RR },
	{ "fifo", SCHED_FIFO },
};

static void reply(char *answer, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void reply(char *answer, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(answer, DATAGRAM, format, args);
	va_end(args);
}

static int set_cpu(int64_t cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	if (cpu >= 0)
		CPU_SET(cpu, &set);
	else
		/* The kernel takes out what the cpuset does not allow. */
		memset(&set, 0xff, sizeof(set));
	return sched_setaffinity(0, sizeof(set), &set);
}

static void burn(int64_t us)
{
	int64_t end = now_ns(CLOCK_THREAD_CPUTIME_ID) + us * 1000;

	while (now_ns(CLOCK_THREAD_CPUTIME_ID) < end)
		;
}

static void info(char *answer)
{
	const char *name = "unknown";
	struct sched_param param;
	int policy, cpu, length;
	char separator = ' ';
	cpu_set_t set;

	policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
	for (size_t i = 0; i < sizeof(policies) / sizeof(*policies); i++)
		if (policies[i].policy == policy)
			name = policies[i].name;
	if (sched_getparam(0, &param) ||
	    sched_getaffinity(0, sizeof(set), &set)) {
		reply(answer, "error sched_getparam %s", strerrorname_np(errno));
		return;
	}
	length = snprintf(answer, DATAGRAM, "%s %d", name, param.sched_priority);
	for (cpu = 0; cpu < CPU_SETSIZE && length < DATAGRAM - 8; cpu++)
		if (CPU_ISSET(cpu, &set)) {
			length += snprintf(answer + length, DATAGRAM - length,
					   "%c%d", separator, cpu);
			separator = ',';
		}
}

/* In the child: become what was asked for, say how it went, loop. */
static void hog_run(struct hog *self, int policy, int priority, int64_t cpu,
		    int64_t seconds, int status)
{
	struct sched_param param = { .sched_priority = priority };
	int64_t end = now_ns(CLOCK_MONOTONIC) + seconds * NS_PER_S;
	int failed[2] = { 0, 0 };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (cpu >= 0 && set_cpu(cpu))
		failed[0] = 1, failed[1] = errno;
	else if (sched_setscheduler(0, policy, &param))
		failed[0] = 2, failed[1] = errno;
	if (write(status, failed, sizeof(failed)) != sizeof(failed) || failed[0])
		_exit(1);
	close(status);
	while (now_ns(CLOCK_MONOTONIC) < end) {
		for (int i = 0; i < 20000; i++)
			__asm__ volatile("");
		self->used_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
	}
	_exit(0);
}

static void hog_reap(void)
{
	for (int i = 0; i < MAX_HOGS; i++) {
		if (!hogs[i].pid || !waitpid(hogs[i].pid, NULL, WNOHANG))
			continue;
		ended_ns += hogs[i].used_ns;
		hogs[i].pid = 0;
		hogs[i].used_ns = 0;
	}
}

static void hog_kill(void)
{
	for (int i = 0; i < MAX_HOGS; i++) {
		if (!hogs[i].pid)
			continue;
		kill(hogs[i].pid, SIGKILL);
		waitpid(hogs[i].pid, NULL, 0);
		ended_ns += hogs[i].used_ns;
		hogs[i].pid = 0;
		hogs[i].used_ns = 0;
	}
}

/* Start one; 0, or the number of the call that failed and errno. */
static int hog_start(int policy, int priority, int64_t cpu, int64_t seconds)
{
	int pipes[2], failed[2] = { 3, EAGAIN };
	struct hog *slot = NULL;
	pid_t pid;

	for (int i = 0; i < MAX_HOGS && !slot; i++)
		if (!hogs[i].pid)
			slot = &hogs[i];
	if (!slot || pipe(pipes)) {
		errno = slot ? errno : EAGAIN;
		return 3;
	}
	slot->used_ns = 0;
	pid = fork();
	if (!pid) {
		close(pipes[0]);
		hog_run(slot, policy, priority, cpu, seconds, pipes[1]);
	}
	close(pipes[1]);
	if (pid > 0) {
		slot->pid = pid;
		if (read(pipes[0], failed, sizeof(failed)) != sizeof(failed))
			failed[0] = 3, failed[1] = ECHILD;
	} else {
		failed[1] = errno;
	}
	close(pipes[0]);
	errno = failed[1];
	return failed[0];
}

static void hog_request(char *answer, char *words[])
{
	static const char *const calls[] = {
		"", "sched_setaffinity", "sched_setscheduler", "fork",
	};
	int64_t priority, cpu, seconds, count;
	int policy = -1, failed = 0;

	for (size_t i = 0; i < sizeof(policies) / sizeof(*policies); i++)
		if (!strcmp(words[0], policies[i].name))
			policy = policies[i].policy;
	if (policy < 0 || !parse(words[1], 0, 99, &priority) ||
	    !parse(words[2], -1, CPU_SETSIZE - 1, &cpu) ||
	    !parse(words[3], 1, MAX_HOG_SECONDS, &seconds) ||
	    !parse(words[4], 1, MAX_HOGS, &count)) {
		reply(answer, "error usage");
		return;
	}
	while (count-- && !failed)
		failed = hog_start(policy, priority, cpu, seconds);
	if (failed)
		reply(answer, "error %s %s", calls[failed],
		      strerrorname_np(errno));
	else
		reply(answer, "ok");
}

static void usage_request(char *answer)
{
	int64_t used = ended_ns;
	int running = 0;

	for (int i = 0; i < MAX_HOGS; i++) {
		running += hogs[i].pid != 0;
		used += hogs[i].used_ns;
	}
	reply(answer, "%d %lld", running, (long long)(used / 1000));
}

/* Of the request, at the container's network interface; see socket(7). */
static int64_t arrival_ns(struct msghdr *message)
{
	struct cmsghdr *part = CMSG_FIRSTHDR(message);
	struct timespec t;

	for (; part; part = CMSG_NXTHDR(message, part))
		if (part->cmsg_level == SOL_SOCKET &&
		    part->cmsg_type == SCM_TIMESTAMPNS) {
			memcpy(&t, CMSG_DATA(part), sizeof(t));
			return t.tv_sec * NS_PER_S + t.tv_nsec;
		}
	return 0;
}

static void work(char *answer, int64_t us, int64_t arrived)
{
	burn(us);
	if (!arrived)
		reply(answer, "error recvmsg ENODATA");
	else
		reply(answer, "done %lld",
		      (long long)(now_ns(CLOCK_REALTIME) - arrived) / 1000);
}

static void serve_one(char *answer, int n, char *words[], int64_t arrived)
{
	char verb = n && !words[0][1] ? words[0][0] : 0;
	int64_t number;

	if (verb == 'W' && n == 2 && parse(words[1], 0, MAX_WORK_US, &number)) {
		work(answer, number, arrived);
	} else if (verb == 'I' && n == 1) {
		info(answer);
	} else if (verb == 'A' && n == 2 &&
		   parse(words[1], -1, CPU_SETSIZE - 1, &number)) {
		if (set_cpu(number))
			reply(answer, "error sched_setaffinity %s",
			      strerrorname_np(errno));
		else
			reply(answer, "ok");
	} else if (verb == 'H' && n == 6) {
		hog_request(answer, words + 1);
	} else if (verb == 'U' && n == 1) {
		usage_request(answer);
	} else if (verb == 'K' && n == 1) {
		hog_kill();
		reply(answer, "ok");
	} else {
		reply(answer, "error usage");
	}
}

static int serve(void)
{
	struct sockaddr_in here = {
		.sin_family = AF_INET,
		.sin_port = htons(PORT),
		.sin_addr.s_addr = htonl(INADDR_ANY),
	};
	char last[DATAGRAM] = "", answer[DATAGRAM], text[DATAGRAM];
	char out[2 * DATAGRAM], *words[MAX_WORDS];
	struct sockaddr_in peer;
	char control[CMSG_SPACE(sizeof(struct timespec))];
	struct iovec data = { .iov_base = text, .iov_len = sizeof(text) - 1 };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };
	int stamp = 1;
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint64_t last_seq = 0;
	ssize_t length;
	int64_t seq;
	int n;

	hogs = mmap(NULL, MAX_HOGS * sizeof(*hogs), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (hogs == MAP_FAILED || s < 0 ||
	    setsockopt(s, SOL_SOCKET, SO_TIMESTAMPNS, &stamp, sizeof(stamp)) ||
	    bind(s, (struct sockaddr *)&here, sizeof(here))) {
		perror("rtprobe");
		return 1;
	}
	printf("rtprobe: serving on UDP port %d\n", PORT);
	fflush(stdout);
	for (;;) {
		message.msg_name = &peer;
		message.msg_namelen = sizeof(peer);
		message.msg_control = control;
		message.msg_controllen = sizeof(control);
		length = recvmsg(s, &message, 0);
		if (length < 0)
			continue;
		text[length] = 0;
		n = split(text, words);
		/* Not a request: an answer would be to a forged address. */
		if (n < 2 || !parse(words[0], 1, INT64_MAX, &seq))
			continue;
		hog_reap();
		/* The client asks again when an answer is late: do it once. */
		if ((uint64_t)seq == last_seq) {
			strcpy(answer, last);
		} else {
			serve_one(answer, n - 1, words + 1,
				  arrival_ns(&message));
			last_seq = seq;
			strcpy(last, answer);
		}
		n = snprintf(out, sizeof(out), "%lld %s", (long long)seq,
			     answer);
		sendto(s, out, n, 0, (struct sockaddr *)&peer,
		       message.msg_namelen);
	}
}

/* --- the client -------------------------------------------------------- */

static int dial(const char *ip)
{
	struct sockaddr_in there = {
		.sin_family = AF_INET,
		.sin_port = htons(PORT),
	};
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (s < 0 || inet_pton(AF_INET, ip, &there.sin_addr) != 1 ||
	    connect(s, (struct sockaddr *)&there, sizeof(there)))
		return -1;
	return s;
}

/* Ask until there is an answer, or for 10 s. */
static int exchange(int s, int64_t seq, const char *text, char *answer)
{
	char out[2 * DATAGRAM], *rest;
	struct pollfd ready = { .fd = s, .events = POLLIN };
	int n = snprintf(out, sizeof(out), "%lld %s", (long long)seq, text);
	int64_t end = now_ns(CLOCK_MONOTONIC) + 10 * NS_PER_S;
	ssize_t length;

	while (now_ns(CLOCK_MONOTONIC) < end) {
		/* A refused port is an error of the next call; ask again. */
		if (send(s, out, n, 0) < 0)
			usleep(100 * 1000);
		while (poll(&ready, 1, 500) > 0) {
			length = recv(s, answer, DATAGRAM - 1, 0);
			if (length < 0)
				break;
			answer[length] = 0;
			if (strtoll(answer, &rest, 10) == seq && *rest == ' ') {
				memmove(answer, rest + 1, strlen(rest));
				return 0;
			}
		}
	}
	return -1;
}

static int64_t random_seq(void)
{
	uint64_t seq;

	if (getrandom(&seq, sizeof(seq), 0) != sizeof(seq))
		return 0;
	/* Room above it for the numbers of a whole load. */
	return (int64_t)((seq >> 2) + 1);
}

static int ask(const char *ip, int n, char *words[])
{
	char text[DATAGRAM] = "", answer[DATAGRAM];
	int s = dial(ip);

	for (int i = 0; i < n; i++) {
		if (strlen(text) + strlen(words[i]) + 2 > sizeof(text))
			return 2;
		strcat(text, words[i]);
		if (i < n - 1)
			strcat(text, " ");
	}
	if (s < 0 || exchange(s, random_seq(), text, answer)) {
		fprintf(stderr, "rtprobe: no answer from %s\n", ip);
		return 1;
	}
	printf("%s\n", answer);
	return !strncmp(answer, "error", 5);
}

/* One request: when it was due and answered, and what the service says. */
struct request {
	int64_t due_ns;
	int64_t done_ns; /* 0: no answer */
	int64_t work_us;
	int64_t service_us;
};

/* Take an answer to W apart; 0 when it is none. */
static int done_us(const char *answer, int64_t *us)
{
	return !strncmp(answer, "done ", 5) &&
	       parse(answer + 5, 0, INT64_MAX, us);
}

static void print_times(const struct request *requests, int64_t count)
{
	const struct request *one = requests;

	for (; one < requests + count; one++)
		if (one->done_ns)
			printf("%lld %lld\n", (long long)one->service_us,
			       (long long)(one->done_ns - one->due_ns) / 1000);
		else
			printf("lost\n");
}

/* Draw the arrivals; then, so that they stay the same, the work. */
static void draw(struct request *requests, int64_t count, int64_t start_ns,
		 double rate, int64_t service_us, int exponential)
{
	struct request *one;
	double at = 0, drawn;

	for (one = requests; one < requests + count; one++) {
		at += -log(1.0 - drand48()) / rate;
		one->due_ns = start_ns + (int64_t)(at * NS_PER_S);
		one->work_us = service_us;
	}
	for (one = requests; exponential && one < requests + count; one++) {
		drawn = -log(1.0 - drand48()) * service_us;
		one->work_us = drawn < MAX_WORK_US ? (int64_t)drawn
						   : MAX_WORK_US;
	}
}

static int load(const char *ip, double rate, int64_t service_us, int64_t count,
		int64_t seed, int exponential)
{
	struct request *requests = calloc(count, sizeof(*requests)), *one;
	int64_t base = random_seq(), start, end, now, sent = 0, got = 0, i;
	char text[DATAGRAM], answer[DATAGRAM], *rest;
	struct sched_param first = { .sched_priority = 1 };
	struct pollfd ready = { .events = POLLIN };
	struct timespec wait;
	ssize_t n;

	ready.fd = dial(ip);
	if (!requests || ready.fd < 0) {
		perror("rtprobe");
		return 1;
	}
	prctl(PR_SET_TIMERSLACK, 1);
	/* What delays the client would look like a slow service. */
	if (sched_setscheduler(0, SCHED_FIFO, &first))
		fprintf(stderr, "rtprobe: the client is not real-time: %s\n",
			strerror(errno));
	/* Addresses resolved, flows set up, caches warm. */
	for (i = 1; i <= 20; i++) {
		snprintf(text, sizeof(text), "W %lld", (long long)service_us);
		if (exchange(ready.fd, base + i, text, answer)) {
			fprintf(stderr, "rtprobe: no answer from %s\n", ip);
			return 1;
		}
		if (!done_us(answer, &now)) {
			fprintf(stderr, "rtprobe: %s: %s\n", ip, answer);
			return 1;
		}
	}
	base += 100;
	srand48(seed);
	start = now_ns(CLOCK_MONOTONIC) + NS_PER_S / 10;
	draw(requests, count, start, rate, service_us, exponential);
	end = requests[count - 1].due_ns + 10 * NS_PER_S;
	while (got < count && (now = now_ns(CLOCK_MONOTONIC)) < end) {
		if (sent < count && now >= requests[sent].due_ns) {
			n = snprintf(text, sizeof(text), "%lld W %lld",
				     (long long)(base + sent),
				     (long long)requests[sent].work_us);
			if (send(ready.fd, text, n, 0) < 0 &&
			    errno != ECONNREFUSED)
				perror("rtprobe: send");
			sent++;
			continue;
		}
		now = (sent < count ? requests[sent].due_ns : end) - now;
		wait.tv_sec = now / NS_PER_S;
		wait.tv_nsec = now % NS_PER_S;
		if (ppoll(&ready, 1, &wait, NULL) <= 0)
			continue;
		n = recv(ready.fd, answer, sizeof(answer) - 1, MSG_DONTWAIT);
		now = now_ns(CLOCK_MONOTONIC);
		if (n < 0)
			continue;
		answer[n] = 0;
		i = strtoll(answer, &rest, 10) - base;
		if (i < 0 || i >= sent || *rest != ' ')
			continue;
		one = &requests[i];
		if (!one->done_ns && done_us(rest + 1, &one->service_us)) {
			one->done_ns = now;
			got++;
		}
	}
	print_times(requests, count);
	return 0;
}

int main(int argc, char *argv[])
{
	int exponential = argc == 8 && !strcmp(argv[7], "exponential");
	int64_t rate, service_us, count, seed;

	if (argc == 2 && !strcmp(argv[1], "serve"))
		return serve();
	if (argc >= 4 && !strcmp(argv[1], "ask"))
		return ask(argv[2], argc - 3, argv + 3);
	if (argc == 7 + exponential && !strcmp(argv[1], "load") &&
	    parse(argv[3], 1, 100000, &rate) &&
	    parse(argv[4], 0, MAX_WORK_US, &service_us) &&
	    parse(argv[5], 1, MAX_COUNT, &count) &&
	    parse(argv[6], 0, INT64_MAX, &seed))
		return load(argv[2], rate, service_us, count, seed,
			    exponential);
	fprintf(stderr, "usage: rtprobe serve | ask IP WORD... | "
			"load IP RATE SERVICE_US COUNT SEED [exponential]\n");
	return 2;
}
