// SPDX-License-Identifier: GPL-2.0-only
/* The scheduler in the kernel: whether it can run, and how it is told. */
#include "kernel.h"
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <errno.h>
#include <scx/common.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include "rsv.skel.h"

struct kernel {
	struct rsv *skel;
	struct bpf_link *link;
	char *confs;
	size_t conf_size, confs_size;
};

static int print(enum libbpf_print_level level, const char *format, va_list args)
{
	return level == LIBBPF_WARN ? vfprintf(stderr, format, args) : 0;
}

static bool read_line(const char *path, char *out, size_t size)
{
	FILE *f = fopen(path, "re");
	bool ok = f && fgets(out, size, f);

	if (f)
		fclose(f);
	if (ok)
		out[strcspn(out, "\n")] = 0;
	return ok;
}

/* Whether a function's prototype has the argument that only the kernel passes. */
static bool has_implicit(const struct btf *btf, const char *name)
{
	int id = btf__find_by_name_kind(btf, name, BTF_KIND_FUNC), i;
	const struct btf_type *proto;
	const struct btf_param *params;

	if (id < 0)
		return false;
	proto = btf__type_by_id(btf, btf__type_by_id(btf, id)->type);
	params = btf_params(proto);
	for (i = 0; i < btf_vlen(proto); i++) {
		if (!strcmp(btf__name_by_offset(btf, params[i].name_off), "aux"))
			return true;
	}
	return false;
}

/*
 * Kernels from 7.1 on pass some of the functions that BPF programs call an argument
 * of their own. What they are called with is told by the BTF, if pahole knew of it;
 * before 1.31 it wrote down the kernel's own prototype, which no program can match.
 */
static bool check_btf(const struct btf *kernel, const struct btf *object, char *why, size_t size)
{
	char name[128], twin[160];
	__u32 i;

	for (i = 1; i < btf__type_cnt(object); i++) {
		const struct btf_type *f = btf__type_by_id(object, i);
		char *flavor;

		if (!btf_is_func(f))
			continue;
		snprintf(name, sizeof(name), "%s", btf__name_by_offset(object, f->name_off));
		if (strncmp(name, "scx_bpf_", 8) && strncmp(name, "__scx_bpf_", 10))
			continue;
		flavor = strstr(name, "___");
		if (flavor)
			*flavor = 0;
		snprintf(twin, sizeof(twin), "%s_impl", name);
		if (has_implicit(kernel, name) &&
		    btf__find_by_name_kind(kernel, twin, BTF_KIND_FUNC) < 0) {
			snprintf(why, size,
				 "its BTF gives %s() an argument that only the kernel passes: no sched_ext program can be loaded. It was built with pahole before 1.31; take another build of the kernel",
				 name);
			return false;
		}
	}
	return true;
}

bool kernel_is_usable(char *why, size_t size)
{
	int cpus = libbpf_num_possible_cpus();
	struct btf *kernel;
	struct rsv *skel;
	struct utsname system;
	bool ok = false;

	if (access("/sys/kernel/sched_ext/state", R_OK)) {
		snprintf(why, size, "it has no sched_ext: CONFIG_SCHED_CLASS_EXT is not set");
		return false;
	}
	if (!uname(&system) && strstr(system.version, "PREEMPT_RT")) {
		snprintf(why, size, "it is a PREEMPT_RT kernel, which has no BPF timers");
		return false;
	}
	if (cpus < 1) {
		snprintf(why, size, "its possible CPUs cannot be counted: %s", strerror(-cpus));
		return false;
	}
	if (cpus > MAX_CPUS) {
		snprintf(why, size, "it has %d possible CPUs, and the scheduler at most %d", cpus,
			 MAX_CPUS);
		return false;
	}
	kernel = btf__load_vmlinux_btf();
	if (!kernel) {
		snprintf(why, size, "it has no BTF in /sys/kernel/btf/vmlinux: %s",
			 strerror(errno));
		return false;
	}
	if (btf__find_by_name_kind(kernel, "scx_bpf_task_cgroup", BTF_KIND_FUNC) < 0) {
		snprintf(why, size, "sched_ext knows no groups: CONFIG_EXT_GROUP_SCHED is not set");
		goto out;
	}
	libbpf_set_print(print);
	skel = rsv__open();
	if (!skel) {
		snprintf(why, size, "the program cannot be opened: %s", strerror(errno));
		goto out;
	}
	ok = check_btf(kernel, bpf_object__btf(skel->obj), why, size);
	rsv__destroy(skel);
out:
	btf__free(kernel);
	return ok;
}

