# SPDX-License-Identifier: Apache-2.0
"""The privileged context: what nova_rt may do that its service may not.

Two capabilities, each needed: CAP_DAC_OVERRIDE to make the partition, because
the top directory of a control group hierarchy is writable for nobody, root
included; CAP_SYS_NICE to give tasks a real-time policy and, on a kernel that
guarantees, to reserve.
"""

from oslo_privsep import capabilities, priv_context

rt_pctxt = priv_context.PrivContext(
    'nova_rt',
    cfg_section='nova_rt_privileged',
    pypath=f'{__name__}.rt_pctxt',
    capabilities=[
        capabilities.CAP_DAC_OVERRIDE,
        capabilities.CAP_SYS_NICE,
    ],
)
