// SPDX-License-Identifier: Apache-2.0
/*
 * A pool of spare bandwidth: how soon a group without budget answers, alone and among
 * others, and what that costs those who have no part in it. "p" has the pool, and its
 * groups p/0, p/1, ... use it.
 */
#include "guest.h"

#define OWN_PERIOD (100 * MS)
/* A priority that may not use the pool. */
#define BATCH 1

/* What a few switches, system calls and timers may add to an answer. */
#define MARGIN (50 * US)

const char *pool_user(int i)
{
	static char names[POOL_USERS][16];

	snprintf(names[i], sizeof(names[i]), "p/%d", i);
	return names[i];
}

int set_pool(int qs, int ps, int slot)
{
	return put(cg("p", "cpu.rt.spare.max"), "%d %d %d", qs, ps, slot);
}

int subscribe(const char *group, int prio)
{
	return put(cg(group, "cpu.rt.spare"), "%d", prio);
}

/* The pool, and @n groups that use it and have @q_us in 100 ms of their own. */
void make_pool(int n, int q_us)
{
	int i, err = 0;

	make_group("p");
	put(cg("p", "cgroup.subtree_control"), "+cpu +cpuset");
	expect(set_pool(POOL_Q, POOL_P, POOL_SLOT), 0, "a pool of 4 ms in 10 ms");
	for (i = 0; i < n; i++) {
		make_group(pool_user(i));
		err = err ?: reserve(pool_user(i), q_us, OWN_PERIOD / US);
		err = err ?: subscribe(pool_user(i), POOL_PRIO);
	}
	expect(err, 0, "for those below");
}

void remove_pool(int n)
{
	int i;

	while (wait(NULL) > 0)
		;
	for (i = 0; i < n; i++)
		remove_group(pool_user(i));
	usleep(200000);	/* until their periods are over */
	expect(remove_group("p"), 0, "rmdir of the pool");
	usleep(50000);
}

/* A number of the only line of a group's file. */
long long number_in(const char *group, const char *file, const char *key)
{
	char *found = strstr(get(cg(group, file)), key);

	return found ? atoll(found + strlen(key)) : -1;
}

/* A FIFO task that is busy from @start on, or sleeps for @sleep_ns again and again. */
pid_t busy_in(const char *group, int prio, uint64_t sleep_ns, uint64_t start)
{
	struct timespec ts = { 0, sleep_ns };
	pid_t pid = fork();

	if (pid)
		return pid;
	if (enter(group) || set_policy(0, SCHED_FIFO, prio))
		_exit(1);
	sleep_until(start);
	for (;;) {
		if (sleep_ns)
			clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
	}
}

/* A service: for each request so much work, and then an answer. */
struct echo {
	pid_t pid;
	int requests[2], answers[2];
	uint64_t sent;
};

static struct echo echoes[POOL_USERS];

static void serve(struct echo *e, const char *group, int prio)
{
	uint64_t work, now;

	if (pipe(e->requests) || pipe(e->answers))
		die("pipe");
	e->pid = fork();
	if (e->pid)
		return;
	if (enter(group) || set_policy(0, SCHED_FIFO, prio))
		_exit(1);
	while (read(e->requests[0], &work, sizeof(work)) == sizeof(work)) {
		spin(work);
		now = now_ns(CLOCK_MONOTONIC);
		if (write(e->answers[1], &now, sizeof(now)) != sizeof(now))
			_exit(1);
	}
	_exit(0);
}

static void request(struct echo *e, uint64_t work)
{
	e->sent = now_ns(CLOCK_MONOTONIC);
	if (write(e->requests[1], &work, sizeof(work)) != sizeof(work))
		die("write");
}

/* How long the answer took. */
static uint64_t answer(struct echo *e)
{
	uint64_t when;

	if (read(e->answers[0], &when, sizeof(when)) != sizeof(when))
		die("read");
	return when - e->sent;
}

static void close_echo(struct echo *e)
{
	end_child(e->pid);
	close(e->requests[0]);
	close(e->requests[1]);
	close(e->answers[0]);
	close(e->answers[1]);
}

/* ---- figure 4 of the paper ---- */

#define PINGS 10
#define WORK (100 * US)

/*
 * A request whenever (40, 100) is used up: this task has the CPU then, since it is of
 * the root and waits from the middle of the budget on. @other_q in 10 ms is for others,
 * who are always busy.
 */
