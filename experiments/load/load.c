// SPDX-License-Identifier: Apache-2.0
/*
 * load: a server that uses the CPU time it is asked for, and the requests for
 * it. Open loop: requests have instants at which they are to be sent, whatever
 * became of the ones before, and response times count from these instants.
 *
 *   load server --port PORT [--threads N]
 *   load client --to ADDRESS --port PORT --count N --rate PER_S --work NS
 *        [--work-is exponential|constant] [--size BYTES]
 *        [--size-is exponential|constant] [--seed N]
 *        [--deadline US] [--patience S]
 *   load client --to ADDRESS --port PORT --trace FILE
 *        [--deadline US] [--patience S]
 *
 * A trace has a line for each request: when it is to be sent, counted from the
 * beginning, and its CPU time, both in ns, and its size in bytes if that is not
 * 128. So "awk 'NF == 10 {print $2, $9, $10}'" makes a trace of what a client
 * printed.
 *
 * UDP. A request is a train of datagrams that each fit into an Ethernet frame;
 * its size counts their headers. It is there with its last datagram, and lost
 * if one of them is. The server is one thread: first come, first served. Several
 * threads share one queue, and take requests of one datagram only.
 *
 * The client prints a line for each request, times in ns:
 *
 *   number intended sent until begun arrived received early service size
 *
 * Instants count from the beginning. From "sent" to "until", the client was
 * awake, and a server on the same CPU was not. "begun" and "arrived" are when
 * the first and the last datagram came to the server's kernel, by its clock:
 * they mean something where that is the client's, too. "received" is when the
 * answer came to the client's kernel. So either program may be late to look.
 * "service" is the CPU time of the server's thread from the request before to
 * this one; receiving and answering are in it. "early" of it was for the
 * datagrams before the last one, which need not have come then. A request
 * without an answer has "lost" in the place of the last six. The last line is
 * "end", the number of answers and the number of requests.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SEC 1000000000LL
#define FRAME 1514	/* bytes on a link, with the headers below */
#define HEADERS (14 + 20 + 8)
#define MAGIC 0x6e72746cU
#define MAX_COUNT 10000000
#define MAX_SIZE (1 << 20)
#define MAX_THREADS 64
#define MAX_WORK (100 * SEC)
#define MAX_TIME (86400 * SEC)
#define DEADLINE 6	/* SCHED_DEADLINE */
/* experiments/distwalk/load.c has others. */
#ifndef SERVE
#define SERVE serve
#define ASK ask
#endif

struct request {
	uint32_t magic, number;
	uint32_t part, parts;
	int64_t work_ns;
};

#define MIN_SIZE (HEADERS + (int)sizeof(struct request))

struct answer {
	uint32_t magic, number;
	int64_t begun_ns, arrived_ns, early_ns, service_ns;
};

struct sample {
	int64_t intended, sent, until, begun, arrived, received, early, service, work;
	int32_t size;
};

struct options {
	const char *to, *trace;
	long port, threads, count, deadline_us, patience_s;
	double rate, work, size;
	bool work_constant, size_constant;
	uint64_t seed;
};

static void fail(const char *what)
{
	fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void refuse(const char *option, const char *value, const char *why)
{
	fprintf(stderr, "load: %s %s: %s\n", option, value, why);
	exit(2);
}

static int64_t now(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * SEC + ts.tv_nsec;
}

/* ---- random numbers: splitmix64, the same everywhere ---- */

static uint64_t next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

static double exponential(uint64_t *state, double mean)
{
	/* 53 bits, above 0 and at most 1 */
	return -mean * log(((next(state) >> 11) + 1) * 0x1p-53);
}

/* ---- datagrams ---- */

static int udp(void)
{
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), size = 64 << 20, on = 1;

	if (s < 0)
		fail("socket");
	/* A burst waits here; without the privilege, as much as there may be. */
	if (setsockopt(s, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)))
		setsockopt(s, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	if (setsockopt(s, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)))
		fail("SO_TIMESTAMPNS");
	return s;
}

