// SPDX-License-Identifier: GPL-2.0-only
/* The daemon, as its clients see it. */
#include "guest.h"

pid_t daemon_pid;
const char *daemon_ceiling = "950000";
static int connection = -1;
static char text[65536];

static bool connect_to(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX, .sun_path = SOCKET };

	connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connection >= 0 && !connect(connection, (struct sockaddr *)&at, sizeof(at)))
		return true;
	close(connection);
	connection = -1;
	return false;
}

bool reconnect(void)
{
	struct timeval limit = { .tv_sec = 5 };

	if (connection >= 0)
		close(connection);
	return connect_to() &&
	       !setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

/* No more than the unit leaves it. */
static void drop_capabilities(void)
{
	int i;

	for (i = 0; i <= CAP_LAST_CAP; i++) {
		if (i != CAP_BPF && i != CAP_PERFMON && i != CAP_SYS_NICE)
			prctl(PR_CAPBSET_DROP, i);
	}
}

int run_daemon(const char *args)
{
	pid_t pid = fork_flushed();
	char *rest = strdup(args), *argv[9] = { "nova-rt-sched" };
	int status, n;

	if (!pid) {
		for (n = 1; n < 8 && rest && *rest; n++)
			argv[n] = strsep(&rest, " ");
		dup2(open(DAEMON_OUT, O_WRONLY | O_CREAT | O_TRUNC, 0644), 1);
		execv("/nova-rt-sched", argv);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

bool daemon_said(const char *what)
{
	static char b[4096];
	int fd = open(DAEMON_OUT, O_RDONLY), n = read(fd, b, sizeof(b) - 1);

	close(fd);
	b[n < 0 ? 0 : n] = 0;
	return strstr(b, what);
}

bool start_daemon(void)
{
	uint64_t limit = now_ns() + 5 * SEC;
	char us[16];

	mkdir("/run/nova-rt-sched", 0755);
	unlink(SOCKET);
	snprintf(us, sizeof(us), "%u", switch_us);
	daemon_pid = fork_flushed();
	if (!daemon_pid) {
		drop_capabilities();
		execl("/nova-rt-sched", "nova-rt-sched", "--cgroup-root", "/cg",
		      "--switch-us", us, "--ceiling-ppm", daemon_ceiling, NULL);
		_exit(127);
	}
	while (now_ns() < limit && waitpid(daemon_pid, NULL, WNOHANG) == 0) {
		if (connect_to())
			return true;
		usleep(1000);
	}
	return false;
}

int wait_daemon(void)
{
	uint64_t limit = now_ns() + 5 * SEC;
	int status;

	if (connection >= 0)
		close(connection);
	connection = -1;
	while (now_ns() < limit) {
		if (waitpid(daemon_pid, &status, WNOHANG) == daemon_pid) {
			daemon_pid = 0;
			return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
		}
		usleep(200);
	}
	return -1;
}

int stop_daemon(void)
{
	kill(daemon_pid, SIGTERM);
	return wait_daemon();
}

/* The whole answer to a request, in `text`; a broken connection is an error, too. */
static void exchange(const char *fmt, va_list ap)
{
	size_t n, last;
	ssize_t got;

	vsnprintf(text, sizeof(text) - 1, fmt, ap);
	strcat(text, "\n");
	n = strlen(text);
	if (connection < 0 || write(connection, text, n) != (ssize_t)n) {
		strcpy(text, "error EPIPE");
		return;
	}
	for (n = 0; n < sizeof(text) - 1; n += got) {
		got = read(connection, text + n, sizeof(text) - 1 - n);
		if (got <= 0) {
			strcpy(text, "error ECONNRESET");
			return;
		}
		text[n + got] = 0;
		if (text[n + got - 1] != '\n')
			continue;
		for (last = n + got - 1; last && text[last - 1] != '\n'; last--)
			;
		if (!strcmp(text + last, "ok\n") || !strncmp(text + last, "error ", 6))
			return;
	}
}

char *ask(const char *fmt, ...)
{
	char *line;
	va_list ap;

	va_start(ap, fmt);
	exchange(fmt, ap);
	va_end(ap);
	text[strlen(text) - 1] = 0;
	line = strrchr(text, '\n');
	return line ? line + 1 : text;
}

char *ask_first(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	exchange(fmt, ap);
	va_end(ap);
	text[strcspn(text, "\n")] = 0;
	return text;
}

long long value_of(const char *line, const char *key)
{
	size_t length = strlen(key);

	for (; (line = strchr(line, ' ')); ) {
		line++;
		if (!strncmp(line, key, length) && line[length] == '=')
			return atoll(line + length + 1);
	}
	return -1;
}

bool reserve(const char *group, long q_us, long p_us, const char *cpus)
{
	char *said = ask("set /%s %ld %ld%s%s", group, q_us, p_us, *cpus ? " " : "", cpus);

	if (!strcmp(said, "ok"))
		return true;
	printf("FAIL set %s %ld %ld %s: %s\n", group, q_us, p_us, cpus, said);
	failures++;
	return false;
}

bool unreserve(const char *group)
{
	return !strcmp(ask("clear /%s", group), "ok");
}

bool scheduler_is(const char *state)
{
	return !strcmp(get("/sys/kernel/sched_ext/state"), state);
}