static void figure(int qs, int other_q)
{
	uint64_t start, took, min = UINT64_MAX, max = 0;
	pid_t hog, other = 0;
	int i;

	expect(set_pool(qs, POOL_P, 0), 0, qs ? "a pool" : "no pool");
	usleep(20000);	/* until what is given back is free */
	if (other_q)
		expect(reserve("c", other_q, POOL_P), 0, "and others");
	serve(&echoes[0], pool_user(0), POOL_PRIO);
	set_policy(0, SCHED_FIFO, 60);
	start = now_ns(CLOCK_MONOTONIC) + 150 * MS;
	hog = busy_in(pool_user(0), BATCH, 0, start);
	if (other_q)
		other = busy_in("c", 10, 0, start);
	for (i = 0; i < PINGS; i++) {
		sleep_until(start + i * OWN_PERIOD + 20 * MS);
		request(&echoes[0], WORK);
		took = answer(&echoes[0]);
		min = took < min ? took : min;
		max = took > max ? took : max;
	}
	set_policy(0, SCHED_OTHER, 0);
	end_child(hog);
	if (other_q)
		end_child(other);
	close_echo(&echoes[0]);
	printf("value answer_%d_us %llu %llu\n", qs, (unsigned long long)min / US,
	       (unsigned long long)max / US);
	if (qs)
		check(max < POOL_P * US + MARGIN, "%d answers with (%d, %d): %llu us at most", PINGS,
		      qs, POOL_P, (unsigned long long)max / US);
	else
		check(min > 59 * MS && max < 61 * MS, "%d without: %llu to %llu us", PINGS,
		      (unsigned long long)min / US, (unsigned long long)max / US);
}

static void run_figure(void)
{
	make_pool(1, 40000);
	make_group("c");
	figure(0, 0);
	figure(4000, 1000);
	figure(1000, 4000);
	remove_group("c");
	remove_pool(1);
}

/* ---- several groups that use one pool ---- */

#define ROUNDS 3
/* A switch and a system call are part of the slot. */
#define ANSWER (950 * US)

/* The time within which the last of @n answers has to come, by the documentation. */
static uint64_t bound(int n, uint64_t c)
{
	uint64_t slots = (c + POOL_SLOT * US - 1) / (POOL_SLOT * US);
	uint64_t work = c + (n - 1) * POOL_SLOT * US * slots;

	return (POOL_P - POOL_Q) * US + POOL_P * US * ((work + POOL_Q * US - 1) / (POOL_Q * US));
}

/* The time at which it comes if nothing else is on the CPU. */
static uint64_t alone(int n, uint64_t c)
{
	uint64_t work = n * c, whole = (work - 1) / (POOL_Q * US);

	return (POOL_P - POOL_Q) * US + whole * POOL_P * US + work - whole * POOL_Q * US;
}

/* When each round begins, from @start on: all that the groups have is used up. */
#define BEGIN(start, round) ((start) + (round) * OWN_PERIOD + 30 * MS)

/*
 * One of another group that has a period, with an earlier deadline, just before each
 * one of the pool.
 */
static pid_t disturber(uint64_t start)
{
	pid_t pid = fork();
	int round;

	if (pid)
		return pid;
	if (enter("o") || set_policy(0, SCHED_FIFO, 10))
		_exit(1);
	for (round = 0;; round++) {
		sleep_until(BEGIN(start, round) + POOL_P * US - 50 * US);
		busy_until(BEGIN(start, round) + 3 * POOL_P * US);
	}
}

/*
 * The first of the groups uses up the pool, and then all of them have a request at
 * once: the last one to be answered waits as long as the formula says. With another
 * group that is before the pool in each period it is the bound.
 */
