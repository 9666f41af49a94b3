"""What the site adds to the pages: the API reference, and links."""

from __future__ import annotations

import ast
import posixpath
import re
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).parents[1] / "src" / "feduplink"
_LINK = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)\s]*)\)")
_IMAGE = re.compile(r'<img [^>]*src="([^"]+)"[^>]*>')
_FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)

#: Packages and modules that users import from, and what they are for.
PUBLIC = {
    "feduplink": "What most programs need",
    "feduplink.channels": "Channels",
    "feduplink.link": "The link",
    "feduplink.workflows": "Workflows",
    "feduplink.policies": "Policies",
    "feduplink.lagrangian": "The Lagrangian of one channel",
    "feduplink.training": "Training",
    "feduplink.optimum": "The optimum",
    "feduplink.scheduling": "Schedules of a round",
    "feduplink.federated": "Federated learning",
    "feduplink.federated.models": "Federated models",
    "feduplink.federated.tasks": "Federated tasks that ship",
    "feduplink.federated.data": "Data sets",
    "feduplink.flower": "Flower",
    "feduplink.export": "ONNX files",
    "feduplink.proofs": "Proofs",
    "feduplink.experiments": "Figures of the paper",
    "feduplink.serving": "The service",
    "feduplink.serving.playground": "The playground",
}
#: Modules without ``__all__``: all that has no underscore is public.
MODULES = {
    "feduplink.registry": "Names",
    "feduplink.problem": "Problems",
    "feduplink.judgement": "Judging",
    "feduplink.errors": "Errors",
    "feduplink.scenario": "Scenarios",
    "feduplink.progress": "Progress and callbacks",
    "feduplink.reporting.comparison": "Plots of comparisons",
    "feduplink.reporting.training": "Plots of trainings",
    "feduplink.reporting.federated": "Plots of federations",
    "feduplink.link.bler": "Block error curves",
}


def public_names(module: str) -> list[str]:
    """What a package offers: the ``__all__`` of its stub or of itself."""
    directory = _PACKAGE.joinpath(*module.split(".")[1:])
    stub = directory / "__init__.pyi"
    source = stub if stub.exists() else directory / "__init__.py"
    for statement in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            return [str(name) for name in ast.literal_eval(statement.value)]
    raise ValueError(f"{module} has no __all__")


def reference_pages() -> dict[str, str]:
    """The pages of the API reference, by their path below the documentation."""
    pages = {}
    for module, title in PUBLIC.items():
        # Sub-packages have a page of their own.
        names = [
            name
            for name in public_names(module)
            if name != "__version__" and f"{module}.{name}" not in PUBLIC
        ]
        symbols = "\n\n".join(f"::: {module}.{name}" for name in names)
        pages[f"reference/{module}.md"] = f"# {title}: `{module}`\n\n{symbols}\n"
    for module, title in MODULES.items():
        pages[f"reference/{module}.md"] = f"# {title}: `{module}`\n\n::: {module}\n"
    listed = "\n".join(
        f"- [`{module}`](reference/{module}.md): {title[0].lower()}{title[1:]}"
        for module, title in {**PUBLIC, **MODULES}.items()
    )
    pages["reference.md"] = (
        "# API reference\n\nEvery public name, from its docstring. Tensors are given with their "
        f"shape, L workers and N channels, and their unit.\n\n{listed}\n"
    )
    return pages


def on_config(config: Any, **_further: Any) -> Any:
    """List the pages of the API reference below that which names them."""
    below = [{module: f"reference/{module}.md"} for module in (*PUBLIC, *MODULES)]
    config.nav[-1] = {"Reference": ["reference.md", *below]}
    return config


def on_files(files: Any, config: Any, **_further: Any) -> Any:
    """Add the API reference, which lies in no file of its own."""
    from mkdocs.structure.files import File

    for path, content in reference_pages().items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_further: Any) -> str:
    """Links out of the documentation, to examples or the README, lead to the repository.

    Where no address of it is known (``extra.repository`` in ``mkdocs.yml``), the path stands there
    instead of a link.
    """
    address = config.extra.get("repository")

    def outside(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), link[2]))
        if not target.startswith("../"):
            return link[0]
        path, hash_sign, anchor = target.removeprefix("../").partition("#")
        if address:
            return f"[{link[1]}]({address}/blob/main/{path}{hash_sign}{anchor})"
        return link[1] if path in link[1] else f"{link[1]} (`{path}`)"

    prose = _FENCE.split(markdown)
    prose[::2] = [_LINK.sub(outside, text) for text in prose[::2]]
    return "".join(prose)


def on_page_content(html: str, **_further: Any) -> str:
    """A figure leads to itself in full size: on a phone its numbers are too small to read."""
    return _IMAGE.sub(r'<a href="\1">\g<0></a>', html)
