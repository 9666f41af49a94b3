"""The interface of the installed version: public names, options, scenario fields, HTTP paths.

    python benchmarks/interface_inventory.py DIR

writes ``DIR/inventory.json``, which ``same_results.py compare`` and ``diff`` compare.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import inspect
import json
import pkgutil
import re
import subprocess
import sys
import types
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from same_results_jobs import Job, Request
from same_results_run import job_environment, run_job, write_json


def inventory(directory: Path) -> None:
    """Write the interface of the installed version to ``inventory.json``."""
    directory.mkdir(parents=True, exist_ok=True)
    environment = job_environment()
    packages = _packages()
    names = _described_names(packages)
    found = {
        "names": names,
        "commands": _commands(environment),
        "scenario": _scenario_fields(),
        "files": _yaml_files(),
        "http": _http_interface(directory, environment),
    }
    write_json(directory / "inventory.json", found)
    options = sum(map(len, found["commands"].values()))
    print(f"{len(packages)} packages, {len(names)} names, {options} options: inventory.json")


def _packages() -> list[types.ModuleType]:
    """The package, all packages in it and its own modules; not those whose extras are missing."""
    import feduplink

    found = [feduplink]
    for info in pkgutil.walk_packages(feduplink.__path__, "feduplink.", onerror=lambda _name: None):
        is_top_module = info.name.count(".") == 1 and not info.name.endswith("__main__")
        if info.ispkg or is_top_module:
            with contextlib.suppress(ImportError):
                found.append(importlib.import_module(info.name))
    return found


def _public_names(package: types.ModuleType) -> list[str]:
    """The names in ``__all__``, or else those without an underscore that are not imported ones.

    A package imports its names; a module defines them.
    """
    names = getattr(package, "__all__", None)
    if names is None:
        names = [name for name in dir(package) if not name.startswith("_")]
        if not hasattr(package, "__path__"):
            names = [name for name in names if _home(package, name) == package.__name__]
    return [name for name in names if _is_public(getattr(package, name, None))]


def _home(module: types.ModuleType, name: str) -> str:
    """The module that defines a name; for a constant, this one."""
    return getattr(getattr(module, name), "__module__", module.__name__)


def _is_public(value: object) -> bool:
    kinds = (types.ModuleType, type(annotations))
    return not isinstance(value, kinds)


def _described_names(packages: Iterable[types.ModuleType]) -> dict[str, dict[str, str]]:
    """What every public name is, and which packages have it."""
    found: dict[str, dict[str, str]] = {}
    for package in packages:
        for name in _public_names(package):
            entry = found.setdefault(name, {"in": "", **_described(getattr(package, name))})
            entry["in"] = f"{entry['in']} {package.__name__}".strip()
    return dict(sorted(found.items()))


def _described(value: Any) -> dict[str, str]:
    """The signature of a function, or the bases, fields, methods and properties of a class."""
    if not inspect.isclass(value):
        return {"is": _signature(value) if callable(value) else type(value).__name__}
    bases = [base.__name__ for base in value.__bases__ if base is not object]
    description = {"is": f"class({', '.join(bases)})"}
    fields = getattr(value, "model_fields", None)
    if fields is not None:
        description |= {name: repr(entry) for name, entry in fields.items()}
    else:
        description["signature"] = _signature(value)
    if dataclasses.is_dataclass(value):
        description |= {entry.name: str(entry.type) for entry in dataclasses.fields(value)}
    for name, member in inspect.getmembers_static(value):
        owner = next((base for base in value.__mro__ if name in vars(base)), object)
        if name.startswith("_") or not owner.__module__.startswith("feduplink"):
            continue
        if isinstance(member, staticmethod | classmethod):
            member = member.__func__
        description.setdefault(name, _signature(member) if callable(member) else _kind_of(member))
    return {name: re.sub(r" at 0x[0-9a-f]+", "", text) for name, text in description.items()}


def _kind_of(member: Any) -> str:
    """The type of a class attribute, and its value if that is short."""
    kind = type(member).__name__
    return f"{kind} {member!r}" if isinstance(member, str | int | float | tuple) else kind


def _signature(value: Any) -> str:
    try:
        return str(inspect.signature(value)).replace("'", "")
    except (TypeError, ValueError):
        return "(...)"


def _commands(environment: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The options of every command with their help, from ``--help``."""

    def helped(*words: str) -> str:
        command = [sys.executable, "-m", "feduplink", *words, "--help"]
        wide = {**environment, "COLUMNS": "100000"}
        done = subprocess.run(command, env=wide, capture_output=True, text=True, check=True)
        return done.stdout

    overview = helped()
    names = re.findall(r"(?m)^    ([a-z-]+)  ", overview)
    return {"": _options(overview), **{name: _options(helped(name)) for name in names}}


def _options(text: str) -> dict[str, str]:
    """The entries of a help text: option or argument, and what it says."""
    entries = re.findall(r"(?m)^ {2,4}(\S.*?)(?:  +|\n {20,})(\S.*)$", text)
    return {"description": text.partition("\n\n")[2].partition("\n")[0], **dict(entries)}


def _scenario_fields() -> dict[str, Any]:
    from feduplink import Scenario

    return {
        name: {
            "type": str(entry.annotation),
            "default": repr(entry.default),
            "description": entry.description,
        }
        for name, entry in Scenario.model_fields.items()
    }


def _yaml_files() -> dict[str, Any]:
    """The scenario files that the package holds."""
    import yaml

    import feduplink

    (root,) = feduplink.__path__
    return {
        path.name: yaml.safe_load(path.read_text("utf-8")) for path in Path(root).rglob("*.yaml")
    }


def _http_interface(directory: Path, environment: Mapping[str, str]) -> Any:
    """Paths, parameters and schemas of the service."""
    job = Job(
        "http",
        "serve --policy pdx --port 0",
        requests=(Request("interface", "/openapi.json"),),
        out=False,
    )
    status = run_job(job, directory, environment)
    answers = list((directory / job.name).glob("*.json"))
    interface = json.loads(answers[0].read_text("utf-8"))["body"] if status == 0 else None
    for path in (*answers, *directory.glob(f"{job.name}.std*")):
        path.unlink()
    (directory / job.name).rmdir()
    return interface


if __name__ == "__main__":
    inventory(Path(sys.argv[1]))
