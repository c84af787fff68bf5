# SPDX-License-Identifier: Apache-2.0
#
# Four tasks that want a CPU for so long every 100 ms.
#
#   noise.pl SECONDS_TO_RUN MILLISECONDS_OF_CPU

use strict;
use warnings;
use Time::HiRes qw(clock_gettime sleep CLOCK_MONOTONIC CLOCK_PROCESS_CPUTIME_ID);

my ($seconds, $cpu_ms) = @ARGV;
fork;
fork;
my $next = clock_gettime(CLOCK_MONOTONIC);
my $end = $next + $seconds;
while ($next < $end) {
    my $used = clock_gettime(CLOCK_PROCESS_CPUTIME_ID);
    1 while clock_gettime(CLOCK_PROCESS_CPUTIME_ID) < $used + $cpu_ms / 1000;
    $next += 0.1;
    my $left = $next - clock_gettime(CLOCK_MONOTONIC);
    sleep($left) if $left > 0;
}