/* Take a datagram; @when is when the kernel got it, by CLOCK_REALTIME, or 0. */
static ssize_t take(int s, void *buf, size_t size, int flags, struct sockaddr_in *from,
		    int64_t *when)
{
	char control[CMSG_SPACE(sizeof(struct timespec))];
	struct iovec v = { buf, size };
	struct msghdr m = { .msg_name = from, .msg_namelen = from ? sizeof(*from) : 0,
			    .msg_iov = &v, .msg_iovlen = 1,
			    .msg_control = control, .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(s, &m, flags);
	struct timespec ts;
	struct cmsghdr *c;

	*when = 0;
	if (n < 0)
		return n;
	for (c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS)
			continue;
		memcpy(&ts, CMSG_DATA(c), sizeof(ts));
		*when = ts.tv_sec * SEC + ts.tv_nsec;
	}
	return n;
}

/* ---- server ---- */

static struct sockaddr_in address(const char *text, long port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };

	if (inet_pton(AF_INET, text, &a.sin_addr) != 1)
		refuse("--to", text, "no IPv4 address");
	return a;
}

struct served {
	int socket;
	bool several;
};

static void *work(void *argument)
{
	const struct served *served = argument;
	struct sockaddr_in from;
	_Alignas(8) char buf[FRAME];
	struct request *r = (void *)buf;
	uint32_t number = 0, parts = 0;
	int64_t before, used, when, begun = 0, early = 0;
	int s = served->socket;

	before = now(CLOCK_THREAD_CPUTIME_ID);
	for (;;) {
		ssize_t n = take(s, buf, sizeof(buf), 0, &from, &when);
		struct answer a = { .magic = MAGIC };

		if (n < (ssize_t)sizeof(*r) || r->magic != MAGIC)
			continue;
		/* Another thread would have the rest of it. */
		if (served->several && r->parts != 1)
			continue;
		if (r->part == 0) {
			number = r->number;
			parts = 0;
			begun = when;
			early = 0;
		}
		if (r->number != number || r->part != parts++)
			continue;
		if (parts != r->parts) {
			early = now(CLOCK_THREAD_CPUTIME_ID) - before;
			continue;
		}
		do {
			used = now(CLOCK_THREAD_CPUTIME_ID) - before;
		} while (used < r->work_ns);
		before += used;
		a.number = number;
		a.begun_ns = begun;
		a.arrived_ns = when;
		a.early_ns = early;
		a.service_ns = used;
		/* What cannot be sent is lost, and the client sees it. */
		if (sendto(s, &a, sizeof(a), 0, (void *)&from, sizeof(from)) < 0)
			continue;
	}
	return NULL;
}

static void serve(long port, long threads)
{
	struct sockaddr_in here = address("0.0.0.0", port);
	struct served served = { udp(), threads > 1 };
	pthread_t thread;

	if (bind(served.socket, (void *)&here, sizeof(here)))
		fail("bind");
	if (mlockall(MCL_CURRENT) && errno != EPERM && errno != ENOMEM)
		fail("mlockall");
	while (--threads) {
		errno = pthread_create(&thread, NULL, work, &served);
		if (errno)
			fail("pthread_create");
	}
	fprintf(stderr, "load: ready\n");
	work(&served);
}

/* ---- client ---- */

static void take_answers(int s, struct sample *samples, long all, long *got,
			 int64_t offset)
{
	struct answer a;
	int64_t when;
	ssize_t n;

	while ((n = take(s, &a, sizeof(a), MSG_DONTWAIT, NULL, &when)) >= 0) {
		if (n != sizeof(a) || a.magic != MAGIC || a.number >= all ||
		    samples[a.number].received || !when || !a.begun_ns || !a.arrived_ns)
			continue;
		samples[a.number].begun = a.begun_ns - offset;
		samples[a.number].arrived = a.arrived_ns - offset;
		samples[a.number].received = when - offset;
		samples[a.number].early = a.early_ns;
		samples[a.number].service = a.service_ns;
		++*got;
	}
}

static void send_request(int s, uint32_t number, const struct sample *x)
{
	static char buf[FRAME - HEADERS];
	struct request *r = (void *)buf;
	uint32_t part, parts = (x->size + FRAME - 1) / FRAME;
	int left = x->size;

	*r = (struct request){ MAGIC, number, 0, parts, x->work };
	for (part = 0; part < parts; part++) {
		int bytes = left > FRAME ? FRAME : left;

		left -= bytes;
		bytes -= HEADERS;
		if (bytes < (int)sizeof(*r))
			bytes = sizeof(*r);
		r->part = part;
		/* A full queue on the way drops it: the request is lost. */
		if (send(s, buf, bytes, 0) < 0 && errno != ENOBUFS && errno != EAGAIN)
			fail("send");
	}
}

