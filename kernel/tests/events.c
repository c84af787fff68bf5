// SPDX-License-Identifier: Apache-2.0
/*
 * Wake-ups and switches to the ns, out of the kernel's ring buffer: the text of
 * the trace has only us. Lines "ev" with what scripts/sets.py reads: the time
 * since the event before, and "wA" for task A being woken, "WA" when it is awake,
 * "A+B" or "A-B" for a switch, - if A sleeps.
 */
#include "guest.h"

/* Where the kernel says that a field of an event is. */
static int offset_of(const char *event, const char *field)
{
	char path[128], key[64], *p;

	snprintf(path, sizeof(path), TRACING "events/sched/%s/format", event);
	snprintf(key, sizeof(key), " %s;", field);
	p = strstr(get(path), key);
	if (!p) {	/* an array */
		snprintf(key, sizeof(key), " %s[", field);
		p = strstr(get(path), key);
	}
	p = p ? strstr(p, "offset:") : NULL;
	if (!p)
		die(field);
	return atoi(p + strlen("offset:"));
}

static int id_of(const char *event)
{
	char path[128];

	snprintf(path, sizeof(path), TRACING "events/sched/%s/id", event);
	return atoi(get(path));
}

static struct {
	int id_switch, id_waking, id_wakeup;
	int prev_pid, prev_comm, prev_prio, prev_state, next_pid, next_comm, next_prio;
	int waking_pid, wakeup_pid;
} layout;

void record_events(void)
{
	if (mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, NULL) && errno != EBUSY)
		die("tracefs");
	trace("tracing_on", "0");
	trace("trace_clock", "mono");
	trace("buffer_size_kb", "4096");
	trace("events/sched/sched_switch/enable", "1");
	trace("events/sched/sched_waking/enable", "1");
	trace("events/sched/sched_wakeup/enable", "1");
	layout.id_switch = id_of("sched_switch");
	layout.id_waking = id_of("sched_waking");
	layout.id_wakeup = id_of("sched_wakeup");
	layout.prev_pid = offset_of("sched_switch", "prev_pid");
	layout.prev_comm = offset_of("sched_switch", "prev_comm");
	layout.prev_prio = offset_of("sched_switch", "prev_prio");
	layout.prev_state = offset_of("sched_switch", "prev_state");
	layout.next_pid = offset_of("sched_switch", "next_pid");
	layout.next_comm = offset_of("sched_switch", "next_comm");
	layout.next_prio = offset_of("sched_switch", "next_prio");
	layout.waking_pid = offset_of("sched_waking", "pid");
	layout.wakeup_pid = offset_of("sched_wakeup", "pid");
}

static int int_at(const char *data, int offset)
{
	int value;

	memcpy(&value, data + offset, sizeof(value));
	return value;
}

static const pid_t *letters;
static int nr_letters;

/* A letter for each task that was asked for; 0 for others. */
static char letter(pid_t pid)
{
	int i;

	for (i = 0; i < nr_letters; i++) {
		if (letters[i] == pid)
			return 'A' + i;
	}
	return 0;
}

/* Of others: idle, the kernel's highest class, FIFO of the root, fair. */
static char who(pid_t pid, const char *comm, int prio)
{
	if (letter(pid))
		return letter(pid);
	if (!pid)
		return '.';
	if (!strncmp(comm, "migration/", 10))
		return 'x';
	return prio < 100 ? 'f' : 'c';
}

static uint64_t last_event;
static int nr_events;

static void print_event(uint64_t t, const char *data)
{
	int id = (uint16_t)int_at(data, 0);
	char text[8];

	if (id == layout.id_switch) {
		char prev = who(int_at(data, layout.prev_pid), data + layout.prev_comm,
				int_at(data, layout.prev_prio));
		char next = who(int_at(data, layout.next_pid), data + layout.next_comm,
				int_at(data, layout.next_prio));
		bool blocks = int_at(data, layout.prev_state) & 0xff;

		snprintf(text, sizeof(text), "%c%c%c", prev, blocks ? '-' : '+', next);
	} else {
		bool waking = id == layout.id_waking;
		char c = letter(int_at(data, waking ? layout.waking_pid : layout.wakeup_pid));

		if (!c)
			return;
		snprintf(text, sizeof(text), "%c%c", waking ? 'w' : 'W', c);
	}
	printf("%s%lld%s", nr_events % 8 ? " " : nr_events ? "\nev " : "ev ",
	       (long long)(t - last_event), text);
	last_event = t;
	nr_events++;
}

/* A page of the ring buffer; false if events are missing before it. */
static bool print_page(const char *page)
{
	uint64_t t, commit;
	const char *p = page + 16, *end;

	memcpy(&t, page, 8);
	memcpy(&commit, page + 8, 8);
	end = p + (commit & 0xfffff);
	while (p < end) {
		uint32_t head = int_at(p, 0), type = head & 31, first;

		t += head >> 5;
		first = int_at(p, 4);
		if (type == 30) {		/* more time */
			t += (uint64_t)first << 27;
			p += 8;
		} else if (type == 31) {	/* a time of its own */
			t = (t & ~((1ULL << 59) - 1)) | (head >> 5) | (uint64_t)first << 27;
			p += 8;
		} else if (type == 29) {	/* nothing */
			if (!(head >> 5))
				break;
			p += 4 + first;
		} else {
			print_event(t, p + (type ? 4 : 8));
			p += type ? 4 + 4 * type : 4 + first;
		}
	}
	return !(commit >> 31 & 1);
}

void print_events(uint64_t start, const pid_t *pids, int n)
{
	static char page[4096];
	int fd = open(TRACING "per_cpu/cpu0/trace_pipe_raw", O_RDONLY | O_NONBLOCK);
	bool complete = true;

	if (fd < 0)
		die("trace_pipe_raw");
	letters = pids;
	nr_letters = n;
	last_event = start;
	nr_events = 0;
	while (read(fd, page, sizeof(page)) > 16)
		complete = print_page(page) && complete;
	close(fd);
	printf("%send %d\n", nr_events ? "\n" : "", nr_events);
	if (!complete || !nr_events)
		check(false, "the trace is not complete");
}