bool kernel_frees_in_threads(void)
{
	char line[4096];

	return read_line("/proc/cmdline", line, sizeof(line)) && strstr(line, "rcu_nocbs=");
}

bool kernel_has_smt(void)
{
	char line[64];

	return read_line("/sys/devices/system/cpu/smt/active", line, sizeof(line)) &&
	       !strcmp(line, "1");
}

__u32 kernel_cpus(void)
{
	return libbpf_num_possible_cpus();
}

static bool map_confs(struct kernel *k)
{
	long page = sysconf(_SC_PAGESIZE);
	void *at;

	k->conf_size = (sizeof(struct cpu_conf) + 7) / 8 * 8;
	k->confs_size = (kernel_cpus() * k->conf_size + page - 1) / page * page;
	at = mmap(NULL, k->confs_size, PROT_READ | PROT_WRITE, MAP_SHARED,
		  bpf_map__fd(k->skel->maps.confs), 0);
	k->confs = at;
	return at != MAP_FAILED;
}

struct kernel *kernel_start(__u32 switch_ns, char *why, size_t size)
{
	struct kernel *k = calloc(1, sizeof(*k));
	const char *step = "memory";
	char state[64];

	if (!k)
		goto fail;
	if (read_line("/sys/kernel/sched_ext/state", state, sizeof(state)) &&
	    strcmp(state, "disabled")) {
		step = "another sched_ext scheduler runs";
		errno = EBUSY;
		goto fail;
	}
	libbpf_set_print(print);
	step = "open";
	k->skel = rsv__open();
	if (!k->skel)
		goto fail;
	k->skel->struct_ops.rsv_ops->hotplug_seq = scx_hotplug_seq();
	/* Those that this kernel knows, by its BTF. */
	k->skel->struct_ops.rsv_ops->flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING |
					     SCX_OPS_ENQ_MIGRATION_DISABLED;
	if (!__COMPAT_struct_has_field("sched_ext_ops", "cgroup_set_bandwidth")) {
		k->skel->struct_ops.rsv_ops->cgroup_set_bandwidth = NULL;
		k->skel->rodata->has_limits = false;
	}
	if (!__COMPAT_struct_has_field("sched_ext_ops", "cgroup_set_idle"))
		k->skel->struct_ops.rsv_ops->cgroup_set_idle = NULL;
	SCX_ENUM_INIT(k->skel);
	UEI_SET_SIZE(k->skel, rsv_ops, uei);
	k->skel->rodata->nr_cpus = kernel_cpus();
	k->skel->rodata->switch_ns = switch_ns;
	bpf_map__set_max_entries(k->skel->maps.confs, kernel_cpus());
	bpf_map__set_max_entries(k->skel->maps.cpus, kernel_cpus());
	bpf_map__set_max_entries(k->skel->maps.timers, kernel_cpus());
	bpf_map__set_max_entries(k->skel->maps.unit_cpus,
				 bpf_map__max_entries(k->skel->maps.unit_cpus) * kernel_cpus());
	step = "load";
	if (rsv__load(k->skel))
		goto fail;
	step = "map";
	if (!map_confs(k))
		goto fail;
	step = "attach";
	k->link = bpf_map__attach_struct_ops(k->skel->maps.rsv_ops);
	if (!k->link)
		goto fail;
	return k;
fail:
	snprintf(why, size, "%s: %s", step, strerror(errno));
	if (k) {
		int err = errno;

		rsv__destroy(k->skel);
		free(k);
		errno = err;
	}
	return NULL;
}

