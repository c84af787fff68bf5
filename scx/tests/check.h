/* SPDX-License-Identifier: GPL-2.0-only */
/* A check of the tests that run on the machine that builds; main() looks at failures. */
#include <stdio.h>

static int failures;

#define CHECK(ok)                                                   \
	do {                                                        \
		if (!(ok)) {                                        \
			printf("%s:%d: %s\n", __FILE__, __LINE__, #ok); \
			failures++;                                 \
		}                                                   \
	} while (0)
