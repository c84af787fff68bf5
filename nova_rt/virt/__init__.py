# SPDX-License-Identifier: Apache-2.0
"""Extensions of ``nova.virt``, at the same paths."""
