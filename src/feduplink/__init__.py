"""Transmit-power control for wireless federated learning.

>>> import feduplink as fu
>>> scenario = fu.Scenario(workers=4)
>>> result = fu.evaluate(scenario, ["max"], channels_per_split=100)
>>> result["max"].participation
1.0
"""

import lazy_loader

# The names listed in __init__.pyi are imported at their first use.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
