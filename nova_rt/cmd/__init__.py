# SPDX-License-Identifier: Apache-2.0
"""Programs."""

import warnings

# Said at import by oslo.privsep's eventlet to whoever starts a program of
# ours; here, because it has to come before the first import of any of them.
warnings.filterwarnings('ignore', message=r'\s*Eventlet is deprecated')
