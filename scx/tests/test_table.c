// SPDX-License-Identifier: GPL-2.0-only
/* Tests of admission and of the parser, on the machine that builds. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "check.h"
#include "request.h"

static struct table table;
static struct reservation old;
static struct refusal no;

static void empty(__u32 nr_cpus)
{
	while (table.nr)
		table_clear(&table, table.all[0], 0);
	memset(&table, 0, sizeof(table));
	table.nr_cpus = nr_cpus;
	table.ceiling_ppm = 950000;
	table.switch_us = 3;
}

static struct reservation *set_at(const char *path, __u32 runtime, __u32 period, const char *cpus,
				  __u32 now_s)
{
	static struct reservation want;

	memset(&want, 0, sizeof(want));
	strcpy(want.path, path);
	want.cgid = 7;
	want.runtime_us = runtime;
	want.period_us = period;
	CHECK(parse_cpus(cpus, &want.where));
	return table_set(&table, &want, now_s, &old, &no);
}

static struct reservation *set(const char *path, __u32 runtime, __u32 period, const char *cpus)
{
	return set_at(path, runtime, period, cpus, 100);
}

static void test_rounding(void)
{
	empty(1);
	CHECK(table_ppm(&table, 994, 10000) == 100000);
	CHECK(table_ppm(&table, 1, 3) == 2333334);	/* 7/3, upwards */
	CHECK(table_ppm(&table, 1000000, 1000000) == 1000006);
	CHECK(!set("/a", 493, 100000, "0") && no.err == EINVAL && no.asked == 4990);
	CHECK(no.value == MIN_PPM && set("/a", 494, 100000, "0"));
}

static void test_sum(void)
{
	empty(2);
	CHECK(set("/a", 4994, 10000, "0-1"));
	CHECK(table_free_ppm(&table, 0) == 450000 && table_free_ppm(&table, 1) == 450000);
	CHECK(!set("/b", 4495, 10000, "1"));
	CHECK(no.err == EBUSY && no.cpu == 1 && no.asked == 450100 && no.value == 450000);
	CHECK(!table_find(&table, "/b") && table_free_ppm(&table, 1) == 450000);
	CHECK(set("/b", 4494, 10000, "1") && !table_free_ppm(&table, 1));
	/* Nothing of a change is done if one CPU has no room. */
	CHECK(!set("/a", 5000, 10000, "0-1") && no.cpu == 1);
	CHECK(table_free_ppm(&table, 0) == 450000);
	CHECK(set("/a", 5000, 10000, "0") && old.runtime_us == 4994 && old.where.nr == 2);
	CHECK(table_free_ppm(&table, 0) == 449400 && table_free_ppm(&table, 1) == 500000);
	table_clear(&table, table_find(&table, "/a"), 100);
	table_clear(&table, table_find(&table, "/b"), 100);
	CHECK(!table.nr && table_free_ppm(&table, 0) == 950000);
	CHECK(!table.cpus[0].held_ppm && !table.cpus[1].held_ppm);
}

/* A change keeps its servers; a slot that became free rests if there is another. */
static void test_slots(void)
{
	char path[16];
	int i, first;

	empty(1);
	first = set_at("/a", 100, 10000, "0", 10)->where.at[0].slot;
	CHECK(first == 1);
	CHECK(set_at("/a", 200, 10000, "0", 10)->where.at[0].slot == first);
	table_clear(&table, table_find(&table, "/a"), 10);
	CHECK(set_at("/b", 100, 10000, "0", 11)->where.at[0].slot != first);
	CHECK(set_at("/c", 100, 10000, "0", 13)->where.at[0].slot == first);
	for (i = table.nr; i < MAX_SERVERS - 1; i++) {
		snprintf(path, sizeof(path), "/%d", i);
		CHECK(set_at(path, 100, 10000, "0", 13));
	}
	CHECK(!set_at("/d", 100, 10000, "0", 13) && no.err == ENOSPC && !no.value);
	table_clear(&table, table_find(&table, "/b"), 13);
	CHECK(set_at("/d", 100, 10000, "0", 13));
}

