"""The optimum of a set of channels: dual solver, and a certificate of how good it is."""

import lazy_loader

# What is listed in __init__.pyi is imported when it is first asked for.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
