"""Power policies: one per file, all with ``allocate(H)``."""

import lazy_loader

# What is listed in __init__.pyi is imported when it is first asked for.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
