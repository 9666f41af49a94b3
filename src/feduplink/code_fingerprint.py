"""A checksum of the code that a kept result depends on, so that other code makes it anew."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

#: The directory of the package.
PACKAGE = Path(__file__).parent

#: What training and federations compute with: a run that other code began is not resumed.
RUNS = (
    "channels",
    "evaluation",
    "feasibility",
    "federated",
    "judgement",
    "lagrangian",
    "learning",
    "link",
    "optimum",
    "policies",
    "problem",
    "randomness",
    "scenario",
    "schedule",
    "sionna",
    "utility",
)

#: Source, scenarios and weights; what Python or an editor leaves beside them does not count.
_SUFFIXES = (".py", ".yaml", ".safetensors")


@cache
def code_fingerprint(parts: tuple[str, ...], root: Path = PACKAGE) -> str:
    """SHA-256 over the names and contents of all files of ``parts``.

    These are modules or packages by their path without suffix, relative to the package.
    """
    digest = hashlib.sha256()
    for file in sorted({file for part in parts for file in _files(root / part)}):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(root).as_posix()}:{len(content)}:".encode())
        digest.update(content)
    return digest.hexdigest()


def _files(part: Path) -> list[Path]:
    """The files of a package or of a module; one that is neither raises ``FileNotFoundError``."""
    if part.is_dir():
        return [file for file in part.rglob("*") if file.suffix in _SUFFIXES]
    module = part.with_name(f"{part.name}.py")
    if not module.is_file():
        raise FileNotFoundError(f"{part}: neither a package nor a module")
    return [module]
