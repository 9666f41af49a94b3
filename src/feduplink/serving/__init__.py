"""HTTP service that computes transmit powers and schedules from CSI.

:func:`serve` runs it; :mod:`feduplink.serving.app` is the ASGI application. Both need the extra
``serve``, which is imported on use.
"""

from feduplink.serving.limits import Limits
from feduplink.serving.listening import serve

__all__ = ["Limits", "serve"]
