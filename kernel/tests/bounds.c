// SPDX-License-Identifier: Apache-2.0
/*
 * What a reservation owes, and whether it kept that: the one place with these
 * numbers. scripts/table.py reads the verdict from the log, and
 * scripts/test_bounds.py tries the bounds.
 */
#include "guest.h"

/* A gap may be longer than the sum of the waits by this, and a period shorter. */
#define MARGIN_NS (15 * US)
#define ACCT_PPM 1000

/*
 * What a period may lack: 15 us, or 1.5 %. Beside two reservations of 0.1 ms in
 * 0.5 ms, which interrupt it 40 times in 10 ms, 2.5 %: on this CPU of one
 * instruction per ns that costs 1.4 to 2.1 %, charged to who is interrupted.
 */
uint64_t tolerance(int q_us, bool interrupted)
{
	uint64_t share = q_us * US * (interrupted ? 25 : 15) / 1000;

	return share > MARGIN_NS ? share : MARGIN_NS;
}

/* No period short, no gap longer than two waits, the accounted time right. */
bool kept(int q_us, int p_us, const struct verdict *v)
{
	return v->periods > 0 && !v->shorts &&
	       v->gap <= 2 * (p_us - q_us) * US + MARGIN_NS &&
	       v->acct_ppm > -ACCT_PPM && v->acct_ppm < ACCT_PPM;
}
