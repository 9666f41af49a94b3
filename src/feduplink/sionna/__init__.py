"""What Sionna gives: 3GPP channels, with ``pip install 'feduplink[sionna]'``.

Nothing else imports this package; registered names lead to it when they are asked for.
"""

import torch

from feduplink.errors import InputError

try:
    # Sionna seeds PyTorch's global generator when it is imported, which is not ours to change.
    with torch.random.fork_rng(devices=[]):
        import sionna.phy  # noqa: F401
except ImportError:
    raise InputError(
        "sionna: is not installed; accepted after pip install 'feduplink[sionna]'."
    ) from None