static void at_once(int n, bool disturbed)
{
	uint64_t start, took, last = 0, most;
	pid_t hogs[POOL_USERS], other = 0;
	int i, round;

	for (i = 0; i < n; i++)
		serve(&echoes[i], pool_user(i), POOL_PRIO);
	set_policy(0, SCHED_FIFO, 60);
	start = now_ns(CLOCK_MONOTONIC) + 150 * MS;
	for (i = 0; i < n; i++)
		hogs[i] = busy_in(pool_user(i), BATCH, 0, start);
	if (disturbed)
		other = disturber(start);
	for (round = 0; round < ROUNDS; round++) {
		sleep_until(BEGIN(start, round));
		request(&echoes[0], POOL_Q * US - 100 * US);
		answer(&echoes[0]);
		for (i = 0; i < n; i++)
			request(&echoes[i], ANSWER);
		for (i = 0; i < n; i++) {
			took = answer(&echoes[i]);
			last = took > last ? took : last;
		}
	}
	set_policy(0, SCHED_OTHER, 0);
	for (i = 0; i < n; i++) {
		end_child(hogs[i]);
		close_echo(&echoes[i]);
	}
	if (disturbed)
		end_child(other);
	most = disturbed ? bound(n, ANSWER) : alone(n, ANSWER);
	check(last <= bound(n, ANSWER) + MARGIN && last + POOL_SLOT * US > most &&
	      last < most + POOL_SLOT * US,
	      "%d requests at once%s: the last answer after %llu us, %llu by the formula, bound %llu",
	      n, disturbed ? " beside others" : "", (unsigned long long)last / US,
	      (unsigned long long)most / US, (unsigned long long)bound(n, ANSWER) / US);
}

/*
 * The others would have all of the pool, or sleep for a microsecond whenever they have
 * it. Who comes seldom waits for no more than a slot and an empty pool.
 */
static void beside_hogs(uint64_t sleep_ns)
{
	uint64_t start, took, max = 0, first = (POOL_P - POOL_Q + POOL_SLOT) * US + ANSWER;
	pid_t batch, hogs[POOL_USERS];
	int i;

	serve(&echoes[0], pool_user(0), POOL_PRIO);
	set_policy(0, SCHED_FIFO, 60);
	start = now_ns(CLOCK_MONOTONIC) + 150 * MS;
	batch = busy_in(pool_user(0), BATCH, 0, start);
	for (i = 1; i < POOL_USERS; i++)
		hogs[i] = busy_in(pool_user(i), POOL_PRIO, sleep_ns, start);
	for (i = 0; i < PINGS; i++) {
		/* After all of the others have had a turn. */
		sleep_until(start + (i + 1) * OWN_PERIOD + 30 * MS + i * 700 * US);
		request(&echoes[0], ANSWER);
		took = answer(&echoes[0]);
		max = took > max ? took : max;
	}
	set_policy(0, SCHED_OTHER, 0);
	end_child(batch);
	for (i = 1; i < POOL_USERS; i++)
		end_child(hogs[i]);
	close_echo(&echoes[0]);
	check(max < first + MARGIN, "beside %d that %s: %llu us at most, of %llu", POOL_USERS - 1,
	      sleep_ns ? "sleep again and again" : "want it all",
	      (unsigned long long)max / US, (unsigned long long)first / US);
}

static void run_many(void)
{
	int n;

	make_pool(POOL_USERS, 25);
	for (n = 1; n <= POOL_USERS; n++)
		at_once(n, false);
	make_group("o");
	expect(reserve("o", 5400, POOL_P), 0, "all the rest for others");
	at_once(POOL_Q / POOL_SLOT, true);
	expect(remove_group("o"), 0, "who go");
	beside_hogs(0);
	beside_hogs(1000);
	remove_pool(POOL_USERS);
}

/* ---- others, who have no part in it ---- */

#define LENGTH (1000 * MS)

/*
 * (5, 10) beside a pool that is always in use, and the root's tasks beside both: what
 * the pool does not use is theirs.
 */
static void victims(int prio, const char *what)
{
	bool uses = prio >= POOL_PRIO;
	long long pool, most = POOL_Q * (LENGTH / POOL_P / US), left;
	struct verdict v;

	hogs[0] = (struct hog){ .group = "v", .policy = SCHED_FIFO, .prio = 10,
				.q = 5000, .p = 10000, .interruptions = 6 };
	hogs[1] = (struct hog){ .group = pool_user(0), .policy = SCHED_FIFO, .prio = prio,
				.q = 1000, .p = 100000 };
	hogs[2] = (struct hog){ .policy = SCHED_FIFO, .prio = 99, .q = 1, .p = 1000 };
	pool = number_in("p", "cpu.rt.stat", "spare_used_usec=");
	run_hogs(3, LENGTH);
	pool = number_in("p", "cpu.rt.stat", "spare_used_usec=") - pool;
	judge(&hogs[0], LENGTH, &v);
	check(kept(5000, 10000, 7 * switch_cost(), &v),
	      "%s: (5, 10) has %d short periods of %d, %+lld ppm", what, v.shorts, v.periods,
	      (long long)v.acct_ppm);
	/* The last microseconds of a task that ends may be counted after that. */
	check(uses ? pool <= most + POOL_Q && pool > most - POOL_Q - most / 50 : pool < 100,
	      "%s: the pool was used for %lld us of %lld", what, pool, most);
	left = LENGTH / US - hogs[0].cpu_ns / US - hogs[1].cpu_ns / US;
	check(llabs(left - (long long)(hogs[2].cpu_ns / US)) < 60000,
	      "%s: the root's FIFO task has %llu us of %lld that are left", what,
	      (unsigned long long)hogs[2].cpu_ns / US, left);
}

