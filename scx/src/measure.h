/* SPDX-License-Identifier: GPL-2.0-only */
/* What a switch costs on this machine. */
#ifndef MEASURE_H
#define MEASURE_H

#include "kernel.h"

/*
 * Let a group with a reservation and an ordinary task take turns on this CPU for two
 * seconds, print what a switch took, and whether @switch_us covers it. An exit code.
 */
int measure(struct kernel *k, const char *cgroup_root, __u32 switch_us);

#endif