static void test_random(void)
{
	unsigned int seed = 1, i, j, cpu;

	empty(3);
	for (i = 0; i < 20000; i++) {
		char path[16], cpus[16];
		struct reservation *r;
		__u64 sum[3] = { 0 };

		snprintf(path, sizeof(path), "/%d", rand_r(&seed) % 8);
		snprintf(cpus, sizeof(cpus), "%s", (const char *[]){ "0", "1", "0-2", "1,2" }[rand_r(&seed) % 4]);
		r = table_find(&table, path);
		if (r && rand_r(&seed) % 3 == 0)
			table_clear(&table, r, i);
		else
			set_at(path, 50 + rand_r(&seed) % 5000, 5050 + rand_r(&seed) % 10000, cpus, i);
		for (j = 0; j < table.nr; j++) {
			r = table.all[j];
			for (cpu = 0; cpu < r->where.nr; cpu++)
				sum[r->where.at[cpu].cpu] +=
					table_ppm(&table, r->runtime_us, r->period_us);
		}
		for (cpu = 0; cpu < 3; cpu++)
			CHECK(sum[cpu] == table.cpus[cpu].held_ppm && sum[cpu] <= 950000);
	}
}

static void test_cpus(void)
{
	struct group g;
	char text[64];

	CHECK(parse_cpus("3", &g) && g.nr == 1 && g.at[0].cpu == 3);
	CHECK(parse_cpus("0-2,8", &g) && g.nr == 4 && g.at[3].cpu == 8);
	format_cpus(&g, text, sizeof(text));
	CHECK(!strcmp(text, "0,1,2,8"));
	CHECK(!parse_cpus("", &g) && !parse_cpus("a", &g) && !parse_cpus("1,", &g));
	CHECK(!parse_cpus("-1", &g) && !parse_cpus("2-1", &g) && !parse_cpus("0-1024", &g));
	CHECK(!parse_cpus("0-64", &g) && parse_cpus("0-63", &g));
	CHECK(!parse_cpus("99999999999999999999", &g));
}

static const char *parse(const char *text, struct request *q)
{
	static char line[4096];

	strcpy(line, text);
	return parse_request(line, q);
}

static void test_requests(void)
{
	static struct request q;

	CHECK(!parse("set /a/b.slice 1000 10000 0-1", &q) && q.verb == SET && q.has_cpus);
	CHECK(!strcmp(q.want.path, "/a/b.slice") && q.want.runtime_us == 1000);
	CHECK(!parse("set /a\\x2db 1000 10000", &q) && !q.has_cpus);
	CHECK(!parse("stat", &q) && q.verb == STAT && !*q.want.path);
	CHECK(!parse("stat /a", &q) && !parse("clear /a", &q) && !parse("list", &q));
	CHECK(!parse("status", &q) && !parse("cpus", &q));
	CHECK(!parse("set /a/..b 1000 10000", &q));
	CHECK(parse("", &q) && parse(" list", &q) && parse("list ", &q) && parse("list /a", &q));
	CHECK(parse("set /a 1000", &q) && parse("set /a 1000 10000 0 0", &q));
	CHECK(parse("set /a 1e3 10000", &q) && parse("set /a +1 10000", &q));
	CHECK(parse("set /a 4294967296 10000", &q) && parse("set /a  1000 10000", &q));
	CHECK(parse("clear /", &q) && parse("clear a", &q) && parse("clear /a/", &q));
	CHECK(parse("clear /a//b", &q) && parse("clear /..", &q) && parse("clear /a/../b", &q));
	CHECK(parse("clear /./a", &q) && parse("clear /a\tb", &q) && parse("clear", &q));
}

int main(void)
{
	test_rounding();
	test_sum();
	test_slots();
	test_random();
	test_cpus();
	test_requests();
	empty(1);
	printf("table and request: %d failures\n", failures);
	return failures != 0;
}
