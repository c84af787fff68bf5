/* SPDX-License-Identifier: GPL-2.0-only */
/* What the daemon does for a request, and what it remembers over a restart. */
#ifndef SERVICE_H
#define SERVICE_H

#include <stdio.h>
#include "kernel.h"
#include "request.h"

struct service {
	struct table table;
	/* Those of the file that could not be restored: held nowhere, and tried next time. */
	struct kept {
		struct kept *next;
		struct reservation r;
	} *kept;
	struct kernel *kernel;
	const char *cgroup_root;	/* where the hierarchy is mounted */
	const char *state;		/* the file of the reservations */
};

/*
 * Answer one line of the protocol, which is changed, to @out. Only who @may_change may
 * set and clear.
 */
void answer(struct service *s, char *line, bool may_change, FILE *out);
/*
 * Take up the reservations of the state file whose groups are still there. Those that
 * cannot be had now stay in the file.
 */
void restore(struct service *s);
/* Give back the reservations of groups that were removed. */
void prune(struct service *s);

#endif
