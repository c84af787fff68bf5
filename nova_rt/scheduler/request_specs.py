# SPDX-License-Identifier: Apache-2.0
"""Reading a RequestSpec: what a server asks for, seen from the scheduler."""

from typing import Any

from nova_rt.flavors import bounds, resources
from nova_rt.flavors.request import Request, choose_hints


def parse(spec_obj: Any, allowed: bounds.Bounds) -> Request | None:
    """Read what this server asks for.

    The hints of the RequestSpec apply if they were given with its flavor,
    which is the new one for a resize.

    :param spec_obj: nova.objects.RequestSpec
    :returns: None for a server that is not real-time
    :raises InvalidRequest: with a message for the user
    """
    flavor = spec_obj.flavor
    hints = spec_obj.scheduler_hints if 'scheduler_hints' in spec_obj else None
    specs = flavor.extra_specs if 'extra_specs' in flavor else {}
    asked = allowed.parse_request(
        specs, flavor.vcpus, choose_hints(hints, flavor.flavorid)
    )
    if asked is not None:
        resources.check_cpu_policy(
            'image property hw_cpu_policy', _image_cpu_policy(spec_obj)
        )
    return asked


def _image_cpu_policy(spec_obj: Any) -> str | None:
    image = spec_obj.image if 'image' in spec_obj else None
    if not image or 'properties' not in image:
        return None
    policy: str | None = image.properties.get('hw_cpu_policy')
    return policy
