# SPDX-License-Identifier: Apache-2.0
"""What extends ``nova.virt``, at the same paths."""
