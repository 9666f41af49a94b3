"""The allocation service: transmit powers and schedules for CSI, by HTTP.

:func:`serve` runs it; :mod:`feduplink.serving.app` is the ASGI application. Both need the extra
``serve``, which is not imported before.
"""

from feduplink.serving.limits import Limits
from feduplink.serving.listening import serve

__all__ = ["Limits", "serve"]
