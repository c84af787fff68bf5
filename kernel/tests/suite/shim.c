// SPDX-License-Identifier: Apache-2.0
/*
 * shim COMMAND...: runs programs that know only cpu.rt_runtime_us and
 * cpu.rt_period_us of the first HCBS series on control groups that have
 * cpu.rt.max instead. What they open, read and write of the two files is
 * translated, with the kernel's errno; all else goes to the kernel as it is.
 *
 * A group at max has the runtime 0 for such a program, as a new group had then.
 * The root group has all of its period.
 * What these programs start is left alone. A filter of system calls would do
 * with fewer stops, and needs a kernel with networking.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

/* One file a name, so that the link of a descriptor says what it stands for. */
#define PLACE "/tmp/shim"
#define NAMES 256

static char names[NAMES][PATH_MAX];
static int used;

static void die(const char *what)
{
	perror(what);
	exit(2);
}

/* The two numbers of a group; runtime is -1 for max. */
static int get_max(const char *group, long long *runtime, long long *period)
{
	char path[PATH_MAX + 16], text[64], word[32];
	ssize_t len;
	int fd;

	snprintf(path, sizeof(path), "%s/cpu.rt.max", group);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return -errno;
	len = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (len < 0)
		return -EIO;
	text[len] = 0;
	if (sscanf(text, "%31s %lld", word, period) != 2)
		return -EIO;
	*runtime = strcmp(word, "max") ? atoll(word) : -1;
	return 0;
}

static int put_max(const char *group, long long runtime, long long period)
{
	char path[PATH_MAX + 16], text[64];
	int fd, len, ret = 0;

	snprintf(path, sizeof(path), "%s/cpu.rt.max", group);
	fd = open(path, O_WRONLY);
	if (fd < 0)
		return -errno;
	if (runtime < 0)
		len = snprintf(text, sizeof(text), "max %lld", period);
	else
		len = snprintf(text, sizeof(text), "%lld %lld", runtime, period);
	if (write(fd, text, len) < 0)
		ret = -errno;
	close(fd);
	return ret;
}

/* Cut the file's name off @path. Returns 'r' or 'p' for one of ours, or 0. */
static char split(char *path)
{
	char *name = strrchr(path, '/');

	if (!name)
		return 0;
	*name++ = 0;
	if (!strcmp(name, "cpu.rt_runtime_us"))
		return 'r';
	return strcmp(name, "cpu.rt_period_us") ? 0 : 'p';
}

static int is_root(const char *group)
{
	char path[PATH_MAX + 16];

	snprintf(path, sizeof(path), "%s/cgroup.type", group);
	return access(path, F_OK);
}

/* Make a file that reads like @path did. Returns its number. */
static int stand_in(const char *path)
{
	char group[PATH_MAX], file[64];
	long long runtime, period;
	int i, ret;
	FILE *f;
	char which;

	strcpy(group, path);
	which = split(group);
	ret = get_max(group, &runtime, &period);
	if (ret)
		return ret;
	for (i = 0; i < used && strcmp(names[i], path); i++)
		;
	if (i == NAMES)
		return -ENFILE;
	if (i == used)
		strcpy(names[used++], path);
	snprintf(file, sizeof(file), PLACE "/%d", i);
	f = fopen(file, "w");
	if (!f)
		die(file);
	if (runtime < 0)
		runtime = is_root(group) ? period : 0;
	fprintf(f, "%lld\n", which == 'p' ? period : runtime);
	fclose(f);
	return i;
}

/* What a write of @text to stand-in @i does. */
static long translate(int i, const char *text, size_t len)
{
	char group[PATH_MAX], *end;
	long long runtime, period, value;
	char which;
	int ret;

	strcpy(group, names[i]);
	which = split(group);
	value = strtoll(text, &end, 10);
	if (end == text || (*end && strcmp(end, "\n")))
		return -EINVAL;
	ret = get_max(group, &runtime, &period);
	if (!ret) {
		if (which == 'p')
			ret = put_max(group, runtime, value);
		else
			ret = put_max(group, value, period);
	}
	return ret ? ret : (long)len;
}

/* The program's memory; its descriptor is closed by whoever asked. */
static int memory(pid_t pid)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDWR);
	if (fd < 0)
		die(path);
	return fd;
}

/* Copy a text; it may end where the next page does not exist. */
static void copy_in(pid_t pid, unsigned long from, char *to, size_t size)
{
	int fd = memory(pid);
	ssize_t len = pread(fd, to, size - 1, from);

	close(fd);
	to[len < 0 ? 0 : len] = 0;
}