static void set_deadline(long us)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t prio;
		uint64_t runtime, deadline, period;
	} a = { .size = sizeof(a), .policy = DEADLINE, .runtime = us * 1000,
		.deadline = us * 1000, .period = us * 1000 };

	if (syscall(SYS_sched_setattr, 0, &a, 0))
		fail("SCHED_DEADLINE");
}

static struct sample *draw(const struct options *o)
{
	long i;
	struct sample *x = calloc(o->count, sizeof(*x));
	/* Streams of their own: other sizes leave the arrivals as they are. */
	uint64_t arrivals = o->seed * 3 + 1, works = ~o->seed, sizes = o->seed ^ 0x5555;
	double t = 0;

	if (!x)
		fail("memory");
	for (i = 0; i < o->count; i++) {
		double work = o->work, size = o->size;

		t += exponential(&arrivals, 1e9 / o->rate);
		if (!o->work_constant)
			work = exponential(&works, o->work);
		if (!o->size_constant)
			size = exponential(&sizes, o->size);
		if (size > MAX_SIZE)
			size = MAX_SIZE;
		if (size < MIN_SIZE)
			size = MIN_SIZE;
		x[i].intended = t;
		x[i].work = ceil(work);
		x[i].size = lround(size);
	}
	return x;
}

static void refuse_line(const char *path, long line, const char *why)
{
	fprintf(stderr, "load: --trace %s: line %ld: %s\n", path, line, why);
	exit(2);
}

static struct sample *read_trace(const struct options *o, long *count)
{
	FILE *file = fopen(o->trace, "r");
	struct sample *x = NULL;
	long long before = 0;
	char *line = NULL;
	size_t room = 0;
	long n = 0;

	if (!file)
		refuse("--trace", o->trace, strerror(errno));
	for (; getline(&line, &room, file) >= 0; n++) {
		long long when, work, size = o->size;
		int end = 0, fields;

		fields = sscanf(line, "%lld %lld %n%lld %n", &when, &work, &end, &size, &end);
		if (fields < 2 || line[end])
			refuse_line(o->trace, n + 1, "not \"INSTANT_NS CPU_TIME_NS [BYTES]\"");
		if (when < before || when > MAX_TIME)
			refuse_line(o->trace, n + 1, "the instant is before the one in front "
				    "of it, or later than a day");
		if (work < 0 || work > MAX_WORK)
			refuse_line(o->trace, n + 1, "the CPU time is not from 0 to 100 s");
		if (size < MIN_SIZE || size > MAX_SIZE)
			refuse_line(o->trace, n + 1, "the size is not that of a request");
		if (n == MAX_COUNT)
			refuse_line(o->trace, n + 1, "too many requests");
		/* Twice as much room at each power of two. */
		if (!(n & (n - 1)))
			x = realloc(x, (n ? 2 * n : 1) * sizeof(*x));
		if (!x)
			fail("memory");
		x[n] = (struct sample){ .intended = when, .work = work, .size = size };
		before = when;
	}
	if (ferror(file))
		fail(o->trace);
	if (!n)
		refuse("--trace", o->trace, "it has no requests");
	free(line);
	fclose(file);
	*count = n;
	return x;
}

