"""Version of the installed package."""

from importlib import metadata


def _installed() -> str:
    """Version in the metadata of the installed package."""
    try:
        return metadata.version("feduplink")
    except metadata.PackageNotFoundError:
        return "from source"


#: Version in ``pyproject.toml``; ``from source`` if the package is not installed.
__version__ = _installed()
