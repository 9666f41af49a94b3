"""``feduplink`` and ``python -m feduplink``."""

import sys


def main() -> int:
    """Run one command; returns the exit status.

    The commands are imported here, so that Ctrl-C while they are loaded is no traceback either.
    """
    try:
        from feduplink.cli import main as run

        return run()
    except KeyboardInterrupt:
        print("feduplink: interrupted.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
