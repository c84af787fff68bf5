// SPDX-License-Identifier: Apache-2.0
/*
 * What uid 1000, whose groups are on CPUs 1 to 3, does to a group on CPU 0: nothing
 * that the user writes or reads may take the lock of that CPU's run queue. Version 2,
 * 4 CPUs.
 *
 * The kernel updates a run queue's clock when it has the lock. /sys/kernel/debug shows
 * that clock and does not update it. A tick may, so not every try has to be clean.
 */
#include "guest.h"

#define USER 1000
#define TRIES 40
#define CLEAN 8

/* What a line of the file says, in ns. */
static uint64_t ms_after(const char *text, const char *name)
{
	unsigned long long ms, ns;
	char *at = strstr(text, name);

	if (!at || sscanf(strchr(at, ':') + 1, "%llu.%6llu", &ms, &ns) != 2)
		die(name);
	return ms * MS + ns;
}

/* Has the clock of CPU 0 been updated since @begin, which is CLOCK_MONOTONIC? */
static bool updated_since(int debug, uint64_t begin)
{
	static char text[1 << 16];
	ssize_t n;

	lseek(debug, 0, SEEK_SET);
	n = read(debug, text, sizeof(text) - 1);
	text[n < 0 ? 0 : n] = 0;
	begin += ms_after(text, "\ncpu_clk ") - ms_after(text, "\nktime ");
	return ms_after(text, "  .clock ") >= begin;
}

/* The user's tries, @texts in turns or a read: how many left CPU 0 alone. */
static int tries(int debug, const char *path, const char *const *texts)
{
	int fd = open(path, texts ? O_WRONLY : O_RDONLY), clean = 0, i;
	char buf[512];
	uint64_t begin;

	if (setresgid(USER, USER, USER) || setresuid(USER, USER, USER))
		return -1;
	for (i = 0; i < TRIES; i++) {
		usleep(1300);
		begin = now_ns(CLOCK_MONOTONIC);
		if (texts ? pwrite(fd, texts[i % 2], strlen(texts[i % 2]), 0) < 0 :
			    pread(fd, buf, sizeof(buf), 0) < 0) {
			printf("FAIL %s: %s\n", path, strerror(errno));
			return -1;
		}
		clean += !updated_since(debug, begin);
	}
	return clean;
}

static void disturb(const char *what, const char *path, const char *a, const char *b)
{
	const char *const texts[] = { a, b };
	int debug = open("/sys/kernel/debug/sched/debug", O_RDONLY), status;
	static char buf[1 << 16];
	pid_t pid = fork();

	if (!pid) {
		pin(3);
		/* After that, one read has what is wanted: the kernel's buffer has grown. */
		while (read(debug, buf, sizeof(buf)) > 0)
			;
		_exit(tries(debug, path, a ? texts : NULL));
	}
	close(debug);
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		die("child");
	status = WEXITSTATUS(status);
	check(status >= CLEAN && status <= TRIES, "%s: %d of %d leave the other CPU alone", what,
	      status, TRIES);
}

static void all(const char *when)
{
	printf("%s\n", when);
	/* For comparison: this takes no lock. */
	disturb("reads of cpu.rt.max", "/cg/v/cpu.rt.max", NULL, NULL);
	disturb("reads of the victim's cpu.rt.stat", "/cg/v/cpu.rt.stat", NULL, NULL);
	disturb("reads of the user's own", "/cg/u/cpu.rt.stat", NULL, NULL);
	disturb("writes of cpu.rt.max", "/cg/u/r/cpu.rt.max", "250 1000", "240 1000");
	disturb("writes that share out all", "/cg/u/r/cpu.rt.max", "500 1000", "240 1000");
	disturb("writes of max", "/cg/u/r/cpu.rt.max", "max", "240 1000");
	disturb("writes of cpuset.cpus", "/cg/u/r/cpuset.cpus", "1", "2-3");
}

void test_disturb(__attribute__((unused)) const char *arg)
{
	static const char *const given[] = { "u", "u/r" };
	static const char *const files[] = {
		"", "cgroup.procs", "cgroup.subtree_control", "cpu.rt.max", "cpuset.cpus",
	};
	unsigned int i, j;
	pid_t victim;

	make_group("v");
	expect(put(cg("v", "cpuset.cpus"), "0"), 0, "the victim's group is on CPU 0");
	expect(reserve("v", 900, 1000), 0, "with 0.9");
	make_group("u");
	expect(put(cg("u", "cpuset.cpus"), "1-3"), 0, "the user's on the others");
	expect(reserve("u", 500, 1000), 0, "with 0.5");
	expect(put(cg("u", "cgroup.subtree_control"), "+cpu +cpuset"), 0, "groups below");
	make_group("u/r");
	for (i = 0; i < ARRAY(given); i++) {
		for (j = 0; j < ARRAY(files); j++) {
			if (chown(cg(given[i], files[j]), USER, USER))
				die("chown");
		}
	}

	all("the victim sleeps");
	victim = fork();
	if (!victim) {
		if (enter("v") || set_policy(0, SCHED_FIFO, 10))
			_exit(1);
		for (;;)
			;
	}
	all("the victim runs");
	end_child(victim);
	expect(remove_group("u/r"), 0, "rmdir");
	expect(remove_group("u"), 0, "rmdir");
	expect(remove_group("v"), 0, "rmdir");
}
