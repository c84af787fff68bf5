# SPDX-License-Identifier: Apache-2.0
"""Programs that the lab starts as processes; nothing imports them."""
