// SPDX-License-Identifier: GPL-2.0-only
/* Tests of the connections, on the machine that builds: all are of the daemon's user. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "clients.h"

#define BIG (2 << 20)
#define FLOOD 819

static int listener, asked;
static const char *path;

/* In place of the service: "big" has a big answer, and all others repeat the request. */
void answer(struct service *s, char *line, bool may_change, FILE *out)
{
	int i;

	(void)s;
	CHECK(may_change);
	asked++;
	if (strcmp(line, "big")) {
		fprintf(out, "%s\n", line);
		return;
	}
	for (i = 0; i < BIG; i++)
		fputc('a' + i % 23, out);
}

int kernel_fd(struct kernel *k)
{
	(void)k;
	return -1;
}

static void turn(void)
{
	static struct service none;

	clients_turn(&none, listener);
}

static int join(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	strncpy(at.sun_path, path, sizeof(at.sun_path) - 1);
	CHECK(!connect(fd, (struct sockaddr *)&at, sizeof(at)));
	turn();
	return fd;
}

/* Leave, and have that noticed. */
static void leave(int fd)
{
	close(fd);
	turn();
}

static void say(int fd, const char *text)
{
	CHECK(send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text));
}

static bool hears(int fd, const char *want)
{
	char got[128];
	ssize_t n = recv(fd, got, sizeof(got), 0);

	return n == (ssize_t)strlen(want) && !memcmp(got, want, n);
}

/* Requests in any pieces are answered one by one. */
static void test_lines(void)
{
	int fd = join();

	asked = 0;
	say(fd, "one\ntwo\nth");
	turn();
	CHECK(asked == 1 && hears(fd, "one\n"));
	turn();
	CHECK(asked == 2 && hears(fd, "two\n"));
	turn();
	say(fd, "ree\n");
	turn();
	CHECK(asked == 3 && hears(fd, "three\n"));
	leave(fd);
}

static void test_long_line(void)
{
	static char line[4096];
	int fd = join();
	char c;

	memset(line, 'x', sizeof(line));
	CHECK(send(fd, line, sizeof(line), 0) == sizeof(line));
	turn();
	CHECK(!recv(fd, &c, 1, 0));
	close(fd);
}

/* An answer that no buffer of a socket holds arrives whole. */
static void test_big(void)
{
	static char part[100000];
	int fd = join(), at = 0, i;
	ssize_t n;

	say(fd, "big\n");
	while (at < BIG) {
		turn();
		while ((n = recv(fd, part, sizeof(part), 0)) > 0) {
			for (i = 0; i < n && part[i] == 'a' + at % 23; i++)
				at++;
			CHECK(i == n);
		}
		if (n == 0 || failures)
			break;
	}
	CHECK(at == BIG);
	say(fd, "more\n");
	turn();
	CHECK(hears(fd, "more\n"));
	leave(fd);
}

/* Nobody waits for a client that asks a lot and reads nothing. */
static void test_flood(void)
{
	static char requests[5 * FLOOD + 1];
	int fd = join(), other = join(), i;
	time_t began = time(NULL);

	for (i = 0; i < FLOOD; i++)
		strcat(requests, "list\n");
	say(fd, requests);
	for (i = 0; i < FLOOD; i++) {
		say(other, "x\n");
		turn();
		CHECK(hears(other, "x\n"));
	}
	CHECK(time(NULL) - began < 3);
	leave(fd);
	leave(other);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	path = argv[1];
	listener = clients_listen(path);
	CHECK(listener >= 0);
	test_lines();
	test_long_line();
	test_big();
	test_flood();
	printf("clients: %d failures\n", failures);
	return failures != 0;
}
