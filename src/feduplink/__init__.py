"""Transmit-power control for wireless federated learning.

>>> import torch
>>> from feduplink import FullPower, Scenario, draw_csi, evaluate
>>> scenario = Scenario(workers=4)
>>> csi = draw_csi(scenario, 100, torch.Generator().manual_seed(0))
>>> evaluate(FullPower(scenario), csi, scenario).participation
1.0
"""

import lazy_loader

# What is listed in __init__.pyi is imported when it is first asked for.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
