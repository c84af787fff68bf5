/* SPDX-License-Identifier: GPL-2.0-only */
/* A line of the protocol, taken apart. No input or output. */
#ifndef REQUEST_H
#define REQUEST_H

#include "table.h"

enum verb { SET, CLEAR, LIST, STAT, STATUS, CPUS };

struct request {
	enum verb verb;
	bool has_cpus;		/* SET: `want` has CPUs */
	struct reservation want;	/* SET: all but the ID; CLEAR, STAT: the path, or "" */
};

/* NULL, or what is wrong with the line, which is changed. */
const char *parse_request(char *line, struct request *q);
/* CPUs as in "0-3,8" to @g; false if that is no list, or too long. */
bool parse_cpus(const char *text, struct group *g);
void format_cpus(const struct group *g, char *out, size_t size);

#endif
