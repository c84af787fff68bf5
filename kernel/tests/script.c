// SPDX-License-Identifier: Apache-2.0
/*
 * @arg is script or script:argument: run tools/<script>.sh, with the programs
 * that scripts/tools.sh builds.
 */
#include "guest.h"

void test_script(const char *arg)
{
	char path[128];
	const char *more = strchr(arg, ':');
	int len = more ? more - arg : (int)strlen(arg);
	int status;
	pid_t pid;

	mount("tmpfs", "/tmp", "tmpfs", 0, NULL);
	mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	mkdir("/dev/shm", 01777);
	mount("tmpfs", "/dev/shm", "tmpfs", 0, NULL);
	munlockall();
	snprintf(path, sizeof(path), "/tools/%.*s.sh", len, arg);
	setenv("PATH", "/bin:/usr/bin:/sbin:/usr/sbin", 1);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		if (!system("/bin/busybox --install -s /bin"))
			execl("/bin/sh", "sh", path, more ? more + 1 : NULL, NULL);
		_exit(127);
	}
	/* As init must, reap whatever is orphaned on the way. */
	while (wait(&status) != pid)
		;
	check(WIFEXITED(status) && !WEXITSTATUS(status), "%s ended with %d", path,
	      WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
}