static struct cpu_conf *conf_of(struct kernel *k, int cpu)
{
	return (struct cpu_conf *)(k->confs + cpu * k->conf_size);
}

static bool has_server(const struct reservation *r, int cpu)
{
	__u32 i;

	for (i = 0; r && i < r->where.nr; i++) {
		if (r->where.at[i].cpu == cpu)
			return true;
	}
	return false;
}

/* After this, every task looks again which group it is in. */
static void next_generation(struct kernel *k)
{
	__atomic_add_fetch(&k->skel->data->generation, 1, __ATOMIC_SEQ_CST);
}

static void free_slots(struct kernel *k, const struct reservation *r,
		       const struct reservation *kept)
{
	__u32 i;

	for (i = 0; i < r->where.nr; i++) {
		struct cpu_conf *conf = conf_of(k, r->where.at[i].cpu);

		if (has_server(kept, r->where.at[i].cpu))
			continue;
		__atomic_store_n(&conf->rate[r->where.at[i].slot], 0, __ATOMIC_SEQ_CST);
		conf->cgid[r->where.at[i].slot] = 0;
	}
}

int kernel_apply(struct kernel *k, const struct reservation *old, const struct reservation *r,
		 __u32 switch_us)
{
	__u32 runtime_us = r->runtime_us + 2 * switch_us, i;

	if (runtime_us > r->period_us)
		runtime_us = r->period_us;
	free_slots(k, old, r);
	for (i = 0; i < r->where.nr; i++) {
		struct cpu_conf *conf = conf_of(k, r->where.at[i].cpu);
		int slot = r->where.at[i].slot;

		conf->cgid[slot] = r->cgid;
		__atomic_store_n(&conf->rate[slot], RATE(runtime_us, r->period_us),
				 __ATOMIC_SEQ_CST);
		if (conf->top < (__u64)slot)
			__atomic_store_n(&conf->top, slot, __ATOMIC_SEQ_CST);
	}
	if (old->where.nr && old->cgid != r->cgid)
		bpf_map_delete_elem(bpf_map__fd(k->skel->maps.groups), &old->cgid);
	if (bpf_map_update_elem(bpf_map__fd(k->skel->maps.groups), &r->cgid, &r->where, BPF_ANY)) {
		int err = errno;

		free_slots(k, r, NULL);
		return err;
	}
	next_generation(k);
	return 0;
}

void kernel_clear(struct kernel *k, const struct reservation *r)
{
	bpf_map_delete_elem(bpf_map__fd(k->skel->maps.groups), &r->cgid);
	free_slots(k, r, NULL);
	next_generation(k);
}

int kernel_server(struct kernel *k, int cpu, int slot, struct server *out)
{
	struct cpu_ctx *c = malloc(sizeof(*c));
	__u32 key = cpu;
	int err = 0;

	if (!c)
		return ENOMEM;
	if (bpf_map_lookup_elem(bpf_map__fd(k->skel->maps.cpus), &key, c))
		err = errno;
	else
		*out = c->servers[slot];
	free(c);
	return err;
}

struct counters kernel_counters(struct kernel *k)
{
	return k->skel->bss->counters;
}

int kernel_fd(struct kernel *k)
{
	return bpf_map__fd(k->skel->maps.ended);
}

bool kernel_ended(struct kernel *k, char *why, size_t size)
{
	struct user_exit_info *uei = &k->skel->data->uei;

	if (!UEI_EXITED(k->skel, uei))
		return false;
	snprintf(why, size, "%s%s%s", uei->reason, uei->msg[0] ? ": " : "", uei->msg);
	return true;
}

void kernel_dump(struct kernel *k, FILE *out)
{
	fputs(k->skel->data_uei_dump->uei_dump, out);
}

void kernel_stop(struct kernel *k)
{
	bpf_link__destroy(k->link);
	munmap(k->confs, k->confs_size);
	rsv__destroy(k->skel);
	free(k);
}
