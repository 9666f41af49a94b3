"""The uplink: what a worker's link is worth at given powers, and what a round of uploads takes.

Pure functions, batched over leading dimensions: ``csi`` is (..., L, L), ``power`` (..., L) in W,
results are (..., L). All are differentiable, also where a power is zero, and keep the dtype. The
radio's constants are scalars, or tensors (L,) where they differ from worker to worker.

>>> import torch
>>> from feduplink.link import sinr
>>> csi = torch.tensor([[100.0, 10.0], [5.0, 50.0]])
>>> sinr(csi, torch.tensor([0.01, 0.02]))
tensor([0.8333, 0.9524])
"""

import lazy_loader

# What is listed in __init__.pyi is imported when it is first asked for.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
