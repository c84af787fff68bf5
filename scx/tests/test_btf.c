// SPDX-License-Identifier: GPL-2.0-only
/*
 * check_btf() has to refuse a kernel with a BTF that no program can match. The archive
 * does not keep such kernels, so the BTF is made here. build.sh runs it.
 */
#include "../src/kernel.c"

int main(void)
{
	struct btf *kernel = btf__new_empty();
	struct rsv *skel = rsv__open();
	const struct btf *object;
	char why[512] = "";
	int type, proto;
	bool ok;

	if (!kernel || !skel)
		return 1;
	object = bpf_object__btf(skel->obj);
	type = btf__add_int(kernel, "int", 4, BTF_INT_SIGNED);
	proto = btf__add_func_proto(kernel, type);
	btf__add_func_param(kernel, "cpu", type);
	btf__add_func_param(kernel, "aux", type);
	ok = check_btf(kernel, object, why, sizeof(why));
	btf__add_func(kernel, "scx_bpf_kick_cpu", BTF_FUNC_GLOBAL, proto);
	ok &= !check_btf(kernel, object, why, sizeof(why)) && strstr(why, "scx_bpf_kick_cpu()");
	btf__add_func(kernel, "scx_bpf_kick_cpu_impl", BTF_FUNC_GLOBAL, proto);
	ok &= check_btf(kernel, object, why, sizeof(why));
	printf("BTF of a kernel: %s\n", ok ? "told apart" : "NOT TOLD APART");
	return !ok;
}
