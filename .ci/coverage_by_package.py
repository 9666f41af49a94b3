"""Coverage of the last test run, one line per package and one for all of it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

PACKAGE = "src/feduplink/"


def main() -> None:
    """Print how many statements of every package some test has run."""
    with tempfile.NamedTemporaryFile() as report:
        command = [sys.executable, "-m", "coverage", "json", "--quiet", "-o", report.name]
        subprocess.run(command, check=True)
        files = json.loads(Path(report.name).read_text())["files"]
    covered: dict[str, int] = defaultdict(int)
    statements: dict[str, int] = defaultdict(int)
    for file, found in files.items():
        inside = file.removeprefix(PACKAGE)
        package = inside.split("/")[0] if "/" in inside else "top level"
        covered[package] += found["summary"]["covered_lines"]
        statements[package] += found["summary"]["num_statements"]
    for package, count in sorted(statements.items()):
        if count:
            print(f"{package:12} {100 * covered[package] / count:5.1f} %")
    total, of = sum(covered.values()), sum(statements.values())
    print(f"coverage: {100 * total / of:.1f} % of {of} statements")


if __name__ == "__main__":
    main()