static void answer(pid_t pid, struct user_regs_struct *regs, long value)
{
	regs->orig_rax = -1;
	regs->rax = value;
	ptrace(PTRACE_SETREGS, pid, NULL, regs);
}

/* Let the call use another path; its registers come back when it is over. */
static void redirect(pid_t pid, struct user_regs_struct *regs, int i)
{
	char file[64] = "";
	struct user_regs_struct after, changed = *regs;
	int fd = memory(pid), status;

	snprintf(file, sizeof(file), PLACE "/%d", i);
	/* Below what the program may use of its stack. */
	changed.rsi = regs->rsp - 1024;
	if (pwrite(fd, file, sizeof(file), changed.rsi) != sizeof(file))
		die("write to the program");
	close(fd);
	ptrace(PTRACE_SETREGS, pid, NULL, &changed);
	ptrace(PTRACE_SYSCALL, pid, NULL, 0);
	if (waitpid(pid, &status, __WALL) < 0 || !WIFSTOPPED(status))
		return;
	ptrace(PTRACE_GETREGS, pid, NULL, &after);
	after.rsi = regs->rsi;
	ptrace(PTRACE_SETREGS, pid, NULL, &after);
}

static void on_open(pid_t pid, struct user_regs_struct *regs)
{
	char path[PATH_MAX] = "", group[PATH_MAX];
	int i;

	copy_in(pid, regs->rsi, path, sizeof(path));
	strcpy(group, path);
	if (!split(group))
		return;
	i = stand_in(path);
	if (i < 0)
		answer(pid, regs, i);
	else
		redirect(pid, regs, i);
}

static void on_write(pid_t pid, struct user_regs_struct *regs)
{
	char link[64], target[PATH_MAX] = "", text[128] = "";
	size_t len = regs->rdx < sizeof(text) ? regs->rdx : sizeof(text) - 1;

	snprintf(link, sizeof(link), "/proc/%d/fd/%d", pid, (int)regs->rdi);
	if (readlink(link, target, sizeof(target) - 1) < 0 ||
	    strncmp(target, PLACE "/", sizeof(PLACE)))
		return;
	copy_in(pid, regs->rsi, text, sizeof(text));
	text[len] = 0;
	answer(pid, regs, translate(atoi(target + sizeof(PLACE)), text, regs->rdx));
}

static void on_call(pid_t pid)
{
	struct __ptrace_syscall_info info;
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) < 0 ||
	    info.op != PTRACE_SYSCALL_INFO_ENTRY)
		return;
	if (info.entry.nr != SYS_openat && info.entry.nr != SYS_write)
		return;
	ptrace(PTRACE_GETREGS, pid, NULL, &regs);
	if (info.entry.nr == SYS_openat)
		on_open(pid, &regs);
	else if (regs.rdi > STDERR_FILENO)
		on_write(pid, &regs);
}

static void follow(pid_t first)
{
	int status, deliver, end = 1;
	pid_t pid;

	while ((pid = waitpid(-1, &status, __WALL)) > 0) {
		if (!WIFSTOPPED(status)) {
			if (pid == first)
				end = WIFEXITED(status) ? WEXITSTATUS(status) :
							  128 + WTERMSIG(status);
			continue;
		}
		deliver = 0;
		if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXEC << 8) && pid != first) {
			/* A load, whose time is measured, or a shell. */
			ptrace(PTRACE_DETACH, pid, NULL, 0);
			continue;
		}
		if (WSTOPSIG(status) == (SIGTRAP | 0x80))
			on_call(pid);
		else if (!(status >> 16) && WSTOPSIG(status) != SIGSTOP)
			deliver = WSTOPSIG(status);
		ptrace(PTRACE_SYSCALL, pid, NULL, deliver);
	}
	exit(end);
}

int main(int argc, char **argv)
{
	/* Before all that the programs run, or they would wait for it. */
	struct sched_param param = { .sched_priority = 99 };
	int status;
	pid_t pid;

	if (argc < 2)
		return 2;
	mkdir(PLACE, 0755);
	pid = fork();
	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		execvp(argv[1], argv + 1);
		die(argv[1]);
	}
	if (sched_setscheduler(0, SCHED_FIFO, &param))
		perror("shim: SCHED_FIFO");
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		die("waitpid");
	if (ptrace(PTRACE_SETOPTIONS, pid, NULL,
		   PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK |
		   PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
		   PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL))
		die("ptrace");
	ptrace(PTRACE_SYSCALL, pid, NULL, 0);
	follow(pid);
}
