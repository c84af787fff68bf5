# SPDX-License-Identifier: Apache-2.0
"""The commands that hold a server's link to its rate."""

import math

from nova_rt.cmd.model import columns
from nova_rt.model import inputs, tandem

# The largest segment that a network device hands on as one. A bucket that
# never holds one drops all of them.
_SEGMENT_BIT = 8 * 65_535
# Of the requests that may be late, those that may be lost.
_LOST = 0.1
_KILO = 1000
# What Neutron's database holds.
_MOST_KBIT = 2**31 - 1


def tell(
    link_bit_per_s: float,
    size_bit: float,
    rate_per_s: float,
    fraction: float | None,
) -> columns.Told:
    """Write the commands that limit a server's link by Neutron.

    The rate is rounded up: a slower link is not the one that was asked about.

    :param size_bit: mean size of a request
    :param fraction: of the requests that are in time; default: 0.99
    :returns: commands, one on each line for programs
    """
    lost = max(_LOST * (1 - (fraction or 0.99)), inputs.LEAST)
    bucket_bit = tandem.bucket_bit(size_bit, link_bit_per_s, rate_per_s, lost)
    kbps = math.ceil(link_bit_per_s / _KILO)
    burst_kbit = math.ceil(max(bucket_bit, _SEGMENT_BIT) / _KILO)
    if max(kbps, burst_kbit) > _MOST_KBIT:
        return columns.Told(
            None, f'no rule: Neutron knows {_MOST_KBIT} kbit/s at most'
        )
    name = f'rt.link-{kbps}-{burst_kbit}'
    lines = (
        f'openstack network qos policy create {name}',
        f'openstack network qos rule create {name} \\',
        '    --type bandwidth-limit --ingress \\',
        f'    --max-kbps {kbps} --max-burst-kbits {burst_kbit}',
        f'openstack port set PORT --qos-policy {name}',
    )
    return columns.Told('\n'.join(lines).replace(' \\\n   ', ''), *lines)
