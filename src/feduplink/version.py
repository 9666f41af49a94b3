"""Which version this is; ``pyproject.toml`` says it."""

from importlib import metadata


def _installed() -> str:
    try:
        return metadata.version("feduplink")
    except metadata.PackageNotFoundError:
        return "from source"


#: As in ``pyproject.toml``; ``from source`` where the package was not installed.
__version__ = _installed()
