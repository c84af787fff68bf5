// SPDX-License-Identifier: Apache-2.0
/*
 * distwalk in the place of our load: the same options, the same requests, the
 * same lines of output. It starts dw_node and dw_client, which get the
 * intervals and CPU times in files, in the order of the requests.
 *
 * The server has CPU 0 and the client CPU 1, unless whoever starts them has
 * chosen: the client is an ordinary task and would wait for the server.
 * "service" is the CPU time that was asked for, in whole microseconds, and
 * "until", "begun" and "arrived" are when a request was sent; distwalk does not
 * say what was used, nor when it came. Its messages have a size of its own.
 */
struct options;
static void start_node(long port, long threads);
static void start_client(const struct options *o);

#define SERVE start_node
#define ASK start_client
#pragma GCC diagnostic ignored "-Wunused-function"
#include "../load/load.c"
#include <sched.h>
#include <sys/wait.h>

#define GAPS "/gaps.csv"
#define WORKS "/works.csv"

static void stay_on(int cpu)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		fail("sched_getaffinity");
	if (CPU_COUNT(&set) == 1)
		return;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity");
}

static void start_node(long port, long threads)
{
	char where[32], several[16];

	stay_on(0);
	/* It makes a file there. */
	if (setenv("HOME", "/", 1))
		fail("setenv");
	snprintf(where, sizeof(where), "0.0.0.0:%ld", port);
	snprintf(several, sizeof(several), "--nt=%ld", threads);
	/*
	 * It would leave the policy that uses the reservation. -1: compute by the
	 * clock of the thread, and calibrate nothing.
	 */
	execl("/bin/dw_node", "dw_node", "-b", where, several, "--sched-policy=rr:1",
	      "--loops-per-usec=-1", NULL);
	fail("dw_node");
}

static FILE *must_open(const char *path)
{
	FILE *f = fopen(path, "w");

	if (!f)
		fail(path);
	return f;
}

/* dw_client's output; there is no shell for popen(). */
static FILE *start_and_read(const struct options *o)
{
	char where[64], count[16];
	int ends[2];
	pid_t pid;

	snprintf(where, sizeof(where), "%s:%ld", o->to, o->port);
	snprintf(count, sizeof(count), "%ld", o->count);
	if (pipe(ends))
		fail("pipe");
	pid = fork();
	if (pid < 0)
		fail("fork");
	if (!pid) {
		if (dup2(ends[1], STDOUT_FILENO) < 0)
			fail("dup2");
		close(ends[0]);
		execl("/bin/dw_client", "dw_client", "--to", where, "--retry-num=20",
		      "--retry-period=200", "--nano", "-n", count, "-p", "file:" GAPS,
		      "-C", "file:" WORKS, NULL);
		fail("dw_client");
	}
	close(ends[1]);
	return fdopen(ends[0], "r");
}

static void start_client(const struct options *o)
{
	struct sample *x = draw(o);
	FILE *gaps = must_open(GAPS), *works = must_open(WORKS), *answers;
	long i, number, got = 0, all = o->count;
	long long sent, elapsed;
	int64_t start = INT64_MAX;
	char line[256];
	int status;

	for (i = 0; i < all; i++) {
		int64_t next = i + 1 < all ? x[i + 1].intended : x[i].intended;

		x[i].work = (x[i].work + 500) / 1000 * 1000;
		fprintf(gaps, "%.3f\n", (next - x[i].intended) / 1e3);
		fprintf(works, "%lld\n", (long long)x[i].work / 1000);
	}
	fclose(gaps);
	fclose(works);
	stay_on(1);
	answers = start_and_read(o);
	while (fgets(line, sizeof(line), answers)) {
		if (sscanf(line, "t: %lld ns, elapsed: %lld ns, req_id: %ld", &sent,
			   &elapsed, &number) != 3)
			continue;
		if (number < 0 || number >= all)
			continue;
		x[number].sent = sent;
		if (elapsed > 0) {
			x[number].received = sent + elapsed;
			got++;
		}
		/* The first one is due when it begins; none is sent too early. */
		if (sent - x[number].intended < start)
			start = sent - x[number].intended;
	}
	if (wait(&status) < 0 || status) {
		errno = ECHILD;
		fail("dw_client");
	}
	for (i = 0; i < all; i++) {
		long long came = x[i].sent - start;

		printf("%ld %lld %lld %lld ", i, (long long)x[i].intended, came, came);
		if (x[i].received)
			printf("%lld %lld %lld 0 %lld %d\n", came, came,
			       (long long)(x[i].received - start), (long long)x[i].work,
			       x[i].size);
		else
			printf("lost\n");
	}
	printf("end %ld %ld\n", got, all);
}
