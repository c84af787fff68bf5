// SPDX-License-Identifier: GPL-2.0-only
/* A line of the protocol, taken apart. */
#include "request.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A decimal number from 0 to @max, and the first character after it. */
static bool number(const char *text, unsigned long max, unsigned long *out, const char **end)
{
	char *rest;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	*out = strtoul(text, &rest, 10);
	*end = rest;
	return !errno && *out <= max;
}

bool parse_cpus(const char *text, struct group *g)
{
	unsigned long from, to;

	g->nr = 0;
	for (;;) {
		if (!number(text, MAX_CPUS - 1, &from, &text))
			return false;
		to = from;
		if (*text == '-' && !number(text + 1, MAX_CPUS - 1, &to, &text))
			return false;
		for (; from <= to; from++) {
			if (g->nr == MAX_GROUP_CPUS)
				return false;
			g->at[g->nr].slot = 0;
			g->at[g->nr++].cpu = from;
		}
		if (!*text)
			return g->nr;
		if (*text++ != ',')
			return false;
	}
}

void format_cpus(const struct group *g, char *out, size_t size)
{
	size_t used = 0;
	__u32 i;

	*out = 0;
	for (i = 0; i < g->nr && used < size; i++)
		used += snprintf(out + used, size - used, "%s%u", i ? "," : "", g->at[i].cpu);
}

/* A path below the root of the hierarchy, that stays below. */
static bool is_path(const char *path)
{
	const char *p;

	if (path[0] != '/' || !path[1] || strlen(path) >= MAX_PATH)
		return false;
	for (p = path; *p; p++) {
		if ((unsigned char)*p < ' ')
			return false;
		if (p[0] == '/' && (p[1] == '/' || !p[1] ||
				    (p[1] == '.' && (!p[2] || p[2] == '/' ||
						     (p[2] == '.' && (!p[3] || p[3] == '/'))))))
			return false;
	}
	return true;
}

static bool microseconds(const char *text, __u32 *out)
{
	unsigned long value;
	const char *end;

	if (!number(text, 0xffffffff, &value, &end) || *end)
		return false;
	*out = value;
	return true;
}

static const char *parse_set(char **word, int n, struct request *q)
{
	if (n < 4 || n > 5)
		return "set PATH RUNTIME_US PERIOD_US [CPUS]";
	if (!microseconds(word[2], &q->want.runtime_us) ||
	    !microseconds(word[3], &q->want.period_us))
		return "a runtime or period is no number of microseconds";
	if (n == 5 && !parse_cpus(word[4], &q->want.where))
		return "CPUs are a list such as 0-3,8";
	q->has_cpus = n == 5;
	return NULL;
}

const char *parse_request(char *line, struct request *q)
{
	static const struct {
		const char *name;
		enum verb verb;
		int least, most;	/* words */
	} verbs[] = {
		{ "set", SET, 4, 5 },	{ "clear", CLEAR, 2, 2 },   { "list", LIST, 1, 1 },
		{ "stat", STAT, 1, 2 }, { "status", STATUS, 1, 1 }, { "cpus", CPUS, 1, 1 },
	};
	char *word[6], *rest = line;
	size_t i;
	int n = 0;

	memset(q, 0, sizeof(*q));
	while (n < 6 && (word[n] = strsep(&rest, " ")))
		n++;
	for (i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (!strcmp(word[0], verbs[i].name))
			break;
	}
	if (i == sizeof(verbs) / sizeof(verbs[0]))
		return "set, clear, list, stat, status or cpus";
	if (n < verbs[i].least || n > verbs[i].most)
		return "wrong number of words";
	q->verb = verbs[i].verb;
	if (n > 1) {
		if (!is_path(word[1]))
			return "the path is not that of a group below the root";
		strcpy(q->want.path, word[1]);
	}
	return q->verb == SET ? parse_set(word, n, q) : NULL;
}
