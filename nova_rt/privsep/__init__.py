# SPDX-License-Identifier: Apache-2.0
"""The privileged context: what nova_rt may do that its service may not.

One capability: CAP_SYS_NICE, to give tasks of other users a real-time policy.
The control files belong to root, as does the daemon unless
``[nova_rt_privileged] user`` says otherwise; then CAP_DAC_OVERRIDE has to be
added to its ``capabilities``.
"""

from oslo_privsep import capabilities, priv_context

rt_pctxt = priv_context.PrivContext(
    'nova_rt',
    cfg_section='nova_rt_privileged',
    pypath=f'{__name__}.rt_pctxt',
    capabilities=[capabilities.CAP_SYS_NICE],
)
