"""Entry point of ``feduplink`` and ``python -m feduplink``."""

import sys


def main() -> int:
    """Run one command.

    The commands are imported inside the ``try``, so that Ctrl-C during the import is handled too.
    The overview does not import them.

    Returns:
        The exit status, see :mod:`feduplink.cli.command_line`.
    """
    try:
        if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help", "--version"):
            from feduplink.cli import overview_parser

            overview_parser().parse_args(sys.argv[1:2] or ["--help"])  # prints and exits
        from feduplink.cli.command_line import main as run

        return run()
    except KeyboardInterrupt:
        print("feduplink: interrupted.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