/* Parameters that change all the time while the pool is in use. */
static pid_t changer(uint64_t *changes)
{
	pid_t pid = fork();
	int i, err;

	if (pid)
		return pid;
	set_policy(0, SCHED_FIFO, 99);
	for (i = 0;; i++) {
		int q = 1000 + i % 4 * 1000;

		err = set_pool(q, POOL_P, i % 3 ? q / 2 : 0);
		/* What was given back may be held. */
		if (err && err != EBUSY)
			break;
		if (i % 5 == 1 && subscribe(pool_user(0), i % 2 ? 0 : POOL_PRIO - i % 9))
			break;
		changes[!!err]++;
		usleep(700);
	}
	changes[2]++;
	_exit(1);
}

static void changes_meanwhile(bool judged)
{
	uint64_t *changes = shared();
	struct verdict v;
	pid_t pid = changer(changes);

	hogs[0] = (struct hog){ .group = "v", .policy = SCHED_FIFO, .prio = 10,
				.q = 5000, .p = 10000, .interruptions = 30 };
	hogs[1] = (struct hog){ .group = pool_user(0), .policy = SCHED_FIFO, .prio = POOL_PRIO,
				.q = 1000, .p = 100000 };
	/* run_hogs() waits for all its children. */
	if (!fork()) {
		usleep((LENGTH + 60 * MS) / US);
		kill(pid, SIGKILL);
		_exit(0);
	}
	run_hogs(2, LENGTH);
	judge(&hogs[0], LENGTH, &v);
	check(changes[0] > 100 && !changes[2], "%llu changes of the pool and its use",
	      (unsigned long long)changes[0]);
	if (judged)
		check(kept(5000, 10000, 31 * switch_cost(), &v),
		      "meanwhile (5, 10) has %d short periods of %d, %+lld ppm", v.shorts, v.periods,
		      (long long)v.acct_ppm);
	munmap(changes, 4096);
}

/* A pool with the shortest period that there is pays for all its switches. */
static void often(void)
{
	struct verdict v;

	expect(set_pool(40, 100, 0), 0, "a pool of 40 of 100 us");
	hogs[0] = (struct hog){ .group = "v", .policy = SCHED_FIFO, .prio = 10,
				.q = 5000, .p = 10000, .interruptions = 6 };
	hogs[1] = (struct hog){ .group = pool_user(0), .policy = SCHED_FIFO,
				.prio = POOL_PRIO, .q = 1000, .p = 100000 };
	run_hogs(2, LENGTH / 2);
	judge(&hogs[0], LENGTH / 2, &v);
	check(!v.shorts, "beside that (5, 10) has %d short periods of %d, and %llu us at least",
	      v.shorts, v.periods, (unsigned long long)v.min / US);
}

static void run_beside(void)
{
	make_pool(1, 1000);
	make_group("v");
	expect(reserve("v", 5000, 10000), 0, "0.5 for others");
	victims(POOL_PRIO, "in use");
	victims(BATCH, "not in use");
	often();
	expect(set_pool(POOL_Q, POOL_P, POOL_SLOT), 0, "as before");
	changes_meanwhile(true);
	remove_group("v");
	remove_pool(1);
}

/* For the debug kernel, which is too slow for the clock. */
static void run_changes(void)
{
	make_pool(1, 1000);
	make_group("v");
	expect(reserve("v", 5000, 10000), 0, "0.5 for others");
	changes_meanwhile(false);
	remove_group("v");
	remove_pool(1);
}

void test_spare(const char *arg)
{
	if (!strcmp(arg, "figure"))
		run_figure();
	else if (!strcmp(arg, "many"))
		run_many();
	else if (!strcmp(arg, "beside"))
		run_beside();
	else if (!strcmp(arg, "changes"))
		run_changes();
	else
		check(false, "unknown: %s", arg);
}
