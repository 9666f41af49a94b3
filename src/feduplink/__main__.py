"""Entry point of ``feduplink`` and ``python -m feduplink``."""

import sys


def main() -> int:
    """Run one command.

    The commands are imported inside the ``try``, so that Ctrl-C during the import is handled too.

    Returns:
        The exit status, see :mod:`feduplink.cli`.
    """
    try:
        from feduplink.cli import main as run

        return run()
    except KeyboardInterrupt:
        print("feduplink: interrupted.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
