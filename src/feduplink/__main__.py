"""``python -m feduplink``."""

import sys

from feduplink.cli import main

sys.exit(main())