static void ask(const struct options *o)
{
	struct sockaddr_in there = address(o->to, o->port);
	long count = o->count;
	struct sample *x = o->trace ? read_trace(o, &count) : draw(o);
	long i, got = 0, all = count;
	int64_t start, offset, end;
	int s = udp();

	if (connect(s, (void *)&there, sizeof(there)))
		fail("connect");
	if (mlockall(MCL_CURRENT) && errno != EPERM && errno != ENOMEM)
		fail("mlockall");
	if (o->deadline_us)
		set_deadline(o->deadline_us);
	offset = now(CLOCK_REALTIME) - now(CLOCK_MONOTONIC);
	start = now(CLOCK_MONOTONIC) + SEC / 50;
	for (i = 0; i < all; i++) {
		struct timespec ts = { (start + x[i].intended) / SEC,
				       (start + x[i].intended) % SEC };

		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
			;
		x[i].sent = now(CLOCK_MONOTONIC) - start;
		send_request(s, i, &x[i]);
		take_answers(s, x, all, &got, offset + start);
		x[i].until = now(CLOCK_MONOTONIC) - start;
	}
	end = now(CLOCK_MONOTONIC) + o->patience_s * SEC;
	while (got < all && now(CLOCK_MONOTONIC) < end) {
		struct pollfd p = { .fd = s, .events = POLLIN };

		poll(&p, 1, 10);
		take_answers(s, x, all, &got, offset + start);
	}
	for (i = 0; i < all; i++) {
		printf("%ld %lld %lld %lld ", i, (long long)x[i].intended,
		       (long long)x[i].sent, (long long)x[i].until);
		if (x[i].received)
			printf("%lld %lld %lld %lld %lld %d\n", (long long)x[i].begun,
			       (long long)x[i].arrived, (long long)x[i].received,
			       (long long)x[i].early, (long long)x[i].service, x[i].size);
		else
			printf("lost\n");
	}
	printf("end %ld %ld\n", got, all);
}

/* ---- options ---- */

static double number(const char *option, const char *text, double low, double high)
{
	char *end, why[64];
	double value = strtod(text, &end);

	snprintf(why, sizeof(why), "not a number from %.10g to %.10g", low, high);
	/* NaN fails the comparisons. */
	if (end == text || *end || !(value >= low && value <= high))
		refuse(option, text, why);
	return value;
}

static long whole(const char *option, const char *text, double low, double high)
{
	double value = number(option, text, low, high);

	if (value != floor(value))
		refuse(option, text, "not a whole number");
	return value;
}

static bool constant(const char *option, const char *text)
{
	if (strcmp(text, "constant") && strcmp(text, "exponential"))
		refuse(option, text, "neither exponential nor constant");
	return !strcmp(text, "constant");
}

int main(int argc, char **argv)
{
	struct options o = { .size = 128, .size_constant = true, .seed = 1,
			     .patience_s = 2, .threads = 1 };
	bool server = argc > 1 && !strcmp(argv[1], "server");
	int i;

	if (!server && (argc < 2 || strcmp(argv[1], "client"))) {
		fprintf(stderr, "load: the first word is server or client\n");
		return 2;
	}
	for (i = 2; i < argc; i += 2) {
		const char *k = argv[i], *v = argv[i + 1];

		if (!v)
			refuse(k, "", "it needs a value");
		if (!strcmp(k, "--port"))
			o.port = whole(k, v, 1, 65535);
		else if (server && !strcmp(k, "--threads"))
			o.threads = whole(k, v, 1, MAX_THREADS);
		else if (server)
			refuse(k, v, "no option of the server");
		else if (!strcmp(k, "--to"))
			o.to = v;
		else if (!strcmp(k, "--trace"))
			o.trace = v;
		else if (!strcmp(k, "--count"))
			o.count = whole(k, v, 1, MAX_COUNT);
		else if (!strcmp(k, "--rate"))
			o.rate = number(k, v, 1e-3, 1e6);
		else if (!strcmp(k, "--work"))
			o.work = number(k, v, 0, MAX_WORK);
		else if (!strcmp(k, "--work-is"))
			o.work_constant = constant(k, v);
		else if (!strcmp(k, "--size"))
			o.size = number(k, v, 1, MAX_SIZE);
		else if (!strcmp(k, "--size-is"))
			o.size_constant = constant(k, v);
		else if (!strcmp(k, "--seed"))
			o.seed = whole(k, v, 0, 1e15);
		else if (!strcmp(k, "--deadline"))
			o.deadline_us = whole(k, v, 1, 1e6);
		else if (!strcmp(k, "--patience"))
			o.patience_s = whole(k, v, 0, 3600);
		else
			refuse(k, v, "no option of the client");
	}
	if (!o.port)
		refuse("--port", "", "it is missing");
	if (server)
		SERVE(o.port, o.threads);
	if (!o.to)
		refuse("--to", "", "it is missing");
	if (o.trace && (o.count || o.rate || o.work))
		refuse("--trace", o.trace, "neither --count, --rate nor --work goes with it");
	if (!o.trace && !o.count)
		refuse("--count", "", "it is missing");
	if (!o.trace && !o.rate)
		refuse("--rate", "", "it is missing");
	ASK(&o);
	return 0;
}
