// SPDX-License-Identifier: GPL-2.0-only
/*
 * The socket and its connections.
 *
 * The daemon stands above all reservations of its CPU, so that what others than root
 * can have it do is bounded: a share of its time, half of the connections.
 */
#include "clients.h"
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MAX_CLIENTS 16
/* So many of them are for root alone, and another one is dropped if it waits so long. */
#define FOR_ROOT 8
#define IDLE_S 5
#define MAX_LINE 4096
/* It takes time from reservations whenever it wakes up. */
#define TURN_MS 1000
#define MS 1000000ULL

struct client {
	int fd;		/* -1: none */
	bool is_root;
	__u64 since;	/* of the last that was asked or sent */
	size_t used;
	char line[MAX_LINE];
	char *answer;	/* which is not sent whole; or NULL */
	size_t size, sent;
};

/*
 * What strangers, those that are not root, take of the CPU: each ns is paid with SHARE
 * ns, and a turn with TURN_NS besides, since the daemon wakes up for it. They are left
 * alone while it takes more than DEBT_NS to pay.
 */
#define SHARE 50
#define TURN_NS (2 * MS)
#define DEBT_NS (200 * MS)

static struct client clients[MAX_CLIENTS];
/* When all is paid. Requests must not keep root from connecting. */
static __u64 requests_paid, connections_paid;

static __u64 read_clock(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000 * MS + t.tv_nsec;
}

static __u64 now_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

static __u64 used_ns(void)
{
	return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

static void charge(__u64 *paid, __u64 used)
{
	__u64 now = now_ns();

	if (*paid < now)
		*paid = now;
	*paid += used * SHARE + TURN_NS;
}

/* The ms until there is time for strangers again; 0 if there is. */
static int wait_ms(__u64 paid, __u64 now)
{
	return paid <= now + DEBT_NS ? 0 : (paid - now - DEBT_NS) / MS + 1;
}

int clients_listen(const char *path)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	mode_t mask;
	int fd, i;

	for (i = 0; i < MAX_CLIENTS; i++)
		clients[i].fd = -1;
	if (strlen(path) >= sizeof(at.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(at.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	unlink(path);
	/* Everybody may read; take_client() knows who may change. */
	mask = umask(0111);
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, MAX_CLIENTS)) {
		close(fd);
		fd = -1;
	}
	umask(mask);
	return fd;
}

static void drop(struct client *c)
{
	close(c->fd);
	free(c->answer);
	*c = (struct client){ .fd = -1 };
}

/* False if nobody waits. */
static bool take_client(int listener, bool *is_root)
{
	struct ucred peer = { 0 };
	socklen_t size = sizeof(peer);
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), i;

	if (fd < 0)
		return false;
	*is_root = !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) &&
		   peer.uid == geteuid();
	for (i = *is_root ? 0 : FOR_ROOT; i < MAX_CLIENTS; i++) {
		struct client *c = &clients[i];

		if (c->fd < 0) {
			c->fd = fd;
			c->is_root = *is_root;
			c->since = now_ns();
			return true;
		}
	}
	close(fd);
	return true;
}

static void take_clients(int listener)
{
	__u64 before = used_ns();
	bool is_root, any = false;
	int i;

	/* Those that wait in one turn, which costs less than one for each. */
	for (i = 0; i < MAX_CLIENTS && take_client(listener, &is_root); i++)
		any |= !is_root;
	if (any)
		charge(&connections_paid, used_ns() - before);
}

/* As much as there is room for; the rest waits for POLLOUT. */
static void send_answer(struct client *c)
{
	ssize_t n = send(c->fd, c->answer + c->sent, c->size - c->sent, MSG_NOSIGNAL);

	if (n < 0) {
		if (errno != EAGAIN && errno != EINTR)
			drop(c);
		return;
	}
	c->since = now_ns();
	c->sent += n;
	if (c->sent < c->size)
		return;
	free(c->answer);
	c->answer = NULL;
}

static void reply(struct service *s, struct client *c)
{
	FILE *out = open_memstream(&c->answer, &c->size);

	if (out)
		answer(s, c->line, c->is_root, out);
	if (!out || fclose(out)) {
		drop(c);
		return;
	}
	c->used = c->sent = 0;
	send_answer(c);
}

/* Take one line at most from the socket, where the next ones wait for their turns. */
static void read_request(struct service *s, struct client *c)
{
	char *at = c->line + c->used, *end;
	ssize_t n = recv(c->fd, at, MAX_LINE - c->used, MSG_PEEK);

	if (n <= 0) {
		if (n == 0 || (errno != EAGAIN && errno != EINTR))
			drop(c);
		return;
	}
	end = memchr(at, '\n', n);
	if (end)
		n = end + 1 - at;
	c->used += n;
	if (recv(c->fd, at, n, 0) != n || (!end && c->used == MAX_LINE)) {
		drop(c);
	} else if (end) {
		*end = 0;
		reply(s, c);
	}
}

static void serve(struct service *s, struct client *c)
{
	if (c->answer)
		send_answer(c);
	else
		read_request(s, c);
}

void clients_turn(struct service *s, int listener)
{
	__u64 now = now_ns(), used = 0, before;
	int ask_ms = wait_ms(requests_paid, now), connect_ms = wait_ms(connections_paid, now);
	int timeout = TURN_MS, i;
	struct pollfd fds[MAX_CLIENTS + 2] = {
		{ .fd = connect_ms ? -1 : listener, .events = POLLIN },
		[MAX_CLIENTS + 1] = { .fd = kernel_fd(s->kernel), .events = POLLIN },
	};

	for (i = 0; i < MAX_CLIENTS; i++) {
		const struct client *c = &clients[i];

		fds[i + 1] = (struct pollfd){
			.fd = c->is_root || !ask_ms ? c->fd : -1,
			.events = c->answer ? POLLOUT : POLLIN,
		};
	}
	if (ask_ms && timeout > ask_ms)
		timeout = ask_ms;
	if (connect_ms && timeout > connect_ms)
		timeout = connect_ms;
	if (poll(fds, MAX_CLIENTS + 2, timeout) <= 0)
		return;
	for (i = 0; i < MAX_CLIENTS; i++) {
		bool is_root = clients[i].is_root;

		if (!fds[i + 1].revents)
			continue;
		before = used_ns();
		serve(s, &clients[i]);
		if (!is_root)
			used += used_ns() - before;
	}
	if (used)
		charge(&requests_paid, used);
	if (fds[0].revents)
		take_clients(listener);
}

void clients_drop_idle(void)
{
	__u64 now = now_ns();
	int i;

	for (i = FOR_ROOT; i < MAX_CLIENTS; i++) {
		struct client *c = &clients[i];

		if (c->fd >= 0 && !c->is_root && now - c->since > IDLE_S * 1000 * MS)
			drop(c);
	}
}
