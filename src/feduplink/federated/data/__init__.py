"""Real data sets: what they are, where they come from, and whether they are here."""

import lazy_loader

# What is listed in __init__.pyi is imported when it is first asked for.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
